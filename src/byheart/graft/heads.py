"""Heads that copy from a fixed distance, on the host's own rotary frequencies, and the layers in which they gather a window.

A head with query A·e^(-i·f·j) and key 1 in the pairs of the fastest frequencies f scores K(D - j) = A·Σ_f cos(f·(D - j)) at
distance D. The peak at D = j leads every other distance by `margin`·n_pairs·A, and D = j - 1 leads all smaller ones by as much.
The second fact decides what happens where a text begins (`contexts.check_beginnings`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from byheart.errors import AssumptionViolated

NATS = 1000.0
"""Lead of the right position over every other one, before rounding; exp(-104) is 0 in float32."""

LEAST_MARGIN = 0.04
"""In units of the whole score. bfloat16 moves a score by less than 0.02 of it (cosines, queries, keys: 2^-9 each, both sides)."""

MOST_PAIRS = 24


@dataclass(frozen=True)
class Kernel:
    """The pairs of rotary frequencies that heads use, and the margin that they give."""

    frequencies: tuple[float, ...]
    margin: float

    def amplitude(self, head_dim: int, scaling: float) -> float:
        """A, for scores divided by √head_dim and cosines multiplied by `scaling` (yarn does so)."""
        return NATS * sqrt(head_dim) / (self.margin * len(self.frequencies) * scaling**2)

    def query(self, distance: int) -> tuple[np.ndarray, np.ndarray]:
        """Both halves of the query, with amplitude 1, of a head that reads `distance` tokens back."""
        angles = np.array(self.frequencies) * distance
        return np.cos(angles), -np.sin(angles)


def choose_kernel(frequencies: np.ndarray, max_positions: int, longest: int) -> Kernel:
    """The number of pairs with the greatest margin, for texts of `max_positions` and heads of up to `longest` tokens back."""
    distances = np.arange(max(max_positions, longest + 2))
    total = np.zeros(len(distances))
    best = Kernel((), 0.0)
    for n, frequency in enumerate(frequencies[:MOST_PAIRS], start=1):
        total += np.cos(frequency * distances)
        peak = n - total[1:].max()
        second = total[1] - total[2 : longest + 1].max(initial=-np.inf)
        margin = float(min(peak, second)) / n
        if margin > best.margin:
            best = Kernel(tuple(map(float, frequencies[:n])), margin)
    if best.margin < LEAST_MARGIN:
        raise AssumptionViolated(
            f"this host's rotary frequencies do not distinguish {max_positions:,} distances: the best lead is "
            f"{best.margin:.3f} of a score, but {LEAST_MARGIN} is needed.\n"
            "  Heads with at least 16 entries are needed. No option changes this.",
            margin=best.margin,
        )
    return best


@dataclass(frozen=True)
class Gather:
    """What one layer reads: from each of `distances` tokens back, the newest `n_copied` tokens gathered there."""

    distances: tuple[int, ...]
    n_copied: int


def plan_gathers(window: int, n_heads: int, most_copied: int) -> tuple[Gather, ...]:
    """Layers of at most `n_heads` heads that gather the last `window` tokens, each head copying at most `most_copied`.

    A layer that knows offsets 0 to n - 1 reads from distances n, n + k, n + 2k, ... the offsets 0 to k - 1, k <= n: so it
    learns n, n + 1, ... without a hole, and the first offset of each block is offset 0 of another position.
    """
    gathers, known = [], 1
    while known < window:
        copied = min(known, most_copied)
        distances = tuple(range(known, window, copied))[:n_heads]
        gathers.append(Gather(distances, copied))
        known += copied * len(distances)
    return tuple(gathers)
