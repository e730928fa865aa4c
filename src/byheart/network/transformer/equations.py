"""The specification of a Transformer: KS25 equations 2 to 4, one sequence at a time, short enough to be checked by reading.

    exact_outputs    with `Fraction`, without rounding: this defines the outputs of a network
    first_outputs    the same code with floats, for networks with softmax, whose values are irrational

The interpreter computes the same outputs faster, because it skips everything that no later layer reads. It is tested against this
file, and the batch evaluator and the module are tested against the interpreter. None of them computes with the functions of this
file, with one exception: if the batch evaluator cannot compute a network with hard attention, it calls `exact_outputs`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from byheart.errors import UsageError
from byheart.network.exact.dyadic import Weights, as_sparse
from byheart.network.transformer.architecture import Attention, FeedForward, Head, Transformer
from byheart.network.transformer.floats import as_floats

Numbers = Callable[[Weights], np.ndarray]
"""A function that converts weights to a matrix of the numbers used in the computation. A bias becomes one column."""


class NotExact(UsageError):
    """An evaluator cannot compute a value exactly. This value is a softmax of unequal scores, which is irrational, or a mean that
    is not a dyadic rational (an integer divided by a power of two).
    """


def exact_outputs(network: Transformer, sequence: np.ndarray) -> list[list[Fraction]]:
    """Return the output vector of `w_out` for each token, without rounding.

    If the network inserts an extra token before the sequence, the output of this token is left out.

    `sequence` holds `seq_len` token ids, or `seq_len` vectors of floats (each float is a rational number).
    """
    return [[Fraction(value) for value in column] for column in _outputs(network, sequence, _fractions).T]


def first_outputs(network: Transformer, encoded: np.ndarray, *, last_only: bool) -> np.ndarray:
    """Return the first entry of each token's output vector, computed in floats, with shape (n_samples, n_tokens).

    With `last_only`, return it only for the last token, with shape (n_samples, 1).

    Sums are added in a different order than in the PyTorch module. So if rounding errors decide an answer, this function and the
    module can give different results, which a comparison of the two detects.
    """
    floats = as_floats(network) if network.precision == "exact" else network
    found = np.stack([_outputs(floats, sequence, _floats)[0] for sequence in encoded])
    return found[:, -1:] if last_only else found


def _outputs(network: Transformer, sequence: np.ndarray, numbers: Numbers) -> np.ndarray:
    columns = _enter(network, sequence, numbers)  # (m, n): each token is a column, as in the paper
    for layer in network.layers:
        if isinstance(layer, FeedForward):
            hidden = np.maximum(numbers(layer.w1) @ columns + numbers(layer.b1), 0)
            columns = columns + (numbers(layer.w2) @ hidden + numbers(layer.b2))
        elif isinstance(layer, Attention):
            columns = columns + sum(
                numbers(head.output)
                @ ((numbers(head.value) @ columns) @ _mixture(layer, head, columns, numbers))
                for head in layer.heads
            )
        else:
            columns = columns.sum(axis=1, keepdims=True)
    if network.extra is not None and columns.shape[1] > 1:
        columns = columns[:, 1:]
    return np.asarray(numbers(network.w_out) @ columns)


def _enter(network: Transformer, sequence: np.ndarray, numbers: Numbers) -> np.ndarray:
    if network.embedding is None:
        vectors = numbers(sequence).astype(numbers(network.w_in).dtype)
    else:
        if np.min(sequence, initial=0) < 0:
            raise IndexError(f"token id {np.min(sequence)} is negative; ids start at 0")
        vectors = numbers(network.embedding.tokens)[sequence]
        if network.embedding.positions is not None:
            vectors = vectors + numbers(network.embedding.positions)[: len(sequence)]
    if network.extra is not None:
        vectors = np.concatenate([numbers(network.extra), vectors])
    return np.asarray(numbers(network.w_in) @ vectors.T)


def _mixture(layer: Attention, head: Head, columns: np.ndarray, numbers: Numbers) -> np.ndarray:
    """Return the attention matrix A (n, n). Column k holds the attention weights of token k."""
    n_tokens = columns.shape[1]
    one: Any = Fraction(1) if columns.dtype == object else columns.dtype.type(1)
    mixture = np.full((n_tokens, n_tokens), one / n_tokens, dtype=columns.dtype)
    if layer.pattern == "gather":
        mixture[:, 1:] = 0
        mixture[0, 1:] = one
    elif layer.pattern == "scatter":
        mixture = np.zeros_like(mixture)
        mixture[0] = one
    elif layer.kind != "uniform":
        assert head.key is not None
        assert head.query is not None
        scores = (numbers(head.key) @ columns).T @ (numbers(head.query) @ columns)
        largest = scores.max(axis=0)
        if layer.kind == "hardmax":
            powers = (scores == largest) * one
        elif columns.dtype != object:
            powers = np.exp(scores - largest)
        elif (scores == largest).all():
            return mixture
        else:
            raise NotExact(
                "softmax of unequal scores is irrational, so this network has no exact value.\n"
                "  Evaluate it in floats (network.module), or use hardmax or uniform attention."
            )
        mixture = powers / powers.sum(axis=0)
    return mixture


def _floats(weights: Weights) -> np.ndarray:
    array = np.asarray(weights)
    return array[:, None] if array.ndim == 1 else array


def _fractions(weights: Weights) -> np.ndarray:
    matrix = as_sparse(weights)
    array = np.full(matrix.shape, Fraction(0), dtype=object)
    for place, value in matrix.entries.items():
        array[place] = value.fraction
    return array
