"""Words of a table from sums that must come out: T0[r0] + T1[r1] + T2[r2] = wanted, modulo a power of two.

One matrix of ones, three in a row, is factored once over GF(2); then every bit plane is one triangular solve, from the lowest
up, since the carries from below are known by then. Random systems of this kind are solvable up to a load of 0.917.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
@no_type_check
def factor(cells, n_cells):
    """Reduce the equations in order. Returns their number that are independent of those before, the rows [equation | history],
    and the pivot of each."""
    n = cells.shape[0]
    n_words = (n_cells + 63) // 64
    rows = np.zeros((n, n_words + (n + 63) // 64), dtype=np.uint64)
    pivots = np.full(n, -1, dtype=np.int64)
    one = np.uint64(1)
    for i in range(n):
        for k in range(3):
            rows[i, cells[i, k] >> 6] ^= one << np.uint64(cells[i, k] & 63)
        rows[i, n_words + (i >> 6)] |= one << np.uint64(i & 63)
        last = n_words + (i >> 6) + 1
        for j in range(i):
            p = pivots[j]
            if (rows[i, p >> 6] >> np.uint64(p & 63)) & one:
                for w in range(last):
                    rows[i, w] ^= rows[j, w]
        for w in range(n_words):
            if rows[i, w]:
                b = 0
                while not (rows[i, w] >> np.uint64(b)) & one:
                    b += 1
                pivots[i] = w * 64 + b
                break
        if pivots[i] < 0:
            return i, rows, pivots
    return n, rows, pivots


@njit(cache=True, nogil=True)
@no_type_check
def _parity(word):
    for shift in (32, 16, 8, 4, 2, 1):
        word ^= word >> np.uint64(shift)
    return word & np.uint64(1)


@njit(cache=True, nogil=True)
@no_type_check
def solve(cells, rows, pivots, wanted, table, low, high):
    """Change bits `low` to `high` - 1 of the pivots' words until every sum agrees with `wanted` in the bits below `high`.

    The sums must agree below `low` already.
    """
    n = cells.shape[0]
    n_words = (table.shape[0] + 63) // 64
    n_history = (n + 63) // 64
    one = np.uint64(1)
    for plane in range(low, high):
        right = np.zeros(n_history, dtype=np.uint64)
        for i in range(n):
            rest = wanted[i] - table[cells[i, 0]] - table[cells[i, 1]] - table[cells[i, 2]]
            right[i >> 6] |= np.uint64((rest >> plane) & 1) << np.uint64(i & 63)
        bits = np.zeros(n_words, dtype=np.uint64)
        for i in range(n - 1, -1, -1):
            word = np.uint64(0)
            for w in range(n_words):
                word ^= rows[i, w] & bits[w]
            for w in range((i >> 6) + 1):
                word ^= rows[i, n_words + w] & right[w]
            if _parity(word):
                p = pivots[i]
                bits[p >> 6] |= one << np.uint64(p & 63)
                table[p] += 1 << plane
