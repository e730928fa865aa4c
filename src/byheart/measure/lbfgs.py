"""Full-batch L-BFGS for all models of a stack (models that train together), each with its own strong Wolfe line search.

Each round evaluates all models once, each at its own trial point. If a model's trial point is accepted, the model gets a new
direction in the same round, while other models continue their line searches. So no model waits for another.

The algorithms are 3.5, 3.6 and 7.4 of Nocedal & Wright, Numerical Optimization. Every quantity has one entry per model, and
`torch.where` chooses between cases for each model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

ARMIJO, CURVATURE = 1e-4, 0.9
MOST_TRIALS = 20
GROWTH = 2.5  # the factor by which the step grows while no minimum is bracketed
MARGIN = 0.1  # a trial stays this share of the bracket away from its ends

# flat -> (losses (n_models,), gradients (n_models, n_flat))
Objective = Callable[[Tensor], tuple[Tensor, Tensor]]


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=1, keepdim=True)


class StackedLBFGS:
    """An L-BFGS optimiser for every model of a stack. Each model has its own state."""

    def __init__(self, flat: Tensor, objective: Objective, history: int) -> None:
        """Compute the losses and gradients of the initial weights `flat`. This does not count as a round."""
        self.flat, self.objective = flat, objective
        n_models = flat.shape[0]
        self.loss, self.grad = self._evaluate(flat)
        zero = flat.new_zeros(n_models, 1)
        self.steps = flat.new_zeros(history, *flat.shape)  # s_k of each model, newest last
        self.changes = flat.new_zeros(history, *flat.shape)  # y_k
        self.inverse = flat.new_zeros(history, n_models, 1)  # 1 / (s_k · y_k), 0 where there is no pair
        self.active = torch.ones_like(zero, dtype=torch.bool)
        self.direction = -self.grad
        self.trial = self._first_trial()
        self.low_step, self.low_loss, self.low_slope = zero.clone(), self.loss.clone(), zero.clone()
        self.high_step, self.high_loss, self.high_slope = zero.clone(), zero.clone(), zero.clone()
        self.low_grad = self.grad.clone()
        self.slope = _dot(self.grad, self.direction)
        self.low_slope = self.slope.clone()
        self.bracketed = torch.zeros_like(self.active)
        self.trials = torch.zeros_like(zero)

    def _evaluate(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        losses, grad = self.objective(flat)
        losses = losses.view(-1, 1)
        return torch.where(losses.isfinite(), losses, torch.inf), torch.nan_to_num(grad)

    def _first_trial(self) -> Tensor:
        return torch.clamp(1 / self.grad.abs().sum(dim=1, keepdim=True).clamp(min=1e-30), max=1.0)

    def run(self, rounds: int) -> None:
        """Run `rounds` rounds, each of which is one evaluation of every model."""
        for _ in range(rounds):
            self._round()

    def _round(self) -> None:
        loss, grad = self._evaluate(self.flat + self.trial * self.direction)
        slope = _dot(grad, self.direction)
        self.trials += 1
        too_high = (loss > self.loss + ARMIJO * self.trial * self.slope) | (
            (loss >= self.low_loss) & (self.bracketed | (self.trials > 1))
        )
        flat_enough = slope.abs() <= -CURVATURE * self.slope
        accept = ~too_high & flat_enough

        # A trial that is neither accepted nor failed moves an end of the bracket, or creates the bracket.
        to_high = too_high
        turns = (
            ~too_high
            & ~flat_enough
            & torch.where(self.bracketed, slope * (self.high_step - self.low_step) >= 0, slope >= 0)
        )
        self._move("high", turns, self.low_step, self.low_loss, self.low_slope)
        self._move("high", to_high, self.trial, loss, slope)
        to_low = ~too_high
        self._move("low", to_low, self.trial, loss, slope)
        self.low_grad = torch.where(to_low, grad, self.low_grad)
        self.bracketed = self.bracketed | to_high | turns
        next_trial = torch.where(self.bracketed, self._between(), self.trial * GROWTH)

        # A search that exceeds its limit takes its best point, or restarts along the gradient.
        narrow = self.bracketed & (
            (self.high_step - self.low_step).abs() * self.slope.abs() < 1e-16 * self.loss.abs()
        )
        exhausted = ~accept & ((self.trials >= MOST_TRIALS) | narrow)
        step = torch.where(accept, self.trial, self.low_step)
        moved = accept | (exhausted & (self.low_step > 0))
        failed = exhausted & ~moved
        loss, grad = torch.where(accept, loss, self.low_loss), torch.where(accept, grad, self.low_grad)
        self.trial = next_trial
        self._advance(moved & self.active, failed & self.active, step, loss, grad)

    def _move(self, end: str, where: Tensor, step: Tensor, loss: Tensor, slope: Tensor) -> None:
        for name, value in (("step", step), ("loss", loss), ("slope", slope)):
            field = f"{end}_{name}"
            setattr(self, field, torch.where(where, value, getattr(self, field)))

    def _between(self) -> Tensor:
        """Return the step at which the cubic interpolation of the loss in the bracket is smallest, moved away from the ends of the
        bracket if necessary. If there is no such step, return the middle.
        """
        low, high = self.low_step, self.high_step
        width = high - low
        d1 = self.low_slope + self.high_slope - 3 * (self.low_loss - self.high_loss) / (low - high)
        d2 = (d1.square() - self.low_slope * self.high_slope).clamp(min=0).sqrt() * width.sign()
        cubic = high - width * (self.high_slope + d2 - d1) / (self.high_slope - self.low_slope + 2 * d2)
        share = ((cubic - low) / width).clamp(MARGIN, 1 - MARGIN)
        return low + width * torch.where(share.isfinite(), share, 0.5)

    def _advance(self, moved: Tensor, failed: Tensor, step: Tensor, loss: Tensor, grad: Tensor) -> None:
        """Move the models in `moved` by their `step`. Clear the history of the models in `failed`, whose line search found no step.

        The models of both groups get a new search direction. A move is added to the history only if its curvature is positive.
        """
        if not bool((moved | failed).any()):
            return
        change, travel = grad - self.grad, step * self.direction
        curvature = _dot(change, travel)
        keep = moved & (curvature > 1e-10 * _dot(change, change).sqrt() * _dot(travel, travel).sqrt())
        self.flat = torch.where(moved, self.flat + travel, self.flat)
        self.loss, self.grad = torch.where(moved, loss, self.loss), torch.where(moved, grad, self.grad)
        for past, new in ((self.steps, travel), (self.changes, change), (self.inverse, 1 / curvature)):
            shifted = torch.cat([past[1:], new.unsqueeze(0)])
            past.copy_(torch.where(keep, shifted, past))
        # If a search failed, clear the history and search along the gradient.
        self.inverse.copy_(torch.where(failed, torch.zeros_like(self.inverse), self.inverse))
        direction = self._two_loops()
        slope = _dot(self.grad, direction)
        uphill = ~(slope < 0)
        direction = torch.where(uphill, -self.grad, direction)
        restart = moved | failed
        first = torch.where(self.inverse[-1] == 0, self._first_trial(), torch.ones_like(self.trial))
        self.direction = torch.where(restart, direction, self.direction)
        self.slope = _dot(self.grad, self.direction)
        self.trial = torch.where(restart, first, self.trial)
        self.trials = torch.where(restart, torch.zeros_like(self.trials), self.trials)
        self.bracketed = self.bracketed & ~restart
        zero = torch.zeros_like(self.trial)
        self._move("low", restart, zero, self.loss, self.slope)
        self.low_grad = torch.where(restart, self.grad, self.low_grad)

    def _two_loops(self) -> Tensor:
        """Return the new search directions, by algorithm 7.4 of Nocedal & Wright (the two-loop recursion).

        If a model has a shorter history than others, its missing entries have no effect, because `self.inverse` is zero there.
        """
        q = self.grad.clone()
        weights = []
        for s, y, inverse in zip(self.steps.flip(0), self.changes.flip(0), self.inverse.flip(0), strict=True):
            weight = inverse * _dot(s, q)
            q = q - weight * y
            weights.append(weight)
        newest = _dot(self.changes[-1], self.changes[-1]) * self.inverse[-1]
        q = q * torch.where(newest > 0, 1 / newest, 1.0)
        for s, y, inverse, weight in zip(
            self.steps, self.changes, self.inverse, reversed(weights), strict=True
        ):
            q = q + s * (weight - inverse * _dot(y, q))
        return -q

    def freeze(self, models: Sequence[int]) -> None:
        """Stop these models at their current weights."""
        self.active[list(models)] = False

    def take(self, flat: Tensor, models: Tensor) -> None:
        """Keep only the state of `models`. Their weights are given in `flat`."""
        self.flat = flat
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and name != "flat":
                axis = 1 if name in ("steps", "changes", "inverse") else 0
                setattr(self, name, value.index_select(axis, models))
