"""Hand-made memories that answer by the last token alone: right by inspection, made by no construction."""

from __future__ import annotations

import numpy as np

from byheart.data.dataset import Dataset
from byheart.network import Embedding, FeedForward, SparseMatrix, Transformer
from byheart.network.exact.dyadic import Weights
from byheart.network.memoriser import Memoriser

CAPITALS = {"France": "Paris", "Japan": "Tokyo", "Peru": "Lima", "Chad": "N'Djamena", "Cuba": "Havana"}


def capitals(**options: object) -> Dataset:
    """Five one-word keys and their values."""
    return Dataset.from_pairs(list(CAPITALS.items()), tokenizer="word", **options)


def lookup(data: Dataset, precision: str = "exact", n_layers: int = 2) -> Memoriser:
    """Each token id becomes its label plus one; then come layers that add 2^-80 and take it away again."""
    assert data.vocab is not None
    table = np.zeros((data.vocab + 1, 1))
    ends = np.cumsum(data.lengths) - 1
    last = data.inputs.ids[ends] if data.task != "seq-to-seq" else data.inputs.ids
    table[last, 0] = data.labels + 1

    def weights(values: list[list[float]]) -> Weights:
        array = np.array(values)
        return SparseMatrix.from_array(array) if precision == "exact" else array.astype(precision)

    def bias(value: float) -> Weights:
        return weights([[value]]) if precision == "exact" else np.array([value], dtype=precision)

    step = 2.0**-80 if precision == "exact" else 1.0
    layers = tuple(
        FeedForward(weights([[0.0]]), bias(step), weights([[1.0]]), bias(-step)) for _ in range(n_layers)
    )
    network = Transformer(
        weights([[1.0]]),
        layers,
        weights([[1.0]]),
        data.seq_len,
        Embedding(weights(table.tolist())),
        pad=data.vocab,
    )
    return Memoriser(network, data.task, data.label_names, data.tokenizer, data.ordered)
