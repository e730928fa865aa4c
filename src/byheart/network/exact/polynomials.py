"""Polynomials in one real variable with rational coefficients: their real roots, and the signs of several polynomials at once.

A polynomial is the tuple of its coefficients, starting with the constant, without trailing zeros. The empty tuple is zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key, reduce
from itertools import pairwise
from math import gcd, lcm
from typing import TypeAlias

from byheart.theorems import realises

Polynomial: TypeAlias = tuple[Fraction, ...]
ONE: Polynomial = (Fraction(1),)


def polynomial(coefficients: Iterable[Fraction | int]) -> Polynomial:
    """Create a polynomial from its coefficients, starting with the constant."""
    found = [Fraction(each) for each in coefficients]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def add(left: Polynomial, right: Polynomial) -> Polynomial:
    short, long = sorted((left, right), key=len)
    return polynomial([a + b for a, b in zip(short, long, strict=False)] + list(long[len(short) :]))


def scale(factor: Fraction | int, values: Polynomial) -> Polynomial:
    return polynomial(factor * each for each in values)


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    made = [Fraction(0)] * max(0, len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            made[i + j] += a * b
    return polynomial(made)


def value_at(values: Polynomial, point: Fraction) -> Fraction:
    return reduce(lambda total, each: total * point + each, reversed(values), Fraction(0))


def sign(number: Fraction) -> int:
    return (number > 0) - (number < 0)


def _divide(left: Polynomial, right: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Return quotient and remainder of two polynomials."""
    rest, quotient = list(left), [Fraction(0)] * max(0, len(left) - len(right) + 1)
    for at in range(len(left) - len(right), -1, -1):
        factor = rest[at + len(right) - 1] / right[-1]
        quotient[at] = factor
        for i, each in enumerate(right):
            rest[at + i] -= factor * each
    return polynomial(quotient), polynomial(rest[: len(right) - 1])


def _divisor(left: Polynomial, right: Polynomial) -> Polynomial:
    """Return the greatest common divisor of two polynomials, with leading coefficient 1."""
    while right:
        left, right = right, _primitive(_divide(left, right)[1])
    return scale(1 / left[-1], left) if left else left


def _primitive(values: Polynomial) -> Polynomial:
    """Multiply a polynomial by a positive number that makes its coefficients integers without a common factor.

    Without this, numerators and denominators would grow in each step of Euclid's algorithm and of a Sturm chain.
    """
    if not values:
        return values
    common = lcm(*(each.denominator for each in values))
    return scale(Fraction(common, gcd(*(int(each * common) for each in values))), values)


def _derivative(values: Polynomial) -> Polynomial:
    return polynomial(at * each for at, each in enumerate(values) if at)


def square_free(values: Polynomial) -> Polynomial:
    """Return the polynomial with the same roots, each with multiplicity one."""
    return _divide(values, _divisor(values, _derivative(values)))[0] if len(values) > 1 else values


def _sturm_chain(values: Polynomial) -> list[Polynomial]:
    """Return the Sturm chain. All its polynomials have integer coefficients."""
    chain = [_primitive(values), _primitive(_derivative(values))]
    while chain[-1]:
        chain.append(scale(-1, _primitive(_divide(chain[-2], chain[-1])[1])))
    return chain[:-1]


def _changes(chain: Sequence[Polynomial], point: Fraction) -> int:
    signs = [s for s in (_sign_at(each, point) for each in chain) if s]
    return sum(a != b for a, b in pairwise(signs))


def _sign_at(values: Polynomial, point: Fraction) -> int:
    """Return the sign of a polynomial with integer coefficients, computed without fractions."""
    total, power = 0, 1
    for each in reversed(values):
        total = total * point.numerator + each.numerator * power
        power *= point.denominator
    return (total > 0) - (total < 0)


