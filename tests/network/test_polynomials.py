"""Signs of polynomials on the line, against the count of KS25 Lemma B.4."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce

from hypothesis import given, settings
from hypothesis import strategies as st

from byheart.bounds.enclosures import log2
from byheart.bounds.vc_dimension import log2_sign_patterns
from byheart.network.exact.polynomials import (
    ONE,
    add,
    multiply,
    polynomial,
    real_roots,
    scale,
    sign_vectors,
    value_at,
)
from byheart.theorems import checks

COEFFICIENTS = st.lists(st.integers(-6, 6), min_size=1, max_size=5).map(polynomial)
ROOTS = st.lists(st.integers(-5, 5), min_size=0, max_size=4)


def with_roots(roots: list[int]) -> tuple[Fraction, ...]:
    return reduce(multiply, ((Fraction(-root), Fraction(1)) for root in roots), ONE)


@checks("KS25-L B.4")
def test_two_lines_have_five_sign_vectors() -> None:
    found = sign_vectors([polynomial([0, 1]), polynomial([-1, 1])])
    assert found == [(-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)]


@checks("KS25-L B.4")
def test_irrational_roots_are_told_apart() -> None:
    """√2 and its neighbour √(2 + 1/1000), and a polynomial that is zero at the first."""
    first, second = polynomial([-2, 0, 1]), polynomial([Fraction(-2001, 1000), 0, 1])
    both = sign_vectors([first, second, multiply(first, polynomial([5, 1]))])
    assert len(both) == 2 * 5 + 1
    assert [vector for vector in both if 0 in vector] == [
        (1, 1, 0),
        (1, 0, 1),
        (0, -1, 0),
        (0, -1, 0),
        (1, 0, 1),
    ]


@checks("KS25-L B.4")
@settings(max_examples=150, deadline=None)
@given(roots=st.lists(ROOTS, min_size=1, max_size=5))
def test_signs_are_those_at_points_between_known_roots(roots: list[list[int]]) -> None:
    polynomials = [with_roots(each) for each in roots]
    breaks = sorted({root for each in roots for root in each})
    points = [Fraction(-7)]
    for at in breaks:
        points += [Fraction(at), Fraction(at) + Fraction(1, 3)]
    expected = [
        tuple((v > 0) - (v < 0) for v in (value_at(each, point) for each in polynomials)) for point in points
    ]
    assert sign_vectors(polynomials) == expected
    assert len(real_roots(reduce(multiply, polynomials, ONE))) == len(breaks)


@checks("KS25-L B.4")
@settings(max_examples=150, deadline=None)
@given(polynomials=st.lists(COEFFICIENTS, min_size=1, max_size=6))
def test_no_more_vectors_than_the_lemma_allows(polynomials: list[tuple[Fraction, ...]]) -> None:
    degree = max(1, max(len(each) - 1 for each in polynomials))
    n_vectors = len(set(sign_vectors(polynomials)))
    assert log2(n_vectors).low <= log2_sign_patterns(len(polynomials), degree, 1)
    # an exact count that needs no lemma: a gap or a root each
    assert n_vectors <= 2 * len(polynomials) * degree + 1


@given(left=COEFFICIENTS, right=COEFFICIENTS, point=st.fractions(max_denominator=9))
def test_values_add_and_multiply(
    left: tuple[Fraction, ...], right: tuple[Fraction, ...], point: Fraction
) -> None:
    assert value_at(add(left, right), point) == value_at(left, point) + value_at(right, point)
    assert value_at(multiply(left, right), point) == value_at(left, point) * value_at(right, point)
    assert value_at(scale(3, left), point) == 3 * value_at(left, point)
