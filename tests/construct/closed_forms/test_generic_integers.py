"""DPC24 Lemma 3 in finite form."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.dana_2024.generic_integers import generic_integers
from byheart.errors import ImpossibleSize
from byheart.theorems import checks


def _value(coefficients: dict[tuple[int, ...], int], point: tuple[int, ...]) -> int:
    return sum(
        factor * prod(x**power for x, power in zip(point, powers, strict=True))
        for powers, factor in coefficients.items()
    )


@checks("DPC24-L3")
@pytest.mark.parametrize(("n", "degree", "height"), [(1, 3, 3), (2, 1, 3), (2, 2, 1), (3, 1, 1)])
def test_no_polynomial_of_the_kind_vanishes(n: int, degree: int, height: int) -> None:
    """Every one of them is tried."""
    point = generic_integers(n, degree, height)
    monomials = list(product(range(degree + 1), repeat=n))
    for factors in product(range(-height, height + 1), repeat=len(monomials)):
        if any(factors):
            assert _value(dict(zip(monomials, factors, strict=True)), point) != 0


@checks("DPC24-L3")
@given(data=st.data())
def test_large_polynomials_do_not_vanish_either(data: st.DataObject) -> None:
    n, degree = data.draw(st.sampled_from([(1, 12), (2, 5), (3, 3), (5, 1)]))
    height = data.draw(st.integers(1, 1000))
    powers = st.tuples(*[st.integers(0, degree)] * n)
    factors = st.integers(-height, height).filter(bool)
    polynomial = data.draw(st.dictionaries(powers, factors, min_size=1, max_size=12))
    assert _value(polynomial, generic_integers(n, degree, height)) != 0


@checks("DPC24-L3")
@pytest.mark.parametrize(("n", "degree", "height"), [(1, 1, 3), (2, 2, 5), (3, 1, 2)])
def test_a_polynomial_just_beyond_the_bounds_vanishes(n: int, degree: int, height: int) -> None:
    """So neither bound is idle: X_1 - (height + 1) is one higher, X_1^(degree + 1) - X_2 has one degree more."""
    point = generic_integers(n, degree, height)
    one, first = (0,) * n, (1,) + (0,) * (n - 1)
    assert _value({first: 1, one: -(height + 1)}, point) == 0
    if n > 1:
        beyond, second = (degree + 1,) + (0,) * (n - 1), (0, 1) + (0,) * (n - 2)
        assert _value({beyond: 1, second: -1}, point) == 0


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ImpossibleSize):
        generic_integers(0, 1, 1)
