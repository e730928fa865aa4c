"""The definition once more, all of it computed in fractions: what the interpreter, which leaves out the unread, must equal."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from byheart.network.exact.dyadic import Weights, as_sparse
from byheart.network.transformer.architecture import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    SumPool,
    Transformer,
)
from byheart.network.transformer.interpreter import NotExact

Vector = list[Fraction]


def define(network: Transformer, sequence: np.ndarray) -> list[Vector]:
    """The output of `network` on one sequence, exactly: for each token the vector `w_out` gives.

    `sequence` holds `seq_len` token ids, or `seq_len` vectors of floats (each float is a rational number).
    """
    tokens = _embedded(network.embedding, sequence)
    if network.extra is not None:
        tokens = [*_rows(network.extra, [0]), *tokens]
    stream = _apply(network.w_in, tokens)
    for layer in network.layers:
        if isinstance(layer, FeedForward):
            stream = _feed_forward(layer, stream)
        elif isinstance(layer, Attention):
            stream = _attention(layer, stream)
        else:
            assert isinstance(layer, SumPool)
            stream = [[sum(channel, Fraction(0)) for channel in zip(*stream, strict=True)]]
    if network.extra is not None and len(stream) > 1:
        stream = stream[1:]
    return _apply(network.w_out, stream)


def relu(value: Fraction) -> Fraction:
    """max(0, value)."""
    return max(Fraction(0), value)


def hardmax(scores: Sequence[Fraction]) -> Vector:
    """1/|I| at the positions I of the maximum, 0 elsewhere (KS25 eq. 1, one column)."""
    largest = max(scores)
    n_ties = sum(score == largest for score in scores)
    return [Fraction(1, n_ties) if score == largest else Fraction(0) for score in scores]


def softmax(scores: Sequence[Fraction]) -> Vector:
    """Equal weights for equal scores, the only case in which softmax is rational; else `NotExact`."""
    if any(score != scores[0] for score in scores):
        raise NotExact(
            "softmax of unequal scores is irrational, so this network has no exact value.\n"
            "  Evaluate it in floats (network.module), or use hardmax or uniform attention."
        )
    return [Fraction(1, len(scores))] * len(scores)


def _embedded(embedding: Embedding | None, sequence: np.ndarray) -> list[Vector]:
    if embedding is None:
        return [[Fraction(float(value)) for value in vector] for vector in sequence]
    tokens = _rows(embedding.tokens, [int(token) for token in sequence])
    if embedding.positions is None:
        return tokens
    return _added(tokens, _rows(embedding.positions, range(len(sequence))))


def _rows(weights: Weights, wanted: Sequence[int]) -> list[Vector]:
    """The wanted rows of a table."""
    matrix = as_sparse(weights)
    n_rows, n_cols = matrix.shape
    for row in wanted:
        if not 0 <= row < n_rows:
            raise IndexError(f"row {row} of a table of {n_rows} rows")
    found = [{col: value.fraction for col, value in row} for row in matrix.rows()]
    return [[found[row].get(col, Fraction(0)) for col in range(n_cols)] for row in wanted]


def _apply(weights: Weights, vectors: list[Vector]) -> list[Vector]:
    """The product with each vector."""
    rows = [[(col, value.fraction) for col, value in row] for row in as_sparse(weights).rows()]
    return [
        [sum((value * vector[col] for col, value in row), Fraction(0)) for row in rows] for vector in vectors
    ]


def _added(left: list[Vector], right: list[Vector]) -> list[Vector]:
    return [[a + b for a, b in zip(u, v, strict=True)] for u, v in zip(left, right, strict=True)]


def _plus_bias(vectors: list[Vector], weights: Weights) -> list[Vector]:
    bias = [sum((value.fraction for _, value in row), Fraction(0)) for row in as_sparse(weights).rows()]
    return _added(vectors, [bias] * len(vectors))


def _feed_forward(layer: FeedForward, stream: list[Vector]) -> list[Vector]:
    before = _plus_bias(_apply(layer.w1, stream), layer.b1)
    hidden = [[relu(value) for value in vector] for vector in before]
    return _added(stream, _plus_bias(_apply(layer.w2, hidden), layer.b2))


def _attention(layer: Attention, stream: list[Vector]) -> list[Vector]:
    outputs = stream
    for head in layer.heads:
        values = _apply(head.value, stream)
        mixed = [
            [
                sum((weight * value[row] for weight, value in zip(mixture, values, strict=True)), Fraction(0))
                for row in range(len(values[0]))
            ]
            for mixture in _mixtures(layer, head, stream)
        ]
        outputs = _added(outputs, _apply(head.output, mixed))
    return outputs


def _mixtures(layer: Attention, head: Head, stream: list[Vector]) -> list[Vector]:
    """For each token, the weights it gives to all tokens."""
    n_tokens = len(stream)
    everyone = [Fraction(1, n_tokens)] * n_tokens
    nobody = [Fraction(0)] * n_tokens
    if layer.pattern == "gather":
        return [everyone] + [[Fraction(1), *nobody[1:]]] * (n_tokens - 1)
    if layer.pattern == "scatter":
        return [[Fraction(1), *nobody[1:]]] * n_tokens
    if layer.kind == "uniform":
        return [everyone] * n_tokens
    assert head.key is not None
    assert head.query is not None
    keys = _apply(head.key, stream)
    normalised = hardmax if layer.kind == "hardmax" else softmax
    return [
        normalised([sum((k * q for k, q in zip(key, query, strict=True)), Fraction(0)) for key in keys])
        for query in _apply(head.query, stream)
    ]
