"""Integers that are not a root of any polynomial of bounded degree and height: a finite form of Lemma 3 of Dana et al. 2024."""

from __future__ import annotations

from byheart.errors import ImpossibleSize
from byheart.theorems import realises


@realises("DPC24-L3")
def generic_integers(n_variables: int, degree: int, height: int) -> tuple[int, ...]:
    """Return positive integers x_1, …, x_n with P(x_1, …, x_n) ≠ 0 for every non-zero integer polynomial P within the bounds
    below.

    Source:     DPC24 Lemma 3, which requires this of all polynomials at once and therefore needs transcendental numbers.
    Assumes:    P has degree at most `degree` in each variable and coefficients of absolute value at most `height`.
    Guarantee:  let b = height + 1 and x_i = b^((degree + 1)^(i - 1)). Every monomial is a different power b^k: the digits of k in
                base degree + 1 are the exponents of the x_i. The term of P with the highest power b^K outweighs all other
                terms. Their sum is at most height · (b^K - 1) / (b - 1) = b^K - 1 in absolute value.
    Size:       x_n has ⌊(degree + 1)^(n - 1) · log2(height + 1)⌋ + 1 bits.
    """
    if min(n_variables, degree, height) < 1:
        raise ImpossibleSize("n_variables, degree and height must be at least 1")
    base = height + 1
    return tuple(base ** ((degree + 1) ** place) for place in range(n_variables))
