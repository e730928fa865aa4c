"""Codes for tokens: integer vectors of equal norm, so that a dot product is largest for equal tokens.

For whole vectors a and x with |a|² = |x|² = ρ, 2·a·x = 2ρ - |a - x|², hence a·x = ρ where x = a and a·x <= ρ - 1 elsewhere.
Sums over m tokens: mρ where all are equal, at most mρ - 1 otherwise. Every entry is a small whole number, exact in bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt

import numpy as np

MOST_SQUARED_NORM = 32
"""Logits of a bfloat16 model keep 8 bits: a lead of 1 in ρ = 32 survives their rounding and that of the last state."""

MOST_DIMENSIONS = 24


@dataclass(frozen=True)
class Code:
    """Vectors of `dimension` whole numbers whose squares sum to `squared_norm`."""

    dimension: int
    squared_norm: int

    def vectors(self, n_codes: int) -> np.ndarray:
        """The first `n_codes` of them, in a fixed order, as rows."""
        rows = np.empty((n_codes, self.dimension), np.int64)
        for row, vector in zip(rows, _vectors(self.dimension, self.squared_norm), strict=False):
            row[:] = vector
        return rows


def possible_codes(n_codes: int) -> list[Code]:
    """The code of smallest norm for each dimension that has `n_codes` vectors."""
    counts = np.zeros(MOST_SQUARED_NORM + 1)  # of vectors by squared norm: one more coordinate at a time
    counts[0] = 1
    found = []
    for dimension in range(1, MOST_DIMENSIONS + 1):
        longer = counts.copy()
        for entry in range(1, isqrt(MOST_SQUARED_NORM) + 1):
            longer[entry**2 :] += 2 * counts[: -(entry**2)]
        counts = longer
        enough = np.flatnonzero(counts[1:] >= n_codes)
        if len(enough):
            found.append(Code(dimension, int(enough[0]) + 1))
    return found


def _vectors(dimension: int, squared_norm: int) -> Iterator[tuple[int, ...]]:
    if dimension == 1:
        root = isqrt(squared_norm)
        if root**2 == squared_norm:
            yield from {(root,), (-root,)} if root else {(0,)}
        return
    for size in range(isqrt(squared_norm) + 1):
        for rest in _vectors(dimension - 1, squared_norm - size**2):
            yield (size, *rest)
            if size:
                yield (-size, *rest)
