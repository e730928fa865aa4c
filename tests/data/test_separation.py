from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from byheart.data import Dataset, Multiset, grid_vectors, random_tokens, separation_of, separation_of_points
from byheart.data import separation as module
from byheart.data.sequences import TokenSequences
from byheart.errors import NonFiniteInput
from byheart.theorems import checks
from tests.effort import at_most_calls
from tests.examples import examples

SMALLEST, LARGEST = math.ulp(0.0), 1.7976931348623157e308
ANY = st.floats(allow_nan=False, allow_infinity=False, width=64)
NASTY = st.sampled_from(
    [
        0.0,
        -0.0,
        SMALLEST,
        -SMALLEST,
        2 * SMALLEST,
        1e-160,
        1.0,
        1.0 + 2**-52,
        1.0 - 2**-53,
        -1e160,
        LARGEST,
        -LARGEST,
    ]
)
NEAR = st.integers(0, 20).map(lambda k: 1.0 + k * 2**-52)
GRID = st.integers(-3, 3).map(float)


def squared(point: list[float]) -> Fraction:
    return sum((Fraction(x) ** 2 for x in point), Fraction(0))


def brute_force(points: list[list[float]]) -> tuple[Fraction, Fraction | None]:
    distinct = sorted({tuple(x + 0.0 for x in point) for point in points})
    gaps = [
        squared_gap
        for a, b in combinations(distinct, 2)
        if (
            squared_gap := sum(
                ((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(a, b, strict=True)), Fraction(0)
            )
        )
    ]
    return max(map(squared, map(list, distinct))), min(gaps, default=None)


@st.composite
def clouds(draw: st.DrawFn) -> list[list[float]]:
    coordinate = draw(st.sampled_from([ANY, NASTY, NEAR, GRID]))
    dim = draw(st.integers(1, 3))
    return draw(st.lists(st.lists(coordinate, min_size=dim, max_size=dim), min_size=1, max_size=12))


@checks("KS25-A4.1", "KS25-A A.1")
@examples(500)
@given(clouds())
def test_separation_is_the_brute_force_one_exactly(points: list[list[float]]) -> None:
    found = separation_of_points(np.array(points))
    assert (found.r_squared, found.delta_squared) == brute_force(points)
    assert found.n_distinct == len({tuple(x + 0.0 for x in point) for point in points})


@checks("KS25-A4.1")
@examples(200)
@given(clouds())
def test_rounded_roots_keep_the_promise_and_are_tight(points: list[list[float]]) -> None:
    found = separation_of_points(np.array(points))
    assume(found.r_squared > 0)
    if math.isfinite(found.r):
        assert Fraction(found.r) ** 2 >= found.r_squared
        assert Fraction(math.nextafter(found.r, 0)) ** 2 < found.r_squared
    else:
        assert Fraction(LARGEST) ** 2 < found.r_squared
    if found.delta is not None and found.delta_squared is not None:
        assert 0 < Fraction(found.delta) ** 2 <= found.delta_squared
        above = math.nextafter(found.delta, math.inf)
        assert above == math.inf or Fraction(above) ** 2 > found.delta_squared


@checks("KS25-A4.1", "KS25-A A.1")
@examples(200)
@given(
    st.lists(st.lists(GRID, min_size=2, max_size=2), min_size=1, max_size=6),
    st.fractions(Fraction(1, 4), 5, max_denominator=8),
    st.fractions(Fraction(1, 4), 5, max_denominator=8),
)
def test_the_assumption_is_decided_as_it_is_written(
    points: list[list[float]], r: Fraction, delta: Fraction
) -> None:
    # KS25 Assumption 4.1 on one sequence of these tokens; Assumption A.1 on its multiset.
    bag = Multiset.of(tuple(point) for point in points)
    tokens = [list(token) for token in bag.support]
    small = all(squared(token) <= r * r for token in tokens)
    apart = all(
        sum((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(a, b, strict=True)) >= delta * delta
        for a, b in combinations(tokens, 2)
    )
    data = Dataset.from_arrays(np.array([points]), [0])
    assert separation_of(data.inputs, data.ordered).holds_for(r, delta) == (small and apart)


def test_no_radius_or_distance_of_zero() -> None:
    found = separation_of_points(np.zeros((1, 1)))
    assert found.delta is None
    assert found.holds_for(1, 1)
    assert not found.holds_for(0, 1)
    assert not found.holds_for(1, 0)


def test_an_infinite_radius_or_distance() -> None:
    inf, nan = math.inf, math.nan
    found, single = (
        separation_of_points(np.array([[3.0, 4.0], [0.0, 0.0]])),
        separation_of_points(np.ones((2, 1))),
    )
    assert found.holds_for(inf, 5)
    assert not found.holds_for(inf, 5.1)
    assert not found.holds_for(5, inf)
    assert single.holds_for(1, inf)  # there are no two distinct tokens
    assert not any(single.holds_for(r, delta) for r, delta in ((nan, 1), (1, nan), (-inf, 1), (1, -inf)))


def test_near_ties_that_floats_cannot_tell_apart_are_decided_exactly() -> None:
    # Squared distances 2 and 2 + 2^-60 are one number in floats; whichever comes first, the smaller must win.
    exact = [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    longer = [[10.0, 0.0, 0.0], [11.0, 1.0, 2.0**-30]]
    for points in (exact + longer, longer + exact):
        assert separation_of_points(np.array(points)).delta_squared == 2
    assert separation_of_points(np.array(longer)).delta_squared == 2 + Fraction(1, 2**60)


def test_many_points_at_the_ends_of_the_range() -> None:
    rng = np.random.default_rng(0)
    tiny = rng.integers(0, 2000, size=(3000, 2)) * SMALLEST
    points = np.concatenate([tiny, np.full((1, 2), LARGEST), np.full((1, 2), 1.0)])
    with at_most_calls(100_000):
        found = separation_of_points(points)
        assert found.delta_squared == Fraction(SMALLEST) ** 2
        assert found.r_squared == 2 * Fraction(LARGEST) ** 2
        assert found.r == math.inf


def test_squares_too_small_for_floats_do_not_mislead() -> None:
    # Beside 2^499, three differences of 0.7·2^-537 have squares that round to nothing, and one of 0.775·2^-537
    # has a square that rounds up to the smallest float: floats call the farther pair the closer one.
    p, q = np.full(3, 2.0**-519), np.full(3, 2.0**-515)
    farther, closer = np.full(3, 0.7 * 2.0**-537), np.array([0.775 * 2.0**-537, 0.0, 0.0])
    points = np.array([p, p + farther, q, q + closer, np.full(3, 2.0**499)])
    step = Fraction(points[3, 0]) - Fraction(points[2, 0])
    assert np.square(points[1] - points[0]).sum() < np.square(points[3] - points[2]).sum()
    assert separation_of_points(points).delta_squared == step**2


def test_three_scales_at_once() -> None:
    scales = [SMALLEST, 1e-160, 1.0, 1e160, LARGEST]
    points = np.array([[s, t] for s in scales for t in scales])
    assert separation_of_points(points).delta_squared == brute_force(points.tolist())[1]


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_large_clouds_agree_with_a_direct_search(dim: int) -> None:
    points = np.random.default_rng(dim).random((1500, dim))
    gaps = np.square(points[:, None, :] - points[None, :, :]).sum(axis=2)
    gaps[np.tril_indices(len(points))] = np.inf
    rough = gaps.min()
    pairs = np.argwhere(gaps <= rough * (1 + 1e-12))
    exact = min(
        squared([Fraction(x) - Fraction(y) for x, y in zip(points[i], points[j], strict=True)])
        for i, j in pairs
    )
    assert separation_of_points(points).delta_squared == exact


def test_the_sample_that_prunes_does_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(3).random((2000, 3))
    whole = separation_of_points(points)
    monkeypatch.setattr(module, "_SAMPLE", 100)
    assert separation_of_points(points) == whole
    grid = np.random.default_rng(3).integers(0, 20, size=(2000, 3)).astype(np.float64)
    assert separation_of_points(grid).delta_squared == 1


def test_token_ids_are_points_of_a_grid() -> None:
    data = Dataset.from_arrays([[0, 5], [9]], [0, 1])
    with_positions = separation_of(data.inputs, ordered=True)
    assert with_positions.r_squared == 81
    assert with_positions.delta_squared == 17  # (5, 1) and (9, 0)
    assert with_positions.n_distinct == 3
    ids_alone = separation_of(data.inputs, ordered=False)
    assert (ids_alone.r_squared, ids_alone.delta_squared) == (81, 16)
    large = TokenSequences(np.array([2**53 - 1, 2**53 - 2]), np.array([0, 2]), 2**53)
    assert separation_of(large, ordered=False).delta_squared == 1


def test_only_finite_points_are_separated() -> None:
    with pytest.raises(NonFiniteInput):
        separation_of_points(np.array([[np.nan]]))


def test_a_hundred_thousand_tokens_take_seconds() -> None:
    points = np.random.default_rng(0).random((100_000, 4))
    with at_most_calls(100_000):
        found = separation_of_points(points)
        assert found.n_distinct == 100_000
    assert grid_vectors(2000, seed=0).check().separation is not None
    assert random_tokens(2000, seed=0).check().separation is not None
