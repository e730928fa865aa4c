"""One question's way through a network, kept: the residual stream before the first layer and after every layer.

The same numbers as the network's own forward pass, in floats for a network of floats and in fractions for an exact one; that the
last of them gives the answer of `predict` is tested. Tokens whose values no later layer reads are dropped, as the network does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from byheart.errors import UsageError
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.transformer.architecture import Attention, FeedForward, SumPool, Transformer

Stream = np.ndarray  # (n_tokens, width), of floats or of Python fractions


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The stream after one layer.

    kind    `enter`, `feed-forward`, `attention` or `pool`
    active  the hidden units of the last token that are positive
    n_units how many hidden units there are
    """

    kind: str
    stream: Stream
    active: tuple[int, ...] = ()
    n_units: int = 0


def snapshots(network: Transformer, encoded: np.ndarray, *, last_only: bool) -> Iterator[Snapshot]:
    """The stream on entering and after every layer, for one encoded sequence."""
    stream = _enter(network, encoded)
    mixing = [at for at, layer in enumerate(network.layers) if not isinstance(layer, FeedForward)]
    yield Snapshot("enter", stream)
    for at, layer in enumerate(network.layers):
        if last_only and at == max(mixing, default=-1) + 1:
            stream = stream[-1:]
        if isinstance(layer, FeedForward):
            before = _apply(layer.w1, stream) + _vector(layer.b1)
            hidden = np.where(before > 0, before, before * 0)
            stream = stream + _apply(layer.w2, hidden) + _vector(layer.b2)
            active = tuple(int(unit) for unit in np.flatnonzero(hidden[-1] > 0))
            yield Snapshot("feed-forward", stream, active, layer.hidden_width)
        elif isinstance(layer, Attention):
            stream = _attend(layer, stream)
            yield Snapshot("attention", stream, (), len(layer.heads))
        else:
            assert isinstance(layer, SumPool)
            stream = stream.sum(axis=0, keepdims=True)
            yield Snapshot("pool", stream)


def output_of(network: Transformer, stream: Stream) -> np.ndarray:
    """What the network answers from the last stream: one number a token."""
    kept = stream[1:] if network.extra is not None and len(stream) > 1 else stream
    return np.asarray(_apply(network.w_out, kept)[:, 0])


def _enter(network: Transformer, encoded: np.ndarray) -> Stream:
    if network.embedding is None:
        vectors = _numbers(network, encoded)
    else:
        vectors = _rows(network.embedding.tokens, encoded.tolist())
        if network.embedding.positions is not None:
            vectors = vectors + _rows(network.embedding.positions, list(range(len(encoded))))
    if network.extra is not None:
        vectors = np.concatenate([_rows(network.extra, [0]), vectors])
    return _apply(network.w_in, vectors)


def _numbers(network: Transformer, vectors: np.ndarray) -> np.ndarray:
    if not isinstance(network.w_in, SparseMatrix):
        return np.asarray(vectors.astype(network.w_in.dtype))
    return np.array([[Fraction(float(value)) for value in vector] for vector in vectors], dtype=object)


def _rows(weights: Weights, wanted: list[int]) -> np.ndarray:
    if not isinstance(weights, SparseMatrix):
        return np.asarray(weights[wanted])
    found = _zeros(len(wanted), weights.shape[1])
    places: dict[int, list[int]] = {}
    for place, row in enumerate(wanted):
        places.setdefault(row, []).append(place)
    for (row, column), value in weights.entries.items():
        for place in places.get(row, ()):
            found[place, column] = value.fraction
    return found


def _apply(weights: Weights, vectors: np.ndarray) -> np.ndarray:
    """The product of a matrix with each vector."""
    if not isinstance(weights, SparseMatrix):
        return np.asarray(vectors @ np.asarray(weights).T)
    found = _zeros(len(vectors), weights.shape[0])
    for (row, column), value in weights.entries.items():
        factor = value.fraction
        for token, vector in enumerate(vectors):
            if vector[column]:
                found[token, row] += factor * vector[column]
    return found


def _zeros(n_rows: int, n_columns: int) -> np.ndarray:
    return np.full((n_rows, n_columns), Fraction(0), dtype=object)


def _vector(weights: Weights) -> np.ndarray:
    if not isinstance(weights, SparseMatrix):
        return np.asarray(weights)
    found = np.full(weights.shape[0], Fraction(0), dtype=object)
    for (row, _), value in weights.entries.items():
        found[row] = value.fraction
    return found


def _attend(layer: Attention, stream: Stream) -> Stream:
    updated = stream
    for head in layer.heads:
        values = _apply(head.value, stream)
        if layer.pattern == "scatter":
            change = np.repeat(_apply(head.output, values[:1]), len(stream), axis=0)
        elif layer.kind == "uniform":
            # the sum first, so that whole numbers stay whole; the output weights may carry the factor n
            n_tokens = (Fraction if stream.dtype == object else stream.dtype.type)(len(stream))
            change = _apply(head.output, values.sum(axis=0, keepdims=True)) / n_tokens
            if layer.pattern == "gather":
                others = np.repeat(_apply(head.output, values[:1]), len(stream) - 1, axis=0)
                change = np.concatenate([change, others])
        else:
            assert head.key is not None
            assert head.query is not None
            scores = _apply(head.query, stream) @ _apply(head.key, stream).T
            change = _apply(head.output, _mixture(layer.kind, scores) @ values)
        updated = updated + change
    return updated


def _mixture(kind: str, scores: np.ndarray) -> np.ndarray:
    largest = scores.max(axis=1, keepdims=True)
    if kind == "hardmax":
        ties = scores == largest
        if scores.dtype != object:
            return np.asarray(ties / ties.sum(axis=1, keepdims=True))
        return np.array([[Fraction(int(t), int(row.sum())) for t in row] for row in ties], dtype=object)
    if scores.dtype == object:
        raise UsageError("softmax has no exact value, so this network cannot be stepped through exactly.")
    powers = np.exp(scores - largest)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
