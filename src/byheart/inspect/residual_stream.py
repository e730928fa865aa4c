"""Compute the residual stream of one question, before the first layer and after every layer.

The numbers are those of the network's own forward pass: floats for a float network and fractions for an exact one. A test checks
that the numbers after the last layer give the same answer as `predict`. As in the network, tokens that no later layer reads are
dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from byheart.errors import UsageError
from byheart.network.exact.dyadic import SparseMatrix, Weights, as_dense
from byheart.network.transformer.architecture import Attention, FeedForward, SumPool, Transformer

Stream = np.ndarray  # shape (n_tokens, width), with floats or Python fractions


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The residual stream before the first layer or after one layer.

    kind    `enter` (before the first layer), `feed-forward`, `attention` or `pool`
    active  the hidden units that are positive at the last token
    n_units the number of hidden units of a feed-forward layer, or the number of heads of an attention layer; otherwise 0

    A layer of a Llama has both parts. Its kind is `attention` if heads are used in it, and `n_units` is the number of its hidden
    units.
    """

    kind: str
    stream: Stream
    active: tuple[int, ...] = ()
    n_units: int = 0


def snapshots(network: Transformer, encoded: np.ndarray, *, last_only: bool) -> Iterator[Snapshot]:
    """Compute the residual stream before the first layer and after every layer, for one encoded sequence.

    With `last_only`, only the last token is kept after the last layer that mixes tokens.
    """
    stream = _enter(network, encoded)
    n_mixing = _count_layers_to_last_mixing(network)
    yield Snapshot("enter", stream)
    for at, layer in enumerate(network.layers):
        if last_only and at == n_mixing:
            stream = stream[-1:]
        if isinstance(layer, FeedForward):
            before = _apply(layer.w1, stream) + as_dense(layer.b1).reshape(-1)
            hidden = np.where(before > 0, before, before * 0)
            stream = stream + _apply(layer.w2, hidden) + as_dense(layer.b2).reshape(-1)
            active = tuple(int(unit) for unit in np.flatnonzero(hidden[-1] > 0))
            yield Snapshot("feed-forward", stream, active, layer.hidden_width)
        elif isinstance(layer, Attention):
            stream = _attend(layer, stream)
            yield Snapshot("attention", stream, (), len(layer.heads))
        else:
            assert isinstance(layer, SumPool)
            stream = stream.sum(axis=0, keepdims=True)
            yield Snapshot("pool", stream)


def count_values(network: Transformer, n_tokens: int, *, last_only: bool) -> int:
    """Return the largest number of values that `snapshots` can give for a sequence of `n_tokens` tokens.

    An extra token, if the network inserts one, is counted too.
    """
    n_tokens += network.extra is not None
    n_mixing, n_layers = _count_layers_to_last_mixing(network), len(network.layers)
    n_rows = (1 + n_mixing) * n_tokens + (n_layers - n_mixing) * (1 if last_only else n_tokens)
    return n_rows * network.model_width


def _count_layers_to_last_mixing(network: Transformer) -> int:
    """Return the number of layers up to and including the last one that mixes tokens."""
    mixing = (at for at, layer in enumerate(network.layers) if not isinstance(layer, FeedForward))
    return max(mixing, default=-1) + 1


def output_of(network: Transformer, stream: Stream) -> np.ndarray:
    """Return the output of the network, given the stream after the last layer: one number per token, without the extra token."""
    kept = stream[1:] if network.extra is not None and len(stream) > 1 else stream
    return np.asarray(_apply(network.w_out, kept)[:, 0])


def _enter(network: Transformer, encoded: np.ndarray) -> Stream:
    embedding = network.embedding
    if embedding is not None:
        vectors = as_dense(embedding.tokens)[encoded]
        if embedding.positions is not None:
            vectors = vectors + as_dense(embedding.positions)[: len(encoded)]
    elif isinstance(network.w_in, SparseMatrix):
        vectors = np.array(
            [[Fraction(value) for value in vector] for vector in encoded.tolist()], dtype=object
        )
    else:
        vectors = encoded.astype(network.w_in.dtype)
    if network.extra is not None:
        vectors = np.concatenate([as_dense(network.extra), vectors])
    return _apply(network.w_in, vectors)


def _apply(weights: Weights, vectors: np.ndarray) -> np.ndarray:
    """Multiply each vector by a matrix."""
    return np.asarray(vectors @ as_dense(weights).T)


def _attend(layer: Attention, stream: Stream) -> Stream:
    updated = stream
    for head in layer.heads:
        values = _apply(head.value, stream)
        if layer.pattern == "scatter":
            change = np.repeat(_apply(head.output, values[:1]), len(stream), axis=0)
        elif layer.kind == "uniform":
            # add first, so that whole numbers stay whole; the factor n may be part of the output weights
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
        raise UsageError("softmax has no exact value, so this network cannot be traced exactly.")
    powers = np.exp(scores - largest)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
