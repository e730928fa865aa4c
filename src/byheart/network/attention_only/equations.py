"""DPC24's attention-only Transformer in NumPy, one sequence at a time, written directly from equations 1 and 2."""

from __future__ import annotations

import numpy as np

from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.balls import Ball, Rounding, join


def bound_logits(network: AttentionOnly, sequence: np.ndarray) -> Ball:
    """Return the logits W_U (x_S + Σ_h W_O W_V Σ_s softmax_s(x_Sᵀ W_Qᵀ W_K x_s) x_s), and a bound on their rounding error.

    `AttentionOnly` explains the symbols.
    """
    arithmetic = Rounding(network.precision)
    x = _vectors(network, arithmetic, sequence)
    last, seen = x[-1], x if network.sees_itself else x[:-1]
    values = []
    for query, key, value in zip(network.query, network.key, network.value, strict=True):
        scores = arithmetic.dot(arithmetic.matmul(key, seen.T).T, arithmetic.matmul(query, last))
        if network.zero_token:  # add a token with score and value 0
            scores = scores.map(lambda numbers: np.append(numbers, 0.0))
        attended = arithmetic.dot(arithmetic.softmax(scores)[: len(seen.value)], seen)
        values.append(arithmetic.matmul(value, attended))
    stream = last if network.skip else arithmetic.exact(np.zeros(network.unembedding.shape[1]))
    if values:  # one sum over all heads, as some programs compute it
        outputs = np.concatenate(network.output, axis=1)
        stream = arithmetic.add(stream, arithmetic.matmul(outputs, join(values, np.concatenate)))
    return arithmetic.matmul(network.unembedding, stream)


def _vectors(network: AttentionOnly, arithmetic: Rounding, sequence: np.ndarray) -> Ball:
    """Return the sum of token and position embedding for every token that is not padding. Positions are counted from the end."""
    if network.embedding is None:
        return arithmetic.exact(sequence.astype(network.precision))
    is_token = sequence < len(network.tokens)
    tokens = arithmetic.exact(network.tokens[sequence[is_token]])
    return arithmetic.add(tokens, arithmetic.exact(network.positions[is_token]))
