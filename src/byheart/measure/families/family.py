"""What a family of models is: sizes and options it knows, initial weights, and a forward pass with a model axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from byheart.errors import UsageError
from byheart.measure.parameter_block import Shapes
from byheart.measure.training_set import TrainingSet

Tables = dict[str, Tensor]
Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class ModelConfig:
    """One model to train: a family, its sizes (widths, heads, depths) and its options (variants)."""

    family: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SizeField:
    """A whole number that a family can be sized by."""

    name: str
    default: int | None  # None: it must be given
    least: int
    meaning: str


@dataclass(frozen=True)
class OptionField:
    """A choice a family offers; the first is the default."""

    name: str
    choices: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a stack on its device, padded to common lengths; a shared training set is expanded, not copied."""

    tokens: Tensor | None  # (n_models, n_rows, seq_len)
    vectors: Tensor | None  # (n_models, n_rows, seq_len, dim)
    lengths: Tensor  # (n_models, n_rows)
    training_sets: tuple[TrainingSet, ...]
    is_shared: bool
    dtype: torch.dtype

    @property
    def device(self) -> torch.device:
        """Where the inputs are."""
        return self.lengths.device


class Family(Protocol):
    """A model family of the papers, with a leading model axis on every weight and activation."""

    @property
    def name(self) -> str:
        """What specifications call it."""

    @property
    def source(self) -> str:
        """Where it is defined."""

    @property
    def takes_vectors(self) -> bool:
        """Whether inputs may be real vectors; token ids are always taken."""

    @property
    def size_fields(self) -> tuple[SizeField, ...]:
        """The sizes it has."""

    @property
    def option_fields(self) -> tuple[OptionField, ...]:
        """The choices it offers."""

    def shapes(self, model: ModelConfig, training_set: TrainingSet) -> Shapes:
        """True shape of each weight; every axis may be padded at its end."""

    def initial(
        self, model: ModelConfig, training_set: TrainingSet, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Initial weights of one model, float64, at their true shapes."""

    def frozen_names(self, model: ModelConfig) -> frozenset[str]:
        """Names of weights that are not trained."""

    def tables(self, models: Sequence[ModelConfig], inputs: Inputs) -> Tables:
        """Everything the forward pass needs that no weight changes, computed once."""

    def outputs(self, weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
        """Answers (n_models, n_rows, n_outputs) for all rows, or for the drawn `rows` (n_models, n_draws)."""


def complete_model(family: Family, model: ModelConfig) -> ModelConfig:
    """`model` with defaults filled in; a `UsageError` if it names what the family does not know."""
    sizes, options = dict(model.sizes), dict(model.options)
    known = {f.name for f in family.size_fields} | {o.name for o in family.option_fields}
    for name in [*sizes, *options]:
        if name not in known:
            raise UsageError(
                f"family {family.name} has no size or option `{name}`.\n  It knows: {', '.join(sorted(known))}.",
                family=family.name,
                name=name,
            )
    for size in family.size_fields:
        if size.name not in sizes:
            if size.default is None:
                raise UsageError(
                    f"family {family.name} needs the size `{size.name}` ({size.meaning}).",
                    family=family.name,
                    name=size.name,
                )
            sizes[size.name] = size.default
        value = sizes[size.name]
        if isinstance(value, bool) or not isinstance(value, int) or value < size.least:
            raise UsageError(
                f"`{size.name}` of family {family.name} must be a whole number of at least {size.least};"
                f" got {value!r}.",
                family=family.name,
                name=size.name,
                value=value,
            )
    for option in family.option_fields:
        choice = options.setdefault(option.name, option.choices[0])
        if choice not in option.choices:
            raise UsageError(
                f"`{option.name}` of family {family.name} must be one of {', '.join(option.choices)};"
                f" got {choice!r}.",
                family=family.name,
                name=option.name,
                value=choice,
            )
    return ModelConfig(model.family, dict(sorted(sizes.items())), dict(sorted(options.items())))


def uniform(generator: torch.Generator, shape: tuple[int, ...], fan_in: float) -> Tensor:
    """Uniform on ±1/√fan_in, the framework's default for linear maps."""
    drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
    return (2 * drawn - 1) / math.sqrt(max(fan_in, 1))


def normal(generator: torch.Generator, shape: tuple[int, ...], scale: float = 1.0) -> Tensor:
    """Normal with standard deviation `scale`."""
    return torch.randn(shape, generator=generator, dtype=torch.float64) * scale


def per_model(models: Sequence[ModelConfig], size: str, inputs: Inputs) -> Tensor:
    """One size of every model, (n_models,), in the number type of the stack."""
    return torch.tensor([model.sizes[size] for model in models], dtype=inputs.dtype, device=inputs.device)


def take_rows(table: Tensor, rows: Tensor | None) -> Tensor:
    """`table` (n_models, n_rows, ...) at the drawn rows, or whole."""
    if rows is None:
        return table
    index = rows.view(*rows.shape, *(1 for _ in table.shape[2:])).expand(*rows.shape, *table.shape[2:])
    return table.gather(1, index)
