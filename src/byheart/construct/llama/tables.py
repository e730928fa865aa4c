"""Words of a table with prescribed sums: T0[r0] + T1[r1] + T2[r2] = wanted, modulo a power of two.

One matrix of ones, three in a row, is factored once over GF(2); then every bit plane is one triangular solve, from the lowest
up, since the carries from below are known by then. Random systems of this kind are solvable up to a load of 0.917.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from byheart.program import gf2


@dataclass(frozen=True, eq=False)
class Tables:
    """What a network stores.

    starts  the least hash of each channel, 0 first
    """

    starts: Int[np.ndarray, " n_channels"]
    words: Int[np.ndarray, "3 n_rows n_channels"]
    side_words: Int[np.ndarray, "n_side 3 n_side_rows n_channels"]

    def channels(self, limbs: Int[np.ndarray, " n_contexts"]) -> Int[np.ndarray, " n_contexts"]:
        """The channel of each context, by its limb."""
        return np.searchsorted(self.starts, limbs, side="right") - 1


@dataclass(frozen=True, eq=False)
class TableEquations:
    """Factored equations, in the order of their first cells.

    order    where each equation was among those given
    pivots   the cells whose words are chosen to give the right sums; the words of all other cells are free
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
        """Set bits `low` to `high` - 1 of the pivots' words, zero before, until every sum agrees with `wanted` below `high`.

        The sums must agree below `low` already.
        """
        free = np.zeros((len(table) >> 6) + 1, dtype=np.uint64)
        for plane in range(low, high):
            missing = wanted[self.order] - table[self.cells].sum(axis=1)
            parity = ((missing >> plane) & 1).astype(np.uint8)
            table += gf2.solve(parity, *self.factors, free).astype(np.int64) << plane


def factor(cells: Int[np.ndarray, "n_equations 3"], n_cells: int) -> TableEquations | None:
    """Factor the equations, each a sum of three cells; None if one depends on others."""
    order = np.argsort(cells.min(axis=1), kind="stable")
    ones = np.ones((*cells.shape, 1), dtype=np.uint64)
    n_reduced, *factors = gf2.factor(cells[order], ones, 1, n_cells, n_cells // 64 + 2, np.zeros(1, np.int64))
    if n_reduced < len(cells):
        return None
    pivots = factors[2]
    return TableEquations(cells[order], order, pivots, tuple(factors))
