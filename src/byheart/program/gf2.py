"""Banded elimination over GF(2): solve linear systems whose equations are sparse and whose non-zero entries are close to the
diagonal.

The unknowns are the bits of a table with `n_channels` bits per row. Bit `channel` of row `row` is column `row · n_channels +
channel` of the system. Each equation selects k table rows and, in each of them, the channels given by a bit pattern. It states
the parity of the selected bits. Equations are sorted by their first row. Each equation then has its entries in a window of columns,
and the window only moves to the right. Elimination takes at most (equations) · (window)²/64 operations, whatever the size of the
table.

The kernels are compiled by numba. They are deterministic and release the interpreter's lock.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
@no_type_check
def _lowest_bit(word: np.uint64) -> int:
    low = word & (~word + np.uint64(1))
    place = 0
    if low & np.uint64(0xFFFFFFFF00000000):
        place += 32
    if low & np.uint64(0xFFFF0000FFFF0000):
        place += 16
    if low & np.uint64(0xFF00FF00FF00FF00):
        place += 8
    if low & np.uint64(0xF0F0F0F0F0F0F0F0):
        place += 4
    if low & np.uint64(0xCCCCCCCCCCCCCCCC):
        place += 2
    if low & np.uint64(0xAAAAAAAAAAAAAAAA):
        place += 1
    return place


@njit(cache=True, nogil=True)
@no_type_check
def _parity(word: np.uint64) -> np.uint64:
    word ^= word >> np.uint64(32)
    word ^= word >> np.uint64(16)
    word ^= word >> np.uint64(8)
    word ^= word >> np.uint64(4)
    word ^= word >> np.uint64(2)
    word ^= word >> np.uint64(1)
    return word & np.uint64(1)


@njit(cache=True, nogil=True)
@no_type_check
def factor(
    rows: np.ndarray,
    patterns: np.ndarray,
    n_channels: int,
    n_columns: int,
    n_words: int,
    reached: np.ndarray,
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Eliminate the equations in order: from each, subtract the earlier equations whose pivot columns it contains.

    rows      (n, k): equation i reads words in the table rows `rows[i]`. Equations are sorted by the lowest of these rows
    patterns  (n, k, ⌈n_channels/64⌉): the channels that an equation reads in each of its rows, as bits
    n_words   the number of 64-bit machine words that hold one equation: one bit for each column in its range
    reached   (1,): is set to the number of the equation that is being reduced, so that another thread can report it

    Returns six values: the number of equations that were reduced before one was linearly dependent (n on success); the reduced
    equations; the machine word at which each begins; the pivot column of each; for each column, the equation whose pivot it is (-1
    for a free column); and for each equation, the pivot columns of the equations that were subtracted from it.
    """
    n, k = rows.shape
    n_pattern = patterns.shape[2]
    one = np.uint64(1)
    reduced = np.zeros((n, n_words), np.uint64)
    used = np.zeros((n, n_words), np.uint64)
    base = np.zeros(n, np.int64)
    pivot = np.full(n, -1, np.int64)
    owner = np.full(n_columns, -1, np.int64)
    for i in range(n):
        reached[0] = i
        first = rows[i, 0]
        for s in range(1, k):
            first = min(first, rows[i, s])
        begin = (first * n_channels) >> 6
        base[i] = begin
        vector = reduced[i]
        for s in range(k):
            column = rows[i, s] * n_channels - (begin << 6)
            shift = np.uint64(column & 63)
            at = column >> 6
            for q in range(n_pattern):
                word = patterns[i, s, q]
                if word:
                    vector[at + q] ^= word << shift
                    if shift and at + q + 1 < n_words:
                        vector[at + q + 1] ^= word >> (np.uint64(64) - shift)
        q = 0
        found = -1
        while q < n_words:
            if not vector[q]:
                q += 1
                continue
            bit = _lowest_bit(vector[q])
            column = ((begin + q) << 6) + bit
            other = owner[column]
            if other < 0:
                found = column
                break
            used[i, q] |= one << np.uint64(bit)
            source = reduced[other]
            lag = begin - base[other]
            for w in range(q, n_words - lag):
                vector[w] ^= source[w + lag]
        if found < 0:
            return i, reduced, base, pivot, owner, used
        pivot[i] = found
        owner[found] = i
    return n, reduced, base, pivot, owner, used


@njit(cache=True, nogil=True)
@no_type_check
def solve(
    parity: np.ndarray,
    reduced: np.ndarray,
    base: np.ndarray,
    pivot: np.ndarray,
    owner: np.ndarray,
    used: np.ndarray,
    free: np.ndarray,
) -> np.ndarray:
    """Return one bit per column so that every equation has its `parity`. Columns without a pivot take their bits from
    `free`.

    The other arguments are results of `factor`.
    """
    n, n_words = reduced.shape
    n_columns = len(owner)
    one = np.uint64(1)
    right = np.zeros((n_columns >> 6) + n_words + 2, np.uint64)
    for i in range(n):
        total = np.uint64(0)
        for q in range(n_words):
            total ^= used[i, q] & right[base[i] + q]
        if _parity(total) ^ np.uint64(parity[i]):
            right[pivot[i] >> 6] |= one << np.uint64(pivot[i] & 63)
    bits = np.zeros_like(right)
    for column in range(n_columns - 1, -1, -1):
        i = owner[column]
        place = np.uint64(column & 63)
        if i < 0:
            bits[column >> 6] |= free[column >> 6] & (one << place)
            continue
        total = np.uint64(0)
        for q in range(n_words):
            total ^= reduced[i, q] & bits[base[i] + q]
        if _parity(total) ^ ((right[column >> 6] >> place) & one):
            bits[column >> 6] |= one << place
    solution = np.zeros(n_columns, np.uint8)
    for column in range(n_columns):
        solution[column] = (bits[column >> 6] >> np.uint64(column & 63)) & one
    return solution


@njit(cache=True, nogil=True)
@no_type_check
def sums(rows: np.ndarray, patterns: np.ndarray, n_channels: int, table: np.ndarray) -> np.ndarray:
    """For each equation, return the integer sum of the table words that it selects."""
    n, k = rows.shape
    n_pattern = patterns.shape[2]
    one = np.uint64(1)
    result = np.zeros(n, np.int64)
    for i in range(n):
        for s in range(k):
            start = rows[i, s] * n_channels
            for q in range(n_pattern):
                word = patterns[i, s, q]
                while word:
                    result[i] += table[start + (q << 6) + _lowest_bit(word)]
                    word &= word - one
    return result
