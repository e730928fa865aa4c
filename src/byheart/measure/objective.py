"""Compute losses and other metrics of all models of a stack (models that train together) at once."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from byheart.errors import UsageError
from byheart.measure.draws import draw_rows
from byheart.measure.stack import Stack

Reduction = Literal["mean", "sum"]

# On a GPU, a batch is represented by counts over all rows, unless there are more than this many times as
# many rows as draws. This avoids gathers and atomic sums, so that results are reproducible to the bit. On a
# CPU, drawn rows are always cheaper.
COUNTS_UP_TO = 4


class _NegativeLogLikelihood(torch.autograd.Function):
    """The sum over targets of -weight · log-probability, for each model.

    The gradient is row_weight · probabilities minus the weights at the targets. Computing it directly takes two passes over the
    logits, whereas automatic differentiation of a gather would first fill an array with zeros.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, index: Tensor, weights: Tensor, row_weights: Tensor | None
    ) -> Tensor:
        logs = torch.log_softmax(logits, dim=2)
        ctx.save_for_backward(logs, index, weights, row_weights)
        return -(logs.view(logs.shape[0], -1).gather(1, index) * weights).sum(dim=1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        logs, index, weights, row_weights = ctx.saved_tensors
        (grad,) = grads
        scale = grad.view(-1, 1)
        per_row = weights if row_weights is None else row_weights
        slope = torch.exp(logs).mul_((per_row * scale).unsqueeze(2))
        slope.view(logs.shape[0], -1).scatter_add_(1, index, -(weights * scale))
        return slope, None, None, None


def negative_log_likelihood(
    logits: Tensor, index: Tensor, weights: Tensor, row_weights: Tensor | None = None
) -> Tensor:
    """Return the loss of each model, (n_models,): the sum over its targets of -weight · log-probability.

    `index` holds the targets of each model as flat indices into its logits, which have shape (n_rows, n_classes). `weights` holds
    the weight of each target.

    `row_weights` is the sum of the weights of each row's targets, or None if every row has exactly one target and targets are in
    the order of rows.
    """
    logits = logits.contiguous()
    loss: Tensor = _NegativeLogLikelihood.apply(logits, index, weights, row_weights)  # type: ignore[no-untyped-call]  # torch states no types here
    return loss


def answers(stack: Stack, flat: Tensor, rows: Tensor | None) -> Tensor:
    """Return the outputs of every model for `rows` (None: all inputs). At classes that a model does not have, they are -inf."""
    outputs = stack.family.outputs(stack.weights(flat), stack.tables, rows)
    bias = stack.targets.class_bias
    return outputs if bias is None else outputs + bias


def total_losses(stack: Stack, flat: Tensor) -> Tensor:
    """Return the summed loss of each model over all its samples, (n_models,)."""
    outputs, targets = answers(stack, flat, None), stack.targets
    if targets.values is not None:
        return ((outputs.squeeze(2) - targets.values).square() * targets.row_weights).sum(dim=1)
    return negative_log_likelihood(outputs, targets.pair_index, targets.pair_weights, targets.row_weights)


def uses_counts(device: torch.device, n_rows: int, batch: int) -> bool:
    """Return whether a batch is evaluated on all rows, each weighted by how often it was drawn, instead of on the drawn rows."""
    return device.type == "cuda" and n_rows <= COUNTS_UP_TO * batch


def require_batches(stack: Stack) -> None:
    """Raise `UsageError` if random batches cannot be drawn from the data of these models."""
    if stack.targets.labels is None:
        raise UsageError(
            "random batches need data in which every input has one answer and all inputs are equally frequent.\n"
            "  Set batch = 0 in [training], so that every step uses all samples."
        )


def batch_losses(stack: Stack, flat: Tensor, rows: Tensor) -> Tensor:
    """Return the summed loss of each model over the drawn `rows`, whose shape is (n_models, n_draws)."""
    require_batches(stack)
    targets = stack.targets
    assert targets.labels is not None
    n_models, n_draws = rows.shape
    if uses_counts(flat.device, targets.labels.shape[1], n_draws):
        counts = torch.zeros_like(targets.row_weights).scatter_add_(1, rows, flat.new_ones(rows.shape))
        outputs = answers(stack, flat, None)
        if targets.values is not None:
            return ((outputs.squeeze(2) - targets.values).square() * counts).sum(dim=1)
        return negative_log_likelihood(outputs, targets.pair_index, counts)
    outputs = answers(stack, flat, rows)
    if targets.values is not None:
        return (outputs.squeeze(2) - targets.values.gather(1, rows)).square().sum(dim=1)
    n_classes = outputs.shape[2]
    place = torch.arange(n_draws, device=rows.device) * n_classes
    index = targets.labels.gather(1, rows) + place
    ones = flat.new_ones(1, 1).expand(n_models, n_draws)
    return negative_log_likelihood(outputs, index, ones)


def training_losses(
    stack: Stack, flat: Tensor, seeds: Tensor, step: Tensor, places: Tensor | None, reduction: Reduction
) -> Tensor:
    """Return the loss that the optimiser minimises at `step`: over all samples or, if `places` is given, over a random batch."""
    if places is None:
        losses = total_losses(stack, flat)
        return losses / stack.targets.n_samples if reduction == "mean" else losses
    rows = draw_rows(seeds, step, places, stack.targets.n_rows)
    losses = batch_losses(stack, flat, rows)
    return losses / places.numel() if reduction == "mean" else losses


@torch.no_grad()
def measure(stack: Stack, flat: Tensor) -> dict[str, Tensor]:
    """Return the metrics of each model over all its samples, each (n_models,), in float64.

    loss: mean over samples; gap: summed loss minus the entropy of the data; relative_gap: gap divided by entropy, NaN if the
    entropy is 0; accuracy: share of samples with the right answer (for squared error: with an output of the right sign).
    """
    outputs, targets = answers(stack, flat, None), stack.targets
    samples = targets.n_samples.double()
    if targets.values is not None:
        found = outputs.squeeze(2)
        total = ((found - targets.values).double().square() * targets.row_weights).sum(dim=1)
        right = ((found > 0) == (targets.values > 0)).double() * targets.row_weights
    else:
        logs = torch.log_softmax(outputs, dim=2)
        weights = targets.pair_weights.double()
        total = -(logs.flatten(1).gather(1, targets.pair_index).double() * weights).sum(dim=1)
        n_classes = outputs.shape[2]
        rows = torch.div(targets.pair_index, n_classes, rounding_mode="floor")
        guess = outputs.argmax(dim=2).gather(1, rows)
        right = (guess == targets.pair_index - rows * n_classes).double() * weights
    # a model with an output of NaN answers nothing right
    accuracy = torch.where(total.isnan(), torch.zeros_like(total), right.sum(dim=1) / samples)
    gap = total - targets.entropy
    entropy = torch.where(targets.entropy > 0, targets.entropy, torch.nan)
    return {"loss": total / samples, "gap": gap, "relative_gap": gap / entropy, "accuracy": accuracy}
