"""Enclosures against an independent oracle: Python's decimal arithmetic with 80 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds import enclosures
from byheart.bounds.enclosures import Interval
from byheart.errors import ImpossibleSize
from tests.examples import examples

PI = "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899"
EULER = "2.71828182845904523536028747135266249775724709369995957496696762772407663035354759"

positive = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30)


def holds(interval: Interval, value: Decimal) -> bool:
    """Whether the decimal value, good to about 70 digits, lies in the interval."""
    near = Fraction(value)
    room = abs(near) / 10**70
    return interval.low <= near + room and near - room <= interval.high


def decimal_of(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


@given(positive, st.sampled_from([8, 64, 150]))
@examples(200)
def test_log2_and_ln_enclose_and_are_tight(value: Fraction, bits: int) -> None:
    with localcontext() as context:
        context.prec = 90
        natural = decimal_of(value).ln()
        assert holds(enclosures.log2(value, bits), natural / Decimal(2).ln())
        assert holds(enclosures.ln(value, bits), natural)
    width = enclosures.log2(value, bits).high - enclosures.log2(value, bits).low
    assert width <= Fraction(1, 1 << bits) or value.numerator & (value.numerator - 1) == 0


@given(st.fractions(min_value=-200, max_value=200), st.sampled_from([16, 64, 128]))
@examples(200)
def test_exp2_encloses_and_is_tight(exponent: Fraction, bits: int) -> None:
    interval = enclosures.exp2(exponent, bits)
    with localcontext() as context:
        context.prec = 90
        assert holds(interval, (decimal_of(exponent) * Decimal(2).ln()).exp())
    assert interval.high - interval.low <= interval.low * Fraction(bits + 10, 1 << bits)


@pytest.mark.parametrize("guard", [16, 72])
def test_roots_of_two_enclose_and_are_tight(guard: int) -> None:
    """The first root is off by one digit of the last place. Each further root halves what it is given, and rounds once: two."""
    for place in range(1, 9):
        root = enclosures._root_of_two(place, guard)
        assert root.low ** (1 << place) <= 2 <= root.high ** (1 << place)
        assert root.high - root.low <= Fraction(min(place, 2), 1 << (guard + 8))


@given(positive)
@examples(200)
def test_square_roots(value: Fraction) -> None:
    root = enclosures.sqrt(value)
    assert root.low**2 <= value <= root.high**2
    assert root.high - root.low <= root.low / 2**40
    whole = enclosures.ceil_sqrt(value)
    assert (whole - 1) ** 2 < value <= whole**2


@given(positive)
@examples(200)
def test_whole_logarithms_are_exact(value: Fraction) -> None:
    floor = enclosures.floor_log2(value)
    assert Fraction(2) ** floor <= value < Fraction(2) ** (floor + 1)


@pytest.mark.parametrize("bits", [8, 64, 200])
def test_constants(bits: int) -> None:
    for interval, digits in ((enclosures.pi(bits), PI), (enclosures.e(bits), EULER)):
        assert holds(interval, Decimal(digits))
        assert interval.high - interval.low <= Fraction(1, 1 << bits)
    with localcontext() as context:
        context.prec = 90
        assert holds(enclosures.ln2(bits), Decimal(2).ln())


def test_a_power_of_two_is_a_point() -> None:
    assert enclosures.log2(Fraction(1, 8)) == Interval(Fraction(-3), Fraction(-3))


def test_a_value_next_to_a_power_of_two_is_still_enclosed() -> None:
    # the digits of log2(2 + 2^-200) agree with those of 1 for 200 places, so the loop stops early
    value = 2 + Fraction(1, 1 << 200)
    interval = enclosures.log2(value, 64)
    assert interval.low <= 1 <= interval.high
    assert interval.high > 1


def test_logarithms_of_what_is_not_positive_are_refused() -> None:
    with pytest.raises(ImpossibleSize):
        enclosures.floor_log2(0)


def test_settle_refines_until_both_ends_agree() -> None:
    asked: list[int] = []

    def enclose(bits: int) -> Interval:
        asked.append(bits)
        return Interval(Fraction(1), 1 + Fraction(1, 3 if bits < 256 else 5))

    assert enclosures.settle(enclose, lambda value: (4 * value).__floor__()) == 4
    assert asked == [64, 128, 256]


def test_interval_arithmetic() -> None:
    half = Interval(Fraction(1, 2), Fraction(2, 3))
    assert half * 3 == Interval(Fraction(3, 2), Fraction(2))
    assert half**2 == Interval(Fraction(1, 4), Fraction(4, 9))
    assert half.reciprocal() == Interval(Fraction(3, 2), Fraction(2))
    assert half * -1 == Interval(Fraction(-2, 3), Fraction(-1, 2))
    assert half * (half * -2) == Interval(Fraction(-8, 9), Fraction(-1, 2))
    assert half - half == Interval(Fraction(-1, 6), Fraction(1, 6))
    assert half.shorten(2) == Interval(Fraction(1, 2), Fraction(3, 4))
