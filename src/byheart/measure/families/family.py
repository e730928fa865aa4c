"""The interface of a model family: its sizes and options, initial weights, and a forward pass with an axis of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from byheart.measure.families.config import ModelConfig, OptionField, SizeField
from byheart.measure.families.inputs import Inputs, Tables, Weights
from byheart.measure.parameter_block import Shapes
from byheart.measure.training_set import Read, TrainingSet


class Family(ABC):
    """A model family. Every weight and activation has a leading axis of models."""

    name: str  # its name in specifications
    source: str  # where the papers define it
    takes_vectors: bool = False  # whether inputs may be real vectors; token ids are always allowed
    is_stacked: bool = True  # whether several models train as one computation
    reads: tuple[Read, ...] = ("last",)  # the tokens at which the answer can be read
    size_fields: tuple[SizeField, ...]
    option_fields: tuple[OptionField, ...] = ()

    @abstractmethod
    def shapes(self, model: ModelConfig, training_set: TrainingSet) -> Shapes:
        """Return the shape of each weight without padding. In a stack (models that train together), every axis may be padded at its
        end.
        """

    @abstractmethod
    def initial(
        self, model: ModelConfig, training_set: TrainingSet, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return the initial weights of one model, in float64 and without padding."""

    def frozen_names(self, model: ModelConfig, training_set: TrainingSet) -> frozenset[str]:
        """Return the names of the weights that are not trained. Names of weights that this model does not have are ignored."""
        return frozenset()

    def for_stack(self, models: Sequence[ModelConfig], inputs: Inputs, seeds: Sequence[int]) -> Family:
        """Return the family object to use for one stack (models that train together), with one seed for each model. It is this same
        object unless the family stores something per stack.
        """
        return self

    @abstractmethod
    def tables(self, models: Sequence[ModelConfig], inputs: Inputs) -> Tables:
        """Return everything that the forward pass needs and that does not depend on weights. It is computed once."""

    @abstractmethod
    def outputs(self, weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
        """Return outputs (n_models, n_rows, n_outputs) for all rows if `rows` is None.

        Otherwise, `rows` holds row numbers (n_models, n_draws). Return the outputs for these rows, (n_models, n_draws, n_outputs).
        """
