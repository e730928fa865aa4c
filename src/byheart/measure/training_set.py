"""The training set of one model as arrays: distinct inputs, and weighted targets for each input.

The loss over all samples equals a weighted loss over distinct inputs, so duplicates are merged here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from byheart.errors import DataError

Read = Literal["last", "first"]
Loss = Literal["cross-entropy", "squared"]


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Distinct inputs and their weighted targets. For squared error, equal inputs are not merged.

    `inputs` holds token ids (n_rows, seq_len) or vectors (n_rows, seq_len, dim). Row i has `lengths[i]` tokens, and the rest is
    padding. Target t says that the answer of row `rows[t]` should be `classes[t]`, with weight `weights[t]`. For squared error, the
    answer of row i should be the number `values[i]` instead. `read` names the token whose output is the answer.
    """

    inputs: np.ndarray
    lengths: np.ndarray
    rows: np.ndarray
    classes: np.ndarray
    weights: np.ndarray
    n_classes: int
    n_vocab: int  # 0 for vectors
    read: Read = "last"
    loss: Loss = "cross-entropy"
    values: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Check that the arrays agree, and make them read-only."""
        n_rows = len(self.inputs)
        if n_rows == 0:
            raise DataError("a training set needs at least one sample; this one has none.")
        assert self.lengths.shape == (n_rows,)
        assert self.rows.shape == self.classes.shape == self.weights.shape
        assert (self.n_vocab > 0) == (self.inputs.ndim == 2)
        if self.n_vocab and not (self.inputs.min() >= 0 and self.inputs.max() < self.n_vocab):
            raise DataError(
                f"token ids must lie in [0, {self.n_vocab}); found {self.inputs.min()} to {self.inputs.max()}.",
                n_vocab=self.n_vocab,
            )
        if self.classes.size and not (self.classes.min() >= 0 and self.classes.max() < self.n_classes):
            raise DataError(
                f"labels must lie in [0, {self.n_classes}); found {self.classes.min()} to {self.classes.max()}.",
                n_classes=self.n_classes,
            )
        for array in (self.inputs, self.lengths, self.rows, self.classes, self.weights, self.values):
            if array is not None:
                array.flags.writeable = False

    @property
    def n_rows(self) -> int:
        """Number of rows: distinct inputs or, for squared error, samples."""
        return len(self.inputs)

    @property
    def seq_len(self) -> int:
        """Number of tokens of the longest input."""
        return int(self.inputs.shape[1])

    @property
    def dim(self) -> int:
        """Dimension of a token vector, or 0 for token ids."""
        return int(self.inputs.shape[2]) if self.inputs.ndim == 3 else 0

    @property
    def has_one_answer(self) -> bool:
        """True if every row has exactly one target class."""
        return self.rows.size == self.n_rows and bool((self.rows == np.arange(self.n_rows)).all())

    @cached_property
    def n_samples(self) -> float:
        """Number of samples before duplicates were merged, which is the sum of the weights."""
        return math.fsum(self.weights.tolist())

    @cached_property
    def entropy(self) -> float:
        """The smallest possible loss, summed over samples: the entropy of the labels given the inputs, in nats.

        For squared error, it is 0, which is not reached if equal inputs have different values.
        """
        if self.loss == "squared":
            return 0.0
        per_row = np.bincount(self.rows, weights=self.weights, minlength=self.n_rows)
        share = self.weights / per_row[self.rows]
        return -math.fsum((self.weights * np.log(share)).tolist())


def training_set_of_labels(
    inputs: np.ndarray,
    labels: np.ndarray,
    *,
    n_classes: int,
    n_vocab: int = 0,
    lengths: np.ndarray | None = None,
    read: Read = "last",
) -> TrainingSet:
    """Make a training set for classification. Equal inputs become one row, with one target per distinct label."""
    n_samples = len(inputs)
    if n_samples == 0:
        raise DataError("a training set needs at least one sample; this one has none.")
    if lengths is None:
        lengths = np.full(n_samples, inputs.shape[1], dtype=np.int64)
    distinct, representative = _distinct_rows(inputs, lengths)
    pairs, counts = np.unique(distinct * n_classes + labels, return_counts=True)
    return TrainingSet(
        inputs=np.ascontiguousarray(inputs[representative]),
        lengths=lengths[representative].astype(np.int64),
        rows=pairs // n_classes,
        classes=pairs % n_classes,
        weights=counts.astype(np.float64),
        n_classes=n_classes,
        n_vocab=n_vocab,
        read=read,
    )


def training_set_of_values(inputs: np.ndarray, values: np.ndarray, *, read: Read = "last") -> TrainingSet:
    """Make a training set for regression on vectors (n_samples, seq_len, dim), with squared error and one output.

    Every sample is a row of its own: equal inputs are not merged.
    """
    n_samples = len(inputs)
    return TrainingSet(
        inputs=np.ascontiguousarray(inputs, dtype=np.float64),
        lengths=np.full(n_samples, inputs.shape[1], dtype=np.int64),
        rows=np.arange(n_samples),
        classes=np.zeros(n_samples, dtype=np.int64),
        weights=np.ones(n_samples),
        n_classes=1,
        n_vocab=0,
        read=read,
        loss="squared",
        values=np.asarray(values, dtype=np.float64).copy(),
    )


def training_set_of_documents(documents: np.ndarray, n_vocab: int) -> TrainingSet:
    """Make a training set for next-token prediction on documents (n_documents, n_tokens), as in MFT24 section 7.

    A context is all tokens of a document before the predicted one. Equal contexts become one row.
    """
    n_documents, n_tokens = documents.shape
    inputs = np.zeros((n_documents * (n_tokens - 1), n_tokens - 1), dtype=np.int64)
    lengths = np.tile(np.arange(1, n_tokens), n_documents)
    for length in range(1, n_tokens):
        inputs[length - 1 :: n_tokens - 1, :length] = documents[:, :length]
    labels = documents[:, 1:].reshape(-1)
    return training_set_of_labels(inputs, labels, n_classes=n_vocab, n_vocab=n_vocab, lengths=lengths)


def _distinct_rows(inputs: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give every distinct input a number, in order of appearance. Return the number of each sample's input, and for each input the
    index of the first sample that has it.
    """
    keyed = np.ascontiguousarray(np.concatenate([inputs.reshape(len(inputs), -1), lengths[:, None]], axis=1))
    keys = keyed.view(np.dtype((np.void, keyed.dtype.itemsize * keyed.shape[1]))).reshape(-1)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank[inverse.reshape(-1)], first[order]
