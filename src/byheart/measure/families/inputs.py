"""The inputs of a stack of models, and functions that look up rows, positions and embeddings for all models at once."""

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
    """The inputs of a stack (models that train together) on its device, padded to common lengths.

    Either `tokens` or `vectors` is set, and the other is None. `is_shared` is true if all models have the same inputs, which are
    then stored only once.
    """

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
    """Return the size named `size` for every model, (n_models,), in the number type in which they train."""
    return torch.tensor([model.sizes[size] for model in models], dtype=inputs.dtype, device=inputs.device)


def take_rows(table: Tensor, rows: Tensor | None) -> Tensor:
    """Return the rows of `table` (n_models, n_rows, ...) whose numbers are in `rows`. If `rows` is None, return all rows."""
    if rows is None:
        return table
    index = rows.view(*rows.shape, *(1 for _ in table.shape[2:])).expand(*rows.shape, *table.shape[2:])
    return table.gather(1, index)


def embed_tokens(embedding: Tensor, tokens: Tensor) -> Tensor:
    """Look up each model's tokens (n_models, n_rows, seq_len) in its embedding (n_models, n_vocab, dim)."""
    n_models, n_vocab, dim = embedding.shape
    offsets = torch.arange(n_models, device=tokens.device).view(-1, 1) * n_vocab
    found = embedding.reshape(-1, dim).index_select(0, (tokens.flatten(1) + offsets).flatten())
    return found.view(*tokens.shape, dim)


def take_places(stream: Tensor, places: Tensor) -> Tensor:
    """For each row of `stream` (n_models, n_rows, seq_len, dim), return the vector at the position that `places` holds for the
    row.
    """
    index = places.view(*places.shape, 1, 1).expand(-1, -1, 1, stream.shape[3])
    return stream.gather(2, index).squeeze(2)
