"""Codes for tokens: integer vectors of equal norm. The dot product of two codes is therefore largest if the codes are equal.

Let a and x be integer vectors with |a|² = |x|² = ρ. Then 2·a·x = 2ρ - |a - x|², so a·x = ρ if x = a, and a·x <= ρ - 1
otherwise. For m pairs of codes, the sum of the m dot products is mρ if the two codes of every pair are equal, and at most mρ - 1
otherwise. Every entry is a small whole number, which is exact in bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from math import isqrt

import numpy as np

MOST_SQUARED_NORM = 32
"""The largest squared norm ρ that a code may have.

After a stored context, the right token scores ρ, and every other token scores at most ρ - 1. The logits of a bfloat16 model have 8
significant bits, so a lead of 1 in 32 is larger than the rounding of the logits and of the last state.
"""

MOST_DIMENSIONS = 24


@dataclass(frozen=True)
class Code:
    """The code that consists of all vectors of `dimension` whole numbers whose squares sum to `squared_norm`."""

    dimension: int
    squared_norm: int

    def vectors(self, n_codes: int) -> np.ndarray:
        """Return the first `n_codes` vectors, in a fixed order, as rows of an array. The code must have this many vectors."""
        rows = np.array(list(islice(_vectors(self.dimension, self.squared_norm), n_codes)), np.int64)
        assert len(rows) == n_codes
        return rows


def neighbours(vectors: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs of neighbouring rows. No row is in two pairs.

    Two rows are neighbours if exchanging two entries that differ by 1 turns one row into the other.

    Let ρ be the squared norm that all rows share, u and v two neighbours, and s = u + v. Then s·u = s·v = 2ρ - 1, and s·x <= 2ρ - 2
    for every other row x. Proof: if s·x >= 2ρ - 1, then |x - s/2|² <= 1/2. Two coordinates of s/2 lie halfway between
    whole numbers, so each of them adds at least 1/4. Hence x equals u in all other coordinates. In these two, x equals u or v,
    because otherwise |x|² would not be ρ.
    """
    row_of = {tuple(vector): row for row, vector in enumerate(vectors.tolist())}
    pairs, taken = [], set()
    for vector, row in row_of.items():
        for p, q in combinations(range(len(vector)), 2):
            if row not in taken and abs(vector[p] - vector[q]) == 1:
                other = list(vector)
                other[p], other[q] = vector[q], vector[p]
                partner = row_of.get(tuple(other))
                if partner is not None and partner not in taken:
                    pairs.append((row, partner))
                    taken |= {row, partner}
    return pairs


def possible_codes(n_codes: int) -> list[Code]:
    """For each dimension, return the code (set of integer vectors of equal norm) of smallest norm that has at least `n_codes`
    vectors.

    Dimensions go up to `MOST_DIMENSIONS`. Leave out a dimension if this would take a squared norm above `MOST_SQUARED_NORM`.
    """
    # the number of vectors by squared norm, adding one coordinate at a time
    counts = np.zeros(MOST_SQUARED_NORM + 1)
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
