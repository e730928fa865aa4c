"""DPC24's attention-only Transformer in NumPy, one sequence at a time, written directly from equations 1 and 2."""

from __future__ import annotations

import numpy as np

from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.balls import Ball, Rounding


def bound_logits(network: AttentionOnly, sequence: np.ndarray) -> Ball:
    """Return the logits W_U (x_S + Σ_h W_O W_V Σ_s softmax_s(x_Sᵀ W_Qᵀ W_K x_s) x_s), and a bound on their rounding error.

    `AttentionOnly` explains the symbols.
    """
    arithmetic = Rounding(network.precision)
    x = _vectors(network, arithmetic, sequence)
    last = Ball(x.value[-1], x.radius[-1])
    seen = x if network.sees_itself else Ball(x.value[:-1], x.radius[:-1])
    stream = last if network.skip else arithmetic.exact(np.zeros(network.unembedding.shape[1]))
    heads = zip(network.query, network.key, network.value, network.output, strict=True)
    for query, key, value, output in heads:
        keys = arithmetic.matmul(key, Ball(seen.value.T, seen.radius.T))
        scores = arithmetic.dot(Ball(keys.value.T, keys.radius.T), arithmetic.matmul(query, last))
        if network.zero_token:  # add a token with score and value 0
            scores = Ball(np.append(scores.value, 0.0), np.append(scores.radius, 0.0))
        shares = arithmetic.softmax(scores)
        n_seen = len(seen.value)
        attended = arithmetic.dot(Ball(shares.value[:n_seen], shares.radius[:n_seen]), seen)
        stream = arithmetic.add(stream, arithmetic.matmul(output, arithmetic.matmul(value, attended)))
    return arithmetic.matmul(network.unembedding, stream)


def _vectors(network: AttentionOnly, arithmetic: Rounding, sequence: np.ndarray) -> Ball:
    """Return the sum of token and position embedding for every token that is not padding. Positions are counted from the end."""
    if network.embedding is None:
        return arithmetic.exact(sequence.astype(network.precision))
    is_token = sequence < len(network.tokens)
    tokens = arithmetic.exact(network.tokens[sequence[is_token]])
    return arithmetic.add(tokens, arithmetic.exact(network.positions[is_token]))
