"""Table words (entries) with prescribed sums: T0[r0] + T1[r1] + T2[r2] = wanted, modulo a power of two.

The matrix of the equations, with three ones per row, is factored once over GF(2). Then the bits of all words are found by
triangular solves: one for bit 0 of every word, then one for bit 1, and so on. At each bit, the carries from the lower bits are
known. Random systems of this kind can be solved up to a load of 0.917 equations per word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from byheart.program import gf2


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables that a network stores.

    starts      the least hash value of each channel (a column of the tables); the first is 0
    words       the entries of three tables; the sum of one word from each determines the next token
    side_words  the entries of further tables, in n_side groups of three; their sums detect unknown contexts
    """

    starts: Int[np.ndarray, " n_channels"]
    words: Int[np.ndarray, "3 n_rows n_channels"]
    side_words: Int[np.ndarray, "n_side 3 n_side_rows n_channels"]

    def channels(self, limbs: Int[np.ndarray, " n_contexts"]) -> Int[np.ndarray, " n_contexts"]:
        """Return the channel of each context, given the limb (the part of its hash) that selects it."""
        return np.searchsorted(self.starts, limbs, side="right") - 1


@dataclass(frozen=True, eq=False)
class TableEquations:
    """Equations, each for the sum of the words in three table cells. They have been factored, so that `solve` is fast, and sorted
    by the lowest of the three cells.

    order    the index that each equation had before sorting
    pivots   the cells whose words are computed so that the sums are right; the words of all other cells are arbitrary
    """

    cells: Int[np.ndarray, "n_equations 3"]
    order: Int[np.ndarray, " n_equations"]
    pivots: Int[np.ndarray, " n_equations"]
    factors: tuple[np.ndarray, ...]

    def solve(
        self,
        wanted: Int[np.ndarray, " n_equations"],
        table: Int[np.ndarray, " n_cells"],
        low: int,
        high: int,
    ) -> None:
        """Compute bits `low` to `high` - 1 of some words of `table`, in place: those in the cells `pivots`, one cell per
        equation. After the call, the sum of the three words of each equation agrees with `wanted` in all bits below `high`.

        Before the call, the bits to be computed must be zero, and the sums must already agree with `wanted` in the bits below
        `low`.
        """
        free = np.zeros((len(table) >> 6) + 1, dtype=np.uint64)
        for plane in range(low, high):
            missing = wanted[self.order] - table[self.cells].sum(axis=1)
            parity = ((missing >> plane) & 1).astype(np.uint8)
            table += gf2.solve(parity, *self.factors, free).astype(np.int64) << plane


def factor(cells: Int[np.ndarray, "n_equations 3"], n_cells: int) -> TableEquations | None:
    """Factor the equations, each of which is a sum of three table cells. Return None if they are linearly dependent."""
    order = np.argsort(cells.min(axis=1), kind="stable")
    ones = np.ones((*cells.shape, 1), dtype=np.uint64)
    n_reduced, *factors = gf2.factor(cells[order], ones, 1, n_cells, n_cells // 64 + 2, np.zeros(1, np.int64))
    if n_reduced < len(cells):
        return None
    pivots = factors[2]
    return TableEquations(cells[order], order, pivots, tuple(factors))
