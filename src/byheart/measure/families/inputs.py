"""What enters a stack of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from byheart.measure.families.config import ModelConfig
from byheart.measure.training_set import TrainingSet

Tables = dict[str, Tensor]
Weights = Mapping[str, Tensor]


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
        return self.lengths.device


def per_model(models: Sequence[ModelConfig], size: str, inputs: Inputs) -> Tensor:
    """One size of every model, (n_models,), in the number type of the stack."""
    return torch.tensor([model.sizes[size] for model in models], dtype=inputs.dtype, device=inputs.device)
