"""Compute intervals with rational ends around the real numbers that theorems use: logarithms, roots, π and e.

Every function returns either an exact integer or an `Interval` of exact rationals that contains the true value. No floats are
used, so nothing overflows and no decision depends on rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import isqrt

from byheart.errors import ImpossibleSize

Rational = int | Fraction
Real = int | Fraction | float
DEFAULT_BITS = 64


@dataclass(frozen=True)
class Interval:
    """Exact rationals with `low <= true value <= high`."""

    low: Fraction
    high: Fraction

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, factor: Interval | Rational) -> Interval:
        """Return the interval of all products with `factor`."""
        ends = (factor.low, factor.high) if isinstance(factor, Interval) else (factor,)
        products = [end * mine for end in ends for mine in (self.low, self.high)]
        return Interval(min(products), max(products))

    def __pow__(self, power: int) -> Interval:
        return Interval(self.low**power, self.high**power)

    def reciprocal(self) -> Interval:
        """Return the interval of reciprocals. The interval must not contain zero."""
        return Interval(1 / self.high, 1 / self.low)

    def shorten(self, bits: int) -> Interval:
        """Round the ends outward to `bits` binary places, so that denominators stay short."""
        scale = 1 << bits
        low, high = (self.low * scale).__floor__(), ceil_fraction(self.high * scale)
        return Interval(Fraction(low, scale), Fraction(high, scale))


def ceil_fraction(value: Rational) -> int:
    """Return the smallest integer that is at least `value`."""
    value = Fraction(value)
    return -(-value.numerator // value.denominator)


def floor_log2(value: Rational) -> int:
    """Return the largest integer k with 2**k <= value, for a positive rational, exactly."""
    value = Fraction(value)
    if value <= 0:
        raise ImpossibleSize("only positive numbers have a logarithm")
    k = value.numerator.bit_length() - value.denominator.bit_length()
    # 2**(k - 1) < value < 2**(k + 1), so at most one correction is needed
    return k if value >= Fraction(2) ** k else k - 1


def log2(value: Rational, bits: int = DEFAULT_BITS) -> Interval:
    """Enclose log2(value), usually to within 2**-bits. If `value` is a power of two, the result is exact.

    Write value = m · 2**k with m in [1, 2). The binary digits of log2(m) are computed one by one. For each digit, m is squared.
    If the square is at least 2, the digit is 1, and half of the square is the next m. Otherwise the digit is 0, and the square is
    the next m. Since m is rounded, two fractions with the denominator 2**guard enclose it, where guard = 2 · bits + 16. If the
    two give different digits, the computation stops there, and the interval is wider.
    """
    value = Fraction(value)
    whole = floor_log2(value)
    mantissa = value / Fraction(2) ** whole
    if mantissa == 1:
        return Interval(Fraction(whole), Fraction(whole))
    guard = 2 * bits + 16
    low = (mantissa.numerator << guard) // mantissa.denominator
    high = low + 1
    two = 2 << guard
    digits, taken = 0, 0
    while taken < bits:
        low, high = (low * low) >> guard, ((high * high) >> guard) + 1
        if low >= two:
            digit, low, high = 1, low >> 1, (high + 1) >> 1
        elif high <= two:
            digit = 0
        else:
            break  # the ends disagree on this digit, so stop here
        digits, taken = 2 * digits + digit, taken + 1
    start = whole + Fraction(digits, 1 << taken)
    return Interval(start, start + Fraction(1, 1 << taken))


@cache
def pi(bits: int = DEFAULT_BITS) -> Interval:
    """Enclose π, for bits <= 4000 to within 2**-bits, by Machin's formula π = 16 arctan(1/5) - 4 arctan(1/239)."""
    scale_bits = bits + 16
    fifth, fifth_error = _arctan_inverse(5, scale_bits)
    other, other_error = _arctan_inverse(239, scale_bits)
    error = 16 * fifth_error + 4 * other_error
    centre = 16 * fifth - 4 * other
    return Interval(Fraction(centre - error, 1 << scale_bits), Fraction(centre + error, 1 << scale_bits))


