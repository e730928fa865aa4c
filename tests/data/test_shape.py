"""The numbers of a data set."""

from __future__ import annotations

from typing import Any

import pytest

from byheart.data import Dataset
from byheart.data.generators import random_tokens, uniform_vectors
from byheart.data.shape import DataShape
from byheart.errors import DataError, UsageError


def test_it_counts_labelled_sequences() -> None:
    data = Dataset.from_pairs([([0, 2], "a"), ([1, 2, 2], "b"), ([0, 2], "a")])
    shape = DataShape.of(data)
    assert (shape.n_samples, shape.seq_len, shape.n_classes) == (3, 3, 2)
    assert (shape.vocab, shape.dim, shape.task) == (3, None, "next-token")
    assert (shape.ordered, shape.ragged) == (True, True)
    assert (shape.n_contexts, shape.n_labels, shape.n_last_tokens) == (2, 3, 1)
    assert shape.label_bits == data.label_bits == 2  # a repeated sample is no more information
    assert not DataShape.of(uniform_vectors(5, 2, 3, seed=0)).ragged


def test_it_counts_the_labels_of_tokens() -> None:
    shape = DataShape.of(random_tokens(4, 3, 100, 2, seed=0, task="seq-to-seq"))
    assert (shape.label_count, shape.n_contexts) == (12, 12)
    assert DataShape(4, 3, task="seq-to-seq", vocab=9).label_count == 12


def test_it_counts_the_contexts_of_documents() -> None:
    data = Dataset.from_documents(["a b c", "a b d", "x"])
    shape = DataShape.of(data)
    assert (shape.seq_len, shape.context_len) == (3, 2)
    assert (shape.n_labels, shape.n_contexts, shape.n_last_tokens) == (4, 2, 2)
    with pytest.raises(DataError):
        DataShape.of(Dataset.from_documents(["a"]))


def test_conflicts_are_told() -> None:
    data = Dataset.from_pairs([("a", "1"), ("a", "2")], on_conflict="keep")
    assert not DataShape.of(data).is_consistent


@pytest.mark.parametrize(
    "sizes",
    [
        {"n_samples": 0, "vocab": 2},
        {"n_samples": 1},
        {"n_samples": 1, "vocab": 2, "dim": 2},
        {"n_samples": 1, "vocab": 2, "n_contexts": 2},
        {"n_samples": 1, "dim": 2, "radius": 1, "separation": 0},
    ],
)
def test_sizes_that_no_data_set_has(sizes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        DataShape(**sizes)
