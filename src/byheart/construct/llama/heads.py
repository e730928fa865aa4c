"""Attention heads that copy from a fixed distance. Their rotary frequencies are chosen so that all other distances score much less.

A head copies from the token j positions earlier or, if there is none, from the first token. Rotary embeddings rotate each pair f of
coordinates at its own frequency θ_f. The slowest pair is reserved for the first token; n_f pairs remain. In these pairs, written as
complex numbers, queries are A·e^(-iθ_f·j) with an amplitude A, and keys are 1. The score at distance D is then
A·Σ_f cos(θ_f·(D - j)), a sum over the n_f pairs. This score is n_f·A at D = j. At all other distances it is less by at least g·A,
where the gap g depends on the frequencies.

The key of the first token is b in the slowest pair, which hardly rotates, and zero in the other pairs. In a text of n positions,
the first token's score is between b·A·cos(θ_slow·n) and b·A. The value of b is such that this score is about halfway between the
best score n_f·A and the next best score of another token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from byheart.construct.llama.blocks import BlockWriter
from byheart.construct.llama.registers import FIRST_TOKEN, LIMBS

NATS = 192.0
"""The desired margin, in nats, between the score of the token to copy and all other scores. 128 nats are needed; the rest makes
up for the rounding of keys in a float16 cache."""
LEAST_MARGIN = 0.04
"""The smallest accepted margin between the score of the token to copy and all other scores, in units of the amplitude A of the
queries.

Rounding the keys to float16 changes a score by less than 2·n_f·2^-11 for n_f frequency pairs: less than 0.007 in heads of size 16.
"""


@dataclass(frozen=True)
class Rotation:
    """A head size and a frequency base, the margin between scores that they achieve, and the one non-zero entry of the first
    token's key.
    """

    head_dim: int
    theta: float
    margin: float
    first_key: float

    @property
    def amplitude(self) -> float:
        """The amplitude A of the queries: a power of two that makes the margin between scores at least `NATS`."""
        return float(2.0 ** np.ceil(np.log2(NATS * self.head_dim**0.5 / self.margin)))


@lru_cache
def choose_rotation(max_positions: int) -> Rotation:
    """Choose the smallest head size with a sufficient margin between scores. For this head size, choose the frequency base with the
    largest margin, of 80 candidates.
    """
    best = None
    for head_dim in (8, 16, 32, 64):
        best = max(
            (_rotation(head_dim, float(base), max_positions) for base in np.geomspace(50, 1e7, 80).round()),
            key=lambda rotation: rotation.margin,
        )
        if best.margin >= LEAST_MARGIN:
            return best
    raise AssertionError(f"no attention heads can tell {max_positions} positions apart: {best}")


def _rotation(head_dim: int, theta: float, max_positions: int) -> Rotation:
    angles = theta ** (-2 * np.arange(head_dim // 2) / head_dim)
    distances = np.arange(1, max_positions)[:, None]
    n_fast = head_dim // 2 - 1
    gap = float((1 - np.cos(angles[:-1] * distances)).sum(1).min())
    slowest = float(np.cos(angles[-1] * (max_positions - 1))) if angles[-1] * max_positions < np.pi else -1.0
    # b = n_fast - x, so the first token's score is at least x below that of the right source. Where there is no such source, this
    # score is at least b·slowest - (n_fast - gap) above all others. The chosen x makes both margins equal.
    margin = (gap - n_fast * (1 - slowest)) / (1 + slowest) if slowest > -1 else -1.0
    return Rotation(head_dim, theta, margin, n_fast - margin)


def write_heads(
    writer: BlockWriter,
    layer: int,
    rotation: Rotation,
    offsets: Sequence[int],
    coefficients: np.ndarray,
) -> None:
    """Write the heads of `layer`. Head h reads the limbs (hash values) `offsets[h]` tokens earlier, multiplies them by
    `coefficients[:, h]`, and adds the products to the limbs of the current token.
    """
    spec, half = writer.spec, writer.spec.head_dim // 2
    limbs, first_token = [writer.columns[name] for name in LIMBS], writer.columns[FIRST_TOKEN]
    query, key, value, out = (writer[layer, f"self_attn.{part}_proj"] for part in "qkvo")
    fast = spec.frequencies[:-1]
    key[: half - 1, 0] = 1 / writer.pin
    key[: half - 1, first_token] = -1
    key[half - 1, first_token] = rotation.first_key
    for limb, column in enumerate(limbs):
        value[limb, column] = 1
    for head, back in enumerate(offsets):
        row = head * spec.head_dim
        strength = rotation.amplitude / writer.pin
        query[row : row + half - 1, 0] = strength * np.cos(fast * back)
        query[row + half : row + spec.head_dim - 1, 0] = -strength * np.sin(fast * back)
        query[row + half - 1, 0] = strength
        for limb, column in enumerate(limbs):
            out[column, row : row + len(limbs)] = coefficients[limb, head]
