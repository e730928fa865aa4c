"""Combine models and their training sets in a stack: padded inputs, targets, masks and initial weights on one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from byheart.errors import UsageError
from byheart.measure.families import Family, Inputs, ModelConfig, complete_model, family_of
from byheart.measure.parameter_block import ParameterBlock
from byheart.measure.training_set import TrainingSet


@dataclass(frozen=True, eq=False)
class StackTargets:
    """The targets of all models of a stack (models that train together).

    A row is a distinct input of a model or, for squared error, a sample. A pair is a row and one of its target classes, stored in
    `pair_index` as the number row · n_classes + class. Padded rows and pairs have weight 0.
    """

    pair_index: Tensor  # (n_models, n_targets): row · n_classes + class
    pair_weights: Tensor  # (n_models, n_targets)
    row_weights: Tensor  # (n_models, n_rows)
    labels: (
        Tensor | None
    )  # (n_models, n_rows) if batches can be drawn: every row has one answer and the same weight
    values: Tensor | None  # (n_models, n_rows) for squared error
    # (n_models, 1, n_classes), minus infinity at classes that a model does not have
    class_bias: Tensor | None
    n_rows: Tensor  # (n_models, 1)
    n_samples: Tensor  # (n_models,)
    entropy: Tensor  # (n_models,)


@dataclass(frozen=True, eq=False)
class Stack:
    """Models of one family that train together, with their training sets."""

    family: Family
    models: tuple[ModelConfig, ...]
    training_sets: tuple[TrainingSet, ...]
    seeds: tuple[int, ...]
    layout: ParameterBlock  # the layout of the trained weights
    # frozen weights, (n_models, *padded shape), which the optimiser does not change, not even by decay
    fixed: dict[str, Tensor]
    inputs: Inputs
    tables: dict[str, Tensor]
    targets: StackTargets
    mask: Tensor | None  # (n_models, n_flat) of the number type; None where nothing is padded

    @property
    def device(self) -> torch.device:
        return self.inputs.device

    @property
    def dtype(self) -> torch.dtype:
        """Number type of weights and activations."""
        return self.inputs.dtype

    def initial(self) -> Tensor:
        """Return the initial weights of all models, (n_models, n_flat). For each model, they are drawn with its own seed, on the
        CPU in float64.
        """
        return _draw_weights(self.family, self.models, self.training_sets, self.seeds, self.layout).to(
            self.device, self.dtype
        )

    def weights(self, flat: Tensor) -> dict[str, Tensor]:
        """Return all weights by name: those in `flat` and the frozen ones."""
        return self.layout.views(flat) | self.fixed

    def n_parameters(self, model: int) -> int:
        """Return the number of trained parameters of one model."""
        return sum(int(np.prod(shape)) for shape in self.layout.true_shapes[model].values())


def make_stack(
    models: Sequence[ModelConfig],
    training_sets: Sequence[TrainingSet],
    seeds: Sequence[int],
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Stack:
    """Combine `models` in a stack, so that they train together, each with its own training set and seed.

    Sizes may differ, but family and options must be equal.
    """
    family = family_of(models[0].family)
    models = tuple(complete_model(family, model) for model in models)
    if len(models) > 1 and not family.is_stacked:
        raise UsageError(
            f"models of family {family.name} cannot train together; train them one at a time.",
            family=family.name,
        )
    if any(m.family != family.name or m.options != models[0].options for m in models):
        raise UsageError("models of one stack must share their family and options; only sizes may differ.")
    first = training_sets[0]
    for training_set in training_sets:
        if (training_set.loss, training_set.read, training_set.n_vocab > 0) != (
            first.loss,
            first.read,
            first.n_vocab > 0,
        ):
            raise UsageError(
                "models of one stack must share the loss, the token at which the answer is read (first or last), "
                "and the kind of inputs (token ids or vectors)."
            )
    if first.n_vocab == 0 and not family.takes_vectors:
        raise UsageError(
            f"family {family.name} needs token ids, but these data are vectors.", family=family.name
        )
    shapes = [family.shapes(m, p) for m, p in zip(models, training_sets, strict=True)]
    if any(tuple(shape) != tuple(shapes[0]) for shape in shapes):
        raise UsageError(
            "models of one stack must have weights of the same names; only their sizes may differ."
        )
    if first.read not in family.reads:
        raise UsageError(
            f"models of family {family.name} answer at the last token, but the answers of these data are read at the first.\n"
            '  Set read = "last" in [data], or choose another family.',
            family=family.name,
        )
    frozen = family.frozen_names(models[0], first) & shapes[0].keys()
    layout = ParameterBlock.of([{k: v for k, v in model.items() if k not in frozen} for model in shapes])
    device = torch.device(device)
    fixed: dict[str, Tensor] = {}
    if frozen:
        still = ParameterBlock.of([{k: v for k, v in model.items() if k in frozen} for model in shapes])
        fixed = still.views(_draw_weights(family, models, training_sets, seeds, still).to(device, dtype))
    inputs = _inputs(tuple(training_sets), device, dtype)
    family = family.for_stack(models, inputs, seeds)
    return Stack(
        family=family,
        models=models,
        training_sets=tuple(training_sets),
        seeds=tuple(seeds),
        layout=layout,
        fixed=fixed,
        inputs=inputs,
        tables=family.tables(models, inputs),
        targets=_targets(tuple(training_sets), inputs, device, dtype),
        mask=None if layout.is_even else layout.mask().to(device, dtype),
    )


def _draw_weights(
    family: Family,
    models: Sequence[ModelConfig],
    training_sets: Sequence[TrainingSet],
    seeds: Sequence[int],
    layout: ParameterBlock,
) -> Tensor:
    """Draw the initial weights that are named in `layout`, in float64. Those of each model are drawn with its own seed."""
    found = []
    for model, training_set, seed in zip(models, training_sets, seeds, strict=True):
        drawn = family.initial(model, training_set, torch.Generator().manual_seed(seed))
        found.append({name: drawn[name] for name in layout.names})
    return layout.pack(found)


def _is_shared(training_sets: tuple[TrainingSet, ...], array: Callable[[TrainingSet], np.ndarray]) -> bool:
    first = array(training_sets[0])
    return all(array(p) is first or np.array_equal(array(p), first) for p in training_sets[1:])


def _side_by_side(
    training_sets: tuple[TrainingSet, ...], array: Callable[[TrainingSet], np.ndarray], fill: float = 0
) -> np.ndarray:
    """Combine the arrays that the function `array` selects from the training sets, one from each. Pad them with `fill`.

    The result has shape (n_models, *padded shape), or (1, *shape) if all selected arrays are equal.
    """
    if _is_shared(training_sets, array):
        return array(training_sets[0])[None]
    pieces = [array(training_set) for training_set in training_sets]
    shape = tuple(max(axis) for axis in zip(*(piece.shape for piece in pieces), strict=True))
    out = np.full((len(pieces), *shape), fill, dtype=pieces[0].dtype)
    for number, piece in enumerate(pieces):
        out[number][tuple(slice(n) for n in piece.shape)] = piece
    return out


def _inputs(training_sets: tuple[TrainingSet, ...], device: torch.device, dtype: torch.dtype) -> Inputs:
    n_models = len(training_sets)
    is_shared = _is_shared(training_sets, lambda p: p.inputs) and _is_shared(
        training_sets, lambda p: p.lengths
    )
    values = torch.from_numpy(_side_by_side(training_sets, lambda p: p.inputs).copy())
    lengths = torch.from_numpy(_side_by_side(training_sets, lambda p: p.lengths, fill=1).copy())
    values = values.to(device, dtype if values.is_floating_point() else torch.int64)
    values = values.expand(n_models, *values.shape[1:])
    is_tokens = training_sets[0].n_vocab > 0
    return Inputs(
        tokens=values if is_tokens else None,
        vectors=None if is_tokens else values,
        lengths=lengths.to(device).expand(n_models, -1),
        training_sets=training_sets,
        is_shared=is_shared,
        dtype=dtype,
    )


def _targets(
    training_sets: tuple[TrainingSet, ...], inputs: Inputs, device: torch.device, dtype: torch.dtype
) -> StackTargets:
    n_models, n_rows = inputs.lengths.shape
    n_classes = max(training_set.n_classes for training_set in training_sets)

    def tensor(array: Callable[[TrainingSet], np.ndarray], kind: torch.dtype) -> Tensor:
        side = torch.from_numpy(_side_by_side(training_sets, array).copy()).to(device, kind)
        return side.expand(n_models, *side.shape[1:]).contiguous()

    index = tensor(lambda p: p.rows * n_classes + p.classes, torch.int64)
    weights = tensor(lambda p: p.weights, dtype)
    rows = torch.div(index, n_classes, rounding_mode="floor")
    row_weights = torch.zeros(n_models, n_rows, dtype=dtype, device=device).scatter_add_(1, rows, weights)
    # A batch is drawn uniformly over rows, which is correct only if every row stands for the same number of samples.
    even = all(p.has_one_answer and bool((p.weights == p.weights[0]).all()) for p in training_sets)
    counts = {training_set.n_classes for training_set in training_sets}
    bias = None
    if len(counts) > 1:
        has = torch.tensor([p.n_classes for p in training_sets], device=device).view(-1, 1, 1)
        absent = torch.arange(n_classes, device=device).view(1, 1, -1) >= has
        bias = torch.zeros(n_models, 1, n_classes, dtype=dtype, device=device).masked_fill(absent, -torch.inf)
    return StackTargets(
        pair_index=index,
        pair_weights=weights,
        row_weights=row_weights,
        labels=tensor(lambda p: p.classes, torch.int64) if even else None,
        values=tensor(lambda p: np.asarray(p.values), dtype) if training_sets[0].loss == "squared" else None,
        class_bias=bias,
        n_rows=torch.tensor([[p.n_rows] for p in training_sets], device=device),
        n_samples=torch.tensor([p.n_samples for p in training_sets], dtype=dtype, device=device),
        entropy=torch.tensor([p.entropy for p in training_sets], dtype=torch.float64, device=device),
    )
