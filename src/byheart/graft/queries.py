"""What the queries of a memory's heads must be, entry by entry, computed anew from what was read of the other weights.

What a head does follows from its lead at the right distance. That none of its entries was changed follows from comparing them with
these numbers. Every head asks with the same amplitude, by which the right distance leads by `NATS` before rounding. This module
shares no code with the one that writes the queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch

NATS = 1000.0
SMALLEST_LEAD = 1e-3
"""In units of one pair's amplitude; what is grafted has more."""

ROUNDING = 1e-13
"""Of the amplitude: more than float64 cosines and sums in another order differ by, and 10^-5 of the last place of a float32."""


@dataclass(frozen=True)
class HeadRead:
    """A head of the memory, as read: where it is, its distance, and its query and key on the first constant column.

    Both are multiplied by that constant.
    """

    layer: int
    head: int
    distance: int
    query: np.ndarray
    key: np.ndarray


@dataclass(frozen=True)
class Amplitude:
    """The amplitude that all heads share, with the rotary frequencies that they use."""

    frequencies: np.ndarray
    size: float

    def query(self, distance: int, length: int, qk_norm: bool) -> np.ndarray:
        """The query of a head that reads `distance` tokens back; with norms of queries, their weights hold the amplitude."""
        angles, n = self.frequencies * distance, len(self.frequencies)
        wanted = np.zeros(length)
        wanted[:n], wanted[length // 2 : length // 2 + n] = np.cos(angles), -np.sin(angles)
        return wanted if qk_norm else self.size * wanted

    def norm_weight(self, length: int) -> float:
        """Every weight of the norms of queries and keys."""
        return sqrt(self.size * len(self.frequencies) / length)


def amplitude_of(
    frequencies: np.ndarray, scaling: float, length: int, n_positions: int, longest: int
) -> Amplitude:
    """From the frequencies in use, fastest first, for texts of `n_positions` and heads of up to `longest` tokens back."""
    apart = np.arange(max(n_positions, longest + 2))
    scores = np.zeros(len(apart))
    for frequency in frequencies:
        scores += np.cos(frequency * apart)
    leads = [len(frequencies) - scores[1:].max()]
    if longest > 1:
        leads.append(scores[1] - scores[2 : longest + 1].max())
    lead = max(float(min(leads)), SMALLEST_LEAD)  # a changed head may have none
    return Amplitude(frequencies, NATS * sqrt(length) / (lead * scaling**2))


def differing(found: np.ndarray, wanted: np.ndarray, largest: float, dtype: torch.dtype) -> list[int]:
    """Places where a stored number is not the wanted one rounded to `dtype`."""
    low, high = (
        torch.from_numpy(wanted + sign * ROUNDING * largest).float().to(dtype).double().numpy()
        for sign in (-1, 1)
    )
    low, high = np.where(wanted == 0, 0.0, low), np.where(wanted == 0, 0.0, high)
    return [int(place) for place in np.flatnonzero((found < low) | (found > high))]