@dataclass(frozen=True)
class Root:
    """The only root in (low, high] of a square-free polynomial. `chain` is the Sturm chain of this polynomial."""

    chain: tuple[Polynomial, ...]
    low: Fraction
    high: Fraction

    @property
    def polynomial(self) -> Polynomial:
        return self.chain[0]

    def halved(self) -> Root:
        """Return the same root with an interval of half the length."""
        middle = (self.low + self.high) / 2
        in_left = _changes(self.chain, self.low) > _changes(self.chain, middle)
        return Root(self.chain, self.low, middle) if in_left else Root(self.chain, middle, self.high)

    def sign_of(self, values: Polynomial) -> int:
        """Return the sign of another polynomial at this root."""
        if not values:
            return 0
        shared = _divisor(self.polynomial, values)
        if len(shared) > 1 and _count_roots(_sturm_chain(shared), self.low, self.high):
            return 0
        root, chain = self, _sturm_chain(square_free(values))
        while not value_at(values, root.low) or _count_roots(chain, root.low, root.high):
            root = root.halved()
        return sign(value_at(values, root.high))


def _count_roots(chain: Sequence[Polynomial], low: Fraction, high: Fraction) -> int:
    """Return the number of roots in (low, high] of a square-free polynomial with the Sturm chain `chain`."""
    return _changes(chain, low) - _changes(chain, high)


def compare_roots(left: Root, right: Root) -> int:
    """Compare two roots. Return -1 if the left one is smaller, 0 if they are equal, and 1 if it is larger."""
    low, high = max(left.low, right.low), min(left.high, right.high)
    if low < high:
        shared = _divisor(left.polynomial, right.polynomial)
        if len(shared) > 1 and _count_roots(_sturm_chain(shared), low, high):
            return 0
        left, right = separated(left, right)
    return -1 if left.high <= right.low else 1


def separated(left: Root, right: Root) -> tuple[Root, Root]:
    """Shrink the intervals of two different roots until they are disjoint."""
    while not (left.high < right.low or right.high < left.low):
        left, right = left.halved(), right.halved()
    return left, right


def roots_of_all(polynomials: Iterable[Polynomial]) -> list[Root]:
    """Return all roots of the non-zero polynomials, each root once, from left to right."""
    found = [root for each in dict.fromkeys(polynomials) if each for root in real_roots(each)]
    found.sort(key=cmp_to_key(compare_roots))
    return [root for at, root in enumerate(found) if not at or compare_roots(found[at - 1], root)]


def real_roots(values: Polynomial) -> list[Root]:
    """Return all real roots of a non-zero polynomial in ascending order, each in an interval that contains no other root."""
    simple = square_free(values)
    if len(simple) < 2:
        return []
    chain = tuple(_sturm_chain(simple))
    limit = 1 + max(abs(each / simple[-1]) for each in simple[:-1])  # Cauchy's bound
    found: list[Root] = []
    waiting = [(-limit, limit)]
    while waiting:
        low, high = waiting.pop()
        count = _count_roots(chain, low, high)
        if count == 1:
            found.append(Root(chain, low, high))
        elif count:
            middle = (low + high) / 2
            waiting += [(middle, high), (low, middle)]
    return found


@realises("KS25-L B.4")
def sign_vectors(polynomials: Sequence[Polynomial]) -> list[tuple[int, ...]]:
    """Return the signs of all polynomials along the real line, from left to right: between roots, and at every root.

    Source:     KS25 Lemma B.4, eq. (67), for W = 1 variable.
    Guarantee:  exact. All roots are isolated, and between neighbouring roots no sign changes. The number of different sign
                vectors is the K of the lemma.
    """
    roots = roots_of_all(polynomials)
    vectors = []
    for left, right in pairwise([None, *roots, None]):
        point = between(left, right)
        vectors.append(tuple(sign(value_at(each, point)) for each in polynomials))
        if right is not None:
            vectors.append(tuple(right.sign_of(each) for each in polynomials))
    return vectors


def between(left: Root | None, right: Root | None) -> Fraction:
    """Return a number between two roots. Pass None for a side where there is no root."""
    if right is None:
        return Fraction(0) if left is None else left.high + 1
    if left is None:
        return right.low
    return separated(left, right)[1].low
