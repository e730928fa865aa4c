"""Compute what every entry in the queries of a graft's memory must be. The memory is the layers that the graft adds. The values
follow from the host's rotary frequencies and from the distance at which each head reads.

Each head must read the token at one distance. It does so if its attention score at this distance is much larger than at any other.
If the query of a head also equals the one computed here, no entry of the query was changed. All queries have the same amplitude (a
factor). It is chosen so that, before rounding, the score at the right distance exceeds every other score by at least `NATS`. This
module shares no code with the module that writes the queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch

NATS = 1000.0
SMALLEST_LEAD = 1e-3
"""The smallest lead with which `amplitude_of` computes. The lead is how much the highest score exceeds every other, for heads of
amplitude 1. Every graft has a larger lead. A changed checkpoint may have none, and then this number is used in its place.
"""

ROUNDING = 1e-13
"""The largest error that `differing` allows in a computed number before it is rounded, as a share of the scale of such numbers.

Two correct float64 computations, with other cosine functions or another order of summation, differ by less than this. A unit in the
last place of float32 is more than 10^5 times larger.
"""


@dataclass(frozen=True)
class HeadRead:
    """A head of the memory (the layers that store facts), as read from the checkpoint: its layer and number, how many tokens back
    it reads (`distance`), and its query and key.

    The query and the key are the head's weights for the first constant column, multiplied by the value that this column has after
    normalisation.
    """

    layer: int
    head: int
    distance: int
    query: np.ndarray
    key: np.ndarray


@dataclass(frozen=True)
class Amplitude:
    """The numbers that all heads share: the rotary frequencies, and the amplitude `size`, which is a factor of the queries."""

    frequencies: np.ndarray
    size: float

    def query(self, distance: int, length: int, qk_norm: bool) -> np.ndarray:
        """Return the query of a head that reads `distance` tokens back.

        `length` is the size of a head. If the model normalises queries (`qk_norm`), the weights of the normalisation contain the
        amplitude, and the query does not.
        """
        angles, n = self.frequencies * distance, len(self.frequencies)
        wanted = np.zeros(length)
        wanted[:n], wanted[length // 2 : length // 2 + n] = np.cos(angles), -np.sin(angles)
        return wanted if qk_norm else self.size * wanted

    def norm_weight(self, length: int) -> float:
        """Return the value that every weight of `q_norm` and `k_norm` (the norms of queries and keys) must have.

        `length` is the size of a head.
        """
        return sqrt(self.size * len(self.frequencies) / length)


def amplitude_of(
    frequencies: np.ndarray, scaling: float, length: int, n_positions: int, longest: int
) -> Amplitude:
    """Return the amplitude of queries, for texts of `n_positions` tokens and heads that read up to `longest` tokens back.

    `frequencies` are the rotary frequencies in use, fastest first. `scaling` is the factor of their cosines, and `length` the size
    of a head.
    """
    apart = np.arange(max(n_positions, longest + 2))
    scores = np.zeros(len(apart))
    for frequency in frequencies:
        scores += np.cos(frequency * apart)
    leads = [len(frequencies) - scores[1:].max()]
    if longest > 1:
        leads.append(scores[1] - scores[2 : longest + 1].max())
    lead = max(float(min(leads)), SMALLEST_LEAD)  # the heads of a changed checkpoint may have no lead
    return Amplitude(frequencies, NATS * sqrt(length) / (lead * scaling**2))


def differing(found: np.ndarray, wanted: np.ndarray, largest: float, dtype: torch.dtype) -> list[int]:
    """Return the indices at which the stored number (in `found`) is not the correct one (in `wanted`), rounded to `dtype`.

    Non-zero numbers in `wanted` are computed, so each may have an error of up to `ROUNDING * largest` before rounding. `largest` is
    the scale of these numbers.
    """
    low, high = (
        torch.from_numpy(wanted + sign * ROUNDING * largest).float().to(dtype).double().numpy()
        for sign in (-1, 1)
    )
    low, high = np.where(wanted == 0, 0.0, low), np.where(wanted == 0, 0.0, high)
    return [int(place) for place in np.flatnonzero((found < low) | (found > high))]
