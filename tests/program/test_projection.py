"""Lemmas G.1 and C.2: points to numbers that are at least 2 and at least 2 apart."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.data.separation import separation_of_points
from byheart.errors import AssumptionViolated
from byheart.program.distinct_tokens import largest_spread
from byheart.program.projection import (
    IntegerPoints,
    keeps_lengths,
    length_keeping_direction,
    project_apart,
    separating_direction,
)
from byheart.theorems import checks
from tests.examples import examples
from tests.refusal import refused

finite = st.floats(allow_nan=False, allow_infinity=False)
mild = st.floats(min_value=-1e6, max_value=1e6, allow_subnormal=False)


@st.composite
def distinct_points(draw: st.DrawFn, numbers: st.SearchStrategy[float]) -> np.ndarray:
    dim = draw(st.integers(1, 4))
    rows = draw(st.lists(st.tuples(*([numbers] * dim)), min_size=1, max_size=12))
    return np.array(sorted({tuple(value + 0.0 for value in row) for row in rows}))


@checks("KS25-L C.2")
@examples(300)
@given(st.one_of(distinct_points(finite), distinct_points(mild)), st.integers(0, 2**32))
def test_project_apart(points: np.ndarray, seed: int) -> None:
    line = project_apart(IntegerPoints.from_floats(points), np.random.default_rng(seed))
    for point, value in zip(points, line.values, strict=True):
        dot = sum(
            (c * Fraction(float(v)) for c, v in zip(line.coefficients, point, strict=True)), Fraction(0)
        )
        assert dot + line.offset == value
    ordered = sorted(line.values)
    assert 2 <= ordered[0] < 3
    assert all(after - before >= 2 for before, after in pairwise(ordered))
    assert int(ordered[-1]) < 2**line.value_bits
    assert all(c.denominator & (c.denominator - 1) == 0 for c in line.coefficients)


@checks("KS25-L G.1", "KS25-L C.2")
@examples(200)
@given(distinct_points(mild), st.integers(0, 2**32))
def test_the_lemmas_ceiling_is_kept(points: np.ndarray, seed: int) -> None:
    separation = separation_of_points(points)
    dim = points.shape[1]
    ceiling = largest_spread(separation, dim)
    exact = IntegerPoints.from_floats(points)
    direction = separating_direction(exact, np.random.default_rng(seed), ceiling)
    values = exact.along(direction)
    assert len(set(values)) == len(values)
    if ceiling is not None:
        gap = min(abs(a - b) for a, b in combinations(values, 2))
        assert Fraction(max(values) - min(values), gap) <= ceiling


@checks("KS25-L G.1")
@examples(100)
@given(distinct_points(mild), st.integers(0, 2**32))
def test_every_difference_keeps_its_share_of_its_own_length(points: np.ndarray, seed: int) -> None:
    exact = IntegerPoints.from_floats(points)
    direction = length_keeping_direction(exact, np.random.default_rng(seed))
    norm = sum(entry * entry for entry in direction)
    for x, y in combinations(points.tolist(), 2):
        difference = [Fraction(a) - Fraction(b) for a, b in zip(x, y, strict=True)]
        along = sum(v * step for v, step in zip(direction, difference, strict=True))
        share = Fraction(8 * 106, 333 * len(direction)) / Fraction(len(points)) ** 4
        assert along * along >= share * norm * sum(step * step for step in difference)


@checks("KS25-L G.1")
def test_a_direction_that_loses_one_length_is_noticed() -> None:
    points = IntegerPoints.from_floats(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1000.0]]))
    assert not keeps_lengths(points, (1, 0))  # distinct from the first along it, but 1000 becomes 0
    # all distinct, and the longest keeps a hundredth of its share
    assert not keeps_lengths(points, (100_000, 1))
    assert keeps_lengths(points, (1, 1))


def test_a_search_for_lengths_that_finds_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byheart.program.projection.keeps_lengths", lambda *_: False)
    monkeypatch.setattr("byheart.program.projection._LONGEST_DIRECTION_BITS", 0)
    with refused(AssumptionViolated, n_points=2):
        length_keeping_direction(IntegerPoints.from_floats(np.eye(2)), np.random.default_rng(0))


def test_grids_are_read_as_digits() -> None:
    grid = np.array([(a, b, c) for a in range(5) for b in range(7) for c in range(3)], dtype=np.float64)
    line = project_apart(IntegerPoints.from_floats(grid), np.random.default_rng(0))
    assert max(line.values) == 2 * len(grid)


def test_equal_points_are_refused() -> None:
    twice = np.array([[1.0, 2.0], [1.0, 2.0]])
    with pytest.raises(AssumptionViolated):
        project_apart(IntegerPoints.from_floats(twice), np.random.default_rng(0))


def test_points_one_ulp_apart_among_many() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((3000, 2))
    points = np.concatenate([points, np.nextafter(points[:1], 2.0)])
    line = project_apart(IntegerPoints.from_floats(points), rng)
    ordered = sorted(line.values)
    assert all(after - before >= 2 for before, after in pairwise(ordered))
