"""Attention heads in dimension 2 that act as step functions of a pair of tokens.

With these heads, the linear system of Theorem 1 of Dana et al. 2024 stays well-conditioned.

Random heads in dimension 2 distinguish pairs (a, b) only by small differences between large outputs, which float32 rounds away.
Here the first coordinate of a token is a value y on a line, and the second one encodes the position: x_1 = (y_a, 1) and
x_2 = (y_b, -1). The key of a pair is y_a + L·y_b for a constant L. A head has a threshold θ and a slope w. With
W_Qᵀ W_K = ((0, w(L+1)/2), (-w, wθ/2)), its two scores differ by w(y_a + L·y_b - θ). So for large w the head attends to the first
token if the key is above θ, and to the last token otherwise. Let s be 1 in the first case and 0 in the second. The two outputs of
the head are then y_b + s(y_a - y_b) and 2s - 1. So for pairs whose keys lie between two neighbouring thresholds, the network is an
affine function of y_a - y_b, plus c·y_b with a factor c that is the same for all pairs. The affine function can be chosen so that
the outputs for two of these pairs are right.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from byheart.network.attention_only.architecture import AttentionOnly, AttentionOnlySpec
from byheart.network.transformer.floats import DTYPES

SHARPNESS = 60.0
"""How sharply a head separates pairs of tokens. The pairs are ordered by a key, and each head has a threshold between two
neighbours in this order. For these two pairs, the head's two attention scores differ by SHARPNESS / 2: below the threshold, one
score is larger, above it the other. If two scores differ by 17 or more, the larger softmax weight is 1 in float32."""

JITTER = 0.2
"""The largest random shift of a token's value y, relative to the spacing of the values. With even spacing, many differences
y_a - y_b would be equal, and the equations of the linear system would be dependent."""


def bigram_heads(
    encoded: Int[np.ndarray, "n_sequences 2"], spec: AttentionOnlySpec, rng: np.random.Generator
) -> AttentionOnly:
    """Return a network in dimension 2 with ⌈(T - 2)/2⌉ heads of size 2 for T pairs. Its output matrices and its
    unembedding are still zero.
    """
    dtype, n_vocab = DTYPES[spec.precision], spec.n_tokens
    spacing = 2.0 / max(n_vocab - 1, 1)
    y = -1 + spacing * (np.arange(n_vocab) + rng.uniform(-JITTER, JITTER, n_vocab))
    y = y.astype(dtype).astype(np.float64)
    # the keys of pairs with the same last token span at most 2(1 + JITTER·spacing); the next last token's keys begin half a span
    # later
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
    """Divide the pairs (a, b), which are ordered by their keys, into blocks. Return the index of the first pair of each block.

    `lasts` are the last tokens b in that order. Each block has one head, whose threshold lies just before the block's first pair.
    The first of all pairs is in no block: the constant of the skip connection is chosen so that this pair is right. The head of a
    block makes two pairs right, so a block has two pairs. If the number of pairs is even, one pair is left over, and one block
    gets it as a third pair. The skip connection also adds a multiple of y_b, the value of b, and the factor is chosen so that the
    third pair is right. If possible, the three pairs do not all have the same last token.
    """
    n_pairs = len(lasts)
    sizes = np.full(max(0, -((2 - n_pairs) // 2)), 2, dtype=np.int64)
    if n_pairs % 2 == 0 and len(sizes):
        # such a block reaches from change - 1 to change + 1
        changes = np.flatnonzero(lasts[1:] != lasts[:-1]) + 1
        places = (changes - 2) // 2
        fitting = places[(changes % 2 == 0) & (places >= 0) & (places < len(sizes))]
        sizes[fitting[len(fitting) // 2] if len(fitting) else -1] = 3
    return np.asarray(np.cumsum(np.concatenate([[1], sizes]))[:-1])
