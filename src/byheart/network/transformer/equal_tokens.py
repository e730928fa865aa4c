"""The ReLU network to which a Transformer reduces on sequences of equal tokens, as in the proof of KS25 Theorem 4.2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byheart.errors import AssumptionViolated
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.transformer.architecture import Attention, FeedForward, SumPool, Transformer
from byheart.theorems import realises


@dataclass(frozen=True)
class EqualTokenNetwork:
    """A network without attention that reads one token. It computes what a Transformer computes at each of several equal tokens.

    `free_parameters` is the number of its independent parameters: two entries that are always opposite numbers count once.
    """

    network: Transformer
    free_parameters: int


@realises("KS25-T4.2", "KS25-T B.2")
def on_equal_tokens(network: Transformer) -> EqualTokenNetwork:
    """Return a ReLU network that computes what `network` computes at each token of a sequence of equal tokens.

    Source:     KS25 eq. (65). Equal tokens stay equal in every layer. A column of softmax, hardmax or uniform attention
                sums to 1, so an attention layer is the linear map Z ↦ Z + Σ_h W_O W_V Z for any keys and queries.
    Assumes:    tokens that are equal at the input: no positions, no extra token, no pooling.
    Guarantee:  x ↦ W_O W_V x is written as W_O ReLU(W_V x) - W_O ReLU(-W_V x), so the result is a ReLU network. It has no more
                independent parameters than `network`.
    Size:       each entry of W_V and W_O occurs twice, with opposite signs. Goldberg & Jerrum's bound counts only independent
                parameters, so it counts such an entry once. The independent parameters are those of the Transformer, without
                its keys and queries.
    """
    if network.extra is not None or (
        network.embedding is not None and network.embedding.positions is not None
    ):
        raise AssumptionViolated(
            "this network adds positions or an extra token, so its layers do not get a sequence of equal tokens.\n"
            "  KS25 Theorem 4.2 applies only to networks without positions and without an extra token."
        )
    layers: list[FeedForward] = []
    n_free = sum(_n_entries(weights) for _, weights in network.parameters())
    for layer in network.layers:
        if isinstance(layer, FeedForward):
            layers.append(layer)
        elif isinstance(layer, Attention):
            layers.append(_linear_layer(layer))
            scores = (matrix for head in layer.heads for matrix in (head.key, head.query))
            n_free -= sum(_n_entries(matrix) for matrix in scores if matrix is not None)
        else:
            assert isinstance(layer, SumPool)
            raise AssumptionViolated(
                "a deep set sums its tokens, so its output depends on how many equal tokens there are.\n"
                "  KS25 Theorem 4.2 applies only to Transformers."
            )
    made = Transformer(
        network.w_in, tuple(layers), network.w_out, seq_len=1, embedding=network.embedding, pad=None
    )
    return EqualTokenNetwork(made, n_free)


def _linear_layer(layer: Attention) -> FeedForward:
    """Return Z ↦ Z + Σ_h W_O W_V Z as a feed-forward layer, with two units for each row of each W_V."""
    values = [head.value for head in layer.heads]
    outputs = [head.output for head in layer.heads]
    w1 = _stack([*values, *[_negative(each) for each in values]], axis=0)
    w2 = _stack([*outputs, *[_negative(each) for each in outputs]], axis=1)
    return FeedForward(w1, _zeros(w1, w1.shape[0]), w2, _zeros(w1, w2.shape[0]))


def _n_entries(weights: Weights) -> int:
    return int(np.prod(weights.shape))


def _negative(weights: Weights) -> Weights:
    if isinstance(weights, SparseMatrix):
        return SparseMatrix(weights.shape, {at: -value for at, value in weights.entries.items()})
    return -weights


def _zeros(like: Weights, n_rows: int) -> Weights:
    if isinstance(like, SparseMatrix):
        return SparseMatrix((n_rows, 1), {})
    return np.zeros(n_rows, dtype=like.dtype)


def _stack(parts: list[Weights], axis: int) -> Weights:
    if not isinstance(parts[0], SparseMatrix):
        return np.concatenate([np.asarray(part) for part in parts], axis)
    shape, entries = [part.shape for part in parts], {}
    begin = 0
    for part in parts:
        assert isinstance(part, SparseMatrix)
        for (row, col), value in part.entries.items():
            entries[(row + begin, col) if axis == 0 else (row, col + begin)] = value
        begin += part.shape[axis]
    rest = shape[0][1 - axis]
    return SparseMatrix((begin, rest) if axis == 0 else (rest, begin), entries)