def _arctan_inverse(x: int, scale_bits: int) -> tuple[int, int]:
    """Return an integer close to 2**scale_bits arctan(1/x), and a bound on the difference.

    The series alternates. Each of its terms is rounded down twice, first the power and then the quotient, by less than 1 each time.
    The omitted terms add up to at most the first omitted term, which is below 1.
    """
    power, total, index = (1 << scale_bits) // x, 0, 0
    while power:
        term = power // (2 * index + 1)
        total += -term if index % 2 else term
        power //= x * x
        index += 1
    return total, 2 * index + 1


@cache
def e(bits: int = DEFAULT_BITS) -> Interval:
    """Enclose e to within 2**-bits, by the first terms of Σ 1/k!.

    The omitted terms add up to less than 2/n!, where 1/n! is the first omitted term.
    """
    total, factorial, k = Fraction(0), 1, 0
    while factorial < 4 << bits:
        total += Fraction(1, factorial)
        k += 1
        factorial *= k
    return Interval(total, total + Fraction(2, factorial))


def ceil_sqrt(value: Rational) -> int:
    """Return the smallest integer that is at least the square root of a non-negative rational, exactly."""
    whole = ceil_fraction(value)
    root = isqrt(whole)
    return root if root * root == whole else root + 1


def sqrt(value: Interval | Rational, bits: int = DEFAULT_BITS) -> Interval:
    """Enclose the square root of a non-negative number, to about `bits` significant binary digits."""
    if not isinstance(value, Interval):
        value = Interval(Fraction(value), Fraction(value))
    # scale up a small number, so that its root keeps its digits
    scale = 1 << (bits if value.low == 0 else bits + max(0, -floor_log2(value.low)))
    low = isqrt((value.low * scale * scale).__floor__())
    high = isqrt((value.high * scale * scale).__floor__())
    return Interval(Fraction(low, scale), Fraction(high + 1, scale))


def settle(
    enclose: Callable[[int], Interval], rounded: Callable[[Fraction], int], start_bits: int = DEFAULT_BITS
) -> int:
    """Round a real number, of which only enclosures are known, to an integer.

    `enclose(bits)` returns an interval around the number, which must become smaller as `bits` grows. `rounded` is a monotone step
    function. `bits` is doubled until both ends of the interval round to the same integer. This ends for all numbers that callers
    pass: either the number is irrational, and `rounded` does not jump there, or both ends of its interval are equal.
    """
    bits = start_bits
    while True:
        enclosure = enclose(bits)
        low, high = rounded(enclosure.low), rounded(enclosure.high)
        if low == high:
            return low
        bits *= 2


@cache
def ln2(bits: int = DEFAULT_BITS) -> Interval:
    """Enclose the natural logarithm of 2, by the first terms of Σ 1 / (k 2^k).

    The omitted terms add up to less than the last term that is used.
    """
    total, k = Fraction(0), 1
    while k <= bits + 8:
        total += Fraction(1, k << k)
        k += 1
    return Interval(total, total + Fraction(1, 1 << (bits + 8)))


def ln(value: Rational, bits: int = DEFAULT_BITS) -> Interval:
    """Enclose the natural logarithm of a positive rational."""
    return log2(value, bits) * ln2(bits)


def exp2(exponent: Rational, bits: int = DEFAULT_BITS) -> Interval:
    """Enclose 2**exponent for a rational exponent.

    Let w be the exponent rounded down. The result is the product of 2**w and of a factor 2**(2**-k) for each k for which the k-th
    binary digit of exponent - w after the point is 1.
    """
    exponent = Fraction(exponent)
    whole = exponent.__floor__()
    fraction = exponent - whole
    result, guard = Interval(Fraction(1), Fraction(1)), bits + 8
    for place in range(1, guard + 1):
        fraction *= 2
        if fraction >= 1:
            fraction -= 1
            result = (result * _root_of_two(place, guard)).shorten(guard)
    if fraction:  # the omitted digits multiply by at most 2**(2**-guard) <= 1 + 2**-guard
        result *= Interval(Fraction(1), 1 + Fraction(1, 1 << guard))
    return result * Fraction(2) ** whole


@cache
def _root_of_two(place: int, guard: int) -> Interval:
    """Enclose 2**(2**-place) by repeated square roots, to about guard + 8 binary digits."""
    if place == 0:
        return Interval(Fraction(2), Fraction(2))
    return sqrt(_root_of_two(place - 1, guard), guard + 8)
