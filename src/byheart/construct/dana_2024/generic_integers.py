"""Integers that no polynomial of bounded degree and height vanishes on: DPC24 Lemma 3 in finite form."""

from __future__ import annotations

from byheart.errors import ImpossibleSize
from byheart.theorems import realises


@realises("DPC24-L3")
def generic_integers(n_variables: int, degree: int, height: int) -> tuple[int, ...]:
    """Positive integers x_1, …, x_n with P(x_1, …, x_n) ≠ 0 for every non-zero integer polynomial P that is not too large.

    Source:     DPC24 Lemma 3, which asks it of all polynomials at once and so needs transcendental numbers.
    Assumes:    P has degree at most `degree` in each variable and coefficients of absolute value at most `height`.
    Guarantee:  with b = height + 1 and x_i = b^((degree + 1)^(i - 1)) the monomials are different powers of b, since the
                exponents are the digits of the power in base degree + 1. The highest power b^K outweighs the rest, which adds up
                to at most height · (b^K - 1) / (b - 1) = b^K - 1.
    Size:       x_n has (degree + 1)^(n - 1) · log2(height + 1) bits.
    """
    if min(n_variables, degree, height) < 1:
        raise ImpossibleSize("n_variables, degree and height must be at least 1")
    base = height + 1
    return tuple(base ** ((degree + 1) ** place) for place in range(n_variables))
