"""Train a stack of models together with Adam or AdamW. Their weights are one flat array, and each model has its own learning rate,
warm-up and weight decay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from byheart.measure.recipe import Training

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # the framework's defaults; no paper states other values


class Adam:
    """Adam (Kingma & Ba 2015), or AdamW (Loshchilov & Hutter 2019) for models whose weight decay is not 0.

    The state is updated in place and the step count is on the device, so that a step can be captured in a CUDA graph.
    """

    def __init__(self, flat: Tensor, trainings: Sequence[Training], mask: Tensor | None) -> None:
        """Start at step 0. The running means of the gradient and of its square are zero."""

        def column(numbers: Sequence[float]) -> Tensor:
            return torch.tensor(numbers, dtype=torch.float64, device=flat.device).view(-1, 1).to(flat.dtype)

        self.flat, self.mask = flat, mask
        self.first, self.second = torch.zeros_like(flat), torch.zeros_like(flat)
        self.step = torch.zeros((), dtype=torch.int64, device=flat.device)
        self.rate = column([t.learning_rate for t in trainings])
        self.warmup = column([max(t.warmup, 1) for t in trainings])
        self.n_steps = column([t.steps for t in trainings])
        self.decay = column([t.weight_decay for t in trainings])
        self.is_cosine = trainings[0].schedule == "cosine"
        self.has_decay = any(t.weight_decay for t in trainings)

    def update(self, grad: Tensor) -> None:
        """Make one step with the gradient `grad` (n_models, n_flat)."""
        if self.mask is not None:
            grad = grad * self.mask
        self.step.add_(1)
        count = self.step.to(self.rate.dtype)
        rate = self.rate * torch.clamp(count / self.warmup, max=1.0)
        if self.is_cosine:
            rate = rate * 0.5 * (1 + torch.cos(math.pi * torch.clamp(count / self.n_steps, max=1.0)))
        if self.has_decay:
            self.flat.mul_(1 - rate * self.decay)
        exact = self.step.double()  # computed in float32, 1 - 0.999^t would lose half its digits
        correction_1 = (1 - BETA_1**exact).to(rate.dtype)
        correction_2 = (1 - BETA_2**exact).sqrt().to(rate.dtype)
        self.first.lerp_(grad, 1 - BETA_1)
        self.second.mul_(BETA_2).addcmul_(grad, grad, value=1 - BETA_2)
        spread = self.second.sqrt().div_(correction_2).add_(EPSILON)
        self.flat.sub_(torch.div(self.first, spread, out=spread).mul_(rate / correction_1))

    def freeze(self, models: Sequence[int]) -> None:
        """Set the learning rate of these models to 0, so that their weights no longer change."""
        self.rate[list(models)] = 0

    def take(self, flat: Tensor, models: Tensor, mask: Tensor | None) -> None:
        """Keep only the state of `models`. Their weights are given in `flat`."""
        self.flat, self.mask = flat, mask
        for name in ("first", "second", "rate", "warmup", "n_steps", "decay"):
            setattr(self, name, getattr(self, name)[models].clone())
