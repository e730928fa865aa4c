"""Heads for pairs of tokens in dimension 2 that are steps: the system of DPC24 Theorem 1, well-conditioned by design.

Random heads in dimension 2 distinguish pairs (a, b) only by large and cancelling outputs, beyond float32. Instead put
the first coordinate of a token on a line, y, and let the second one hold the position: x_1 = (y_a, 1), x_2 = (y_b, -1). With
W_Qᵀ W_K = ((0, w(L+1)/2), (-w, wθ/2)) the two scores differ by w(y_a + L y_b - θ), so for large w the head looks at the
first token if the pair's key y_a + L y_b is above θ and at the last one if not. Its two values are then a step, and a step
times y_a - y_b: on the pairs between two thresholds the network is a line in y_a - y_b, free to pass through two of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from byheart.network.attention_only.architecture import AttentionOnly, AttentionOnlySpec
from byheart.network.transformer.floats import DTYPES

SHARPNESS = 60.0
"""Difference of the scores between the two pairs beside a threshold; a softmax share is 0 or 1 in float32 from 17 on."""

JITTER = 0.2
"""How far tokens are moved from even spacing, in spacings: equal differences y_a - y_b would be dependent."""


def bigram_heads(
    encoded: Int[np.ndarray, "n_sequences 2"], spec: AttentionOnlySpec, rng: np.random.Generator
) -> AttentionOnly:
    """A network in dimension 2 with ⌈(T - 2)/2⌉ heads of size 2 whose outputs are still zero."""
    dtype, n_vocab = DTYPES[spec.precision], spec.n_tokens
    spacing = 2.0 / max(n_vocab - 1, 1)
    y = -1 + spacing * (np.arange(n_vocab) + rng.uniform(-JITTER, JITTER, n_vocab))
    y = y.astype(dtype).astype(np.float64)
    # keys of one last token span at most 2(1 + JITTER·spacing); the next last token begins half a span later
    steepness = np.round(3.0 / (spacing * (1 - 2 * JITTER)))
    keys = y[encoded[:, 0]] + steepness * y[encoded[:, 1]]
    order = np.argsort(keys)
    ordered, lasts = keys[order], encoded[order, 1]
    starts = _block_starts(lasts)
    thresholds = (ordered[starts] + ordered[starts - 1]) / 2
    slopes = SHARPNESS / (ordered[starts] - ordered[starts - 1])
    n_heads = len(starts)
    pair = np.zeros((n_heads, 2, 2))
    pair[:, 0, 1] = slopes * (steepness + 1) / 2
    pair[:, 1, 0] = -slopes
    pair[:, 1, 1] = slopes * thresholds / 2
    same = np.tile(np.eye(2), (n_heads, 1, 1))
    places = np.stack([y, np.zeros(n_vocab)], axis=1)
    outputs = np.zeros((n_heads, 2, 2)), np.zeros((spec.n_outputs, 2))
    weights = (places, np.array([[0.0, 1.0], [0.0, -1.0]]), same, pair, same, *outputs)
    return replace(spec, n_heads=n_heads).build((array.astype(dtype) for array in weights), {})


def _block_starts(lasts: Int[np.ndarray, " n_sequences"]) -> Int[np.ndarray, " n_heads"]:
    """Where each block of pairs begins: one pair before the first threshold, then two in each.

    The skip connection adds a constant, which serves the first pair, and a multiple of y_b, which serves one pair more:
    where T is even some block must hold three, and must do so where the last token changes.
    """
    n_pairs = len(lasts)
    sizes = np.full(max(0, -((2 - n_pairs) // 2)), 2, dtype=np.int64)
    if n_pairs % 2 == 0 and len(sizes):
        changes = np.flatnonzero(lasts[1:] != lasts[:-1]) + 1  # a block from change - 1 to change + 1
        places = (changes - 2) // 2
        fitting = places[(changes % 2 == 0) & (places >= 0) & (places < len(sizes))]
        sizes[fitting[len(fitting) // 2] if len(fitting) else -1] = 3
    return np.asarray(np.cumsum(np.concatenate([[1], sizes]))[:-1])
