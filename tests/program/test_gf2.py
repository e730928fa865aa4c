"""Banded elimination against plain Gaussian elimination."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byheart.program import gf2
from tests.examples import examples


def _system(
    seed: int, n: int, k: int, n_channels: int, n_rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, packed patterns, and the same equations as a dense 0-1 matrix."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, n_rows, size=(n, 1))
    rows = np.minimum(start + rng.integers(0, 4, size=(n, k)), n_rows - 1)
    rows = rows[np.argsort(rows.min(axis=1), kind="stable")].astype(np.int64)
    bits = rng.integers(0, 2, size=(n, k, -(-n_channels // 64) * 64), dtype=np.uint8)
    bits[:, :, n_channels:] = 0
    dense = np.zeros((n, n_rows * n_channels), dtype=np.uint8)
    for i in range(n):
        for s in range(k):
            at = rows[i, s] * n_channels
            dense[i, at : at + n_channels] ^= bits[i, s, :n_channels]
    return rows, np.packbits(bits, axis=2, bitorder="little").view(np.uint64), dense


def _rank(matrix: np.ndarray) -> int:
    rows = [int("".join(map(str, row)), 2) for row in matrix.tolist()]
    rank = 0
    while rows:
        pivot = rows.pop()
        if pivot:
            rank += 1
            low = pivot & -pivot
            rows = [row ^ pivot if row & low else row for row in rows]
    return rank


def _n_words(rows: np.ndarray, n_channels: int) -> int:
    return int((rows.max(axis=1) - rows.min(axis=1)).max() + 1) * n_channels // 64 + 2


@examples(200)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 40),
    k=st.integers(1, 4),
    n_channels=st.sampled_from([1, 3, 17, 70]),
    n_rows=st.integers(1, 12),
)
def test_solves_whatever_is_independent(seed: int, n: int, k: int, n_channels: int, n_rows: int) -> None:
    rows, patterns, dense = _system(seed, n, k, n_channels, n_rows)
    n_words = _n_words(rows, n_channels)
    reached = np.zeros(1, dtype=np.int64)
    n_reduced, *factors = gf2.factor(rows, patterns, n_channels, dense.shape[1], n_words, reached)
    assert (n_reduced == n) == (_rank(dense) == n)
    assert reached[0] == min(n_reduced, n - 1)
    if n_reduced == n:
        parity = np.random.default_rng(seed).integers(0, 2, size=n, dtype=np.uint8)
        free = np.random.default_rng(seed + 1).integers(
            0, 2**64, size=dense.shape[1] // 64 + 1, dtype=np.uint64
        )
        solution = gf2.solve(parity, *factors, free)
        assert ((dense @ solution) % 2 == parity).all()


@examples(200)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), k=st.integers(1, 3))
def test_sums_add_up_the_touched_words(seed: int, n: int, k: int) -> None:
    n_channels, n_rows = 5, 9
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, n_rows, size=(n, k))
    bits = np.zeros((n, k, 64), dtype=np.uint8)
    bits[:, :, :n_channels] = rng.integers(0, 2, size=(n, k, n_channels))
    table = rng.integers(0, 2**40, size=n_rows * n_channels)
    patterns = np.packbits(bits, axis=2, bitorder="little").view(np.uint64)
    expected = [
        sum(
            int(table[rows[i, s] * n_channels + o])
            for s in range(k)
            for o in range(n_channels)
            if bits[i, s, o]
        )
        for i in range(n)
    ]
    assert gf2.sums(rows, patterns, n_channels, table).tolist() == expected


def test_equal_equations_are_found_dependent() -> None:
    rows = np.zeros((2, 1), dtype=np.int64)
    patterns = np.full((2, 1, 1), 5, dtype=np.uint64)
    n_reduced, *_ = gf2.factor(rows, patterns, 3, 3, 2, np.zeros(1, dtype=np.int64))
    assert n_reduced == 1
