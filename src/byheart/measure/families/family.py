"""What a family of models is: sizes and options it knows, initial weights, and a forward pass with a model axis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from byheart.measure.families.config import ModelConfig, OptionField, SizeField
from byheart.measure.families.inputs import Inputs, Tables, Weights
from byheart.measure.parameter_block import Shapes
from byheart.measure.training_set import TrainingSet


class Family(ABC):
    """A model family of the papers, with a leading model axis on every weight and activation."""

    name: str  # what specifications call it
    source: str  # where it is defined
    takes_vectors: bool = False  # inputs may be real vectors; token ids are always taken
    is_stacked: bool = True  # whether several models train as one computation
    size_fields: tuple[SizeField, ...]
    option_fields: tuple[OptionField, ...] = ()

    @abstractmethod
    def shapes(self, model: ModelConfig, training_set: TrainingSet) -> Shapes:
        """True shape of each weight; every axis may be padded at its end."""

    @abstractmethod
    def initial(
        self, model: ModelConfig, training_set: TrainingSet, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Initial weights of one model, float64, at their true shapes."""

    def frozen_names(self, model: ModelConfig) -> frozenset[str]:
        """Names of weights that are not trained."""
        return frozenset()

    def for_stack(self, models: Sequence[ModelConfig], inputs: Inputs) -> Family:
        """The family as one stack runs it: itself, unless it keeps something for each stack."""
        return self

    @abstractmethod
    def tables(self, models: Sequence[ModelConfig], inputs: Inputs) -> Tables:
        """Everything the forward pass needs that no weight changes, computed once."""

    @abstractmethod
    def outputs(self, weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
        """Answers (n_models, n_rows, n_outputs) for all rows, or for the drawn `rows` (n_models, n_draws)."""
