"""Prove bounds on the rank and Kruskal rank of ψ(abᵀ), the matrix of ψ(a_i b_j) (MFT24 Theorems 2 and 3, repaired).

The Kruskal rank is the largest k such that every k columns are linearly independent.

The determinants of such matrices are too small for floats: for example, about 10^-8900 for tanh, 100 rows and evenly spaced a and
b between 0 and 1. If ψ is a polynomial, the rank is computed modulo a prime, where it is never larger than over the rationals. If ψ
is tanh, GELU or arctan, determinants are computed in ball arithmetic (Arb). A ball is a number with an error bound. If the ball of
a determinant excludes zero, the determinant is not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from types import ModuleType
from typing import Any, Literal, TypeAlias

from byheart.errors import AssumptionViolated, MissingExtra, UsageError
from byheart.theorems import realises

PRIME = 2**61 - 1
"""A Mersenne prime that fits into a machine word."""

FIRST_BITS, MOST_BITS = 256, 1 << 16
Analytic = Literal["tanh", "gelu", "arctan"]
Rational: TypeAlias = int | Fraction


def flint_module() -> ModuleType:
    try:
        import flint
    except ImportError:
        raise MissingExtra("python-flint", "ranks", "deciding a rank") from None
    return flint


@dataclass(frozen=True)
class PolynomialRank:
    """The rank of the m × n matrix ψ(a_i b_j), which is between `modular` and `most`. If the two are equal, the rank is known.

    `modular` is the rank modulo a prime. `most` is min(m, n, |K|), where |K| is the number of terms of the polynomial ψ.
    """

    modular: int
    most: int

    @property
    def is_decided(self) -> bool:
        return self.modular == self.most


def require_positive(b: Sequence[Rational]) -> None:
    """Raise `AssumptionViolated` unless the entries of b are positive and distinct, as the repaired theorems require.

    The paper's "nonzero and distinct" is not enough: for the activation x + x³ and b = (1, -1), the matrix has rank 1.
    """
    if min(b) <= 0 or len(set(b)) < len(b):
        raise AssumptionViolated(
            "Theorems 2 and 3 of MFT24 need a vector b whose entries are positive and distinct.\n"
            "  With mixed signs the theorems fail, for example for the activation x + x³ and b = (1, -1)."
        )


def polynomial_matrix(
    coefficients: Mapping[int, Rational], a: Sequence[Rational], b: Sequence[Rational], prime: int = PRIME
) -> list[list[int]]:
    """Return the matrix of ψ(a_i b_j) mod `prime` for ψ(x) = Σ c_k x^k."""
    product = _product(coefficients, a, b, prime)
    return [[int(product[i, j]) for j in range(len(b))] for i in range(len(a))]


def _product(
    coefficients: Mapping[int, Rational], a: Sequence[Rational], b: Sequence[Rational], prime: int
) -> Any:
    """Return the matrix with the entries Σ_k c_k (a_i b_j)^k mod `prime`, computed as the product of the matrices (c_k a_i^k) and
    (b_j^k). The c_k are the `coefficients`.

    This form shows that the rank is at most the number of terms.
    """
    flint = flint_module()
    factors = {k: _residue(c, prime) for k, c in coefficients.items()}
    rows, columns = ([_residue(x, prime) for x in each] for each in (a, b))
    left = [c * pow(x, k, prime) % prime for x in rows for k, c in factors.items()]
    right = [pow(y, k, prime) for k in factors for y in columns]
    n_terms = len(coefficients)
    return flint.nmod_mat(len(a), n_terms, left, prime) * flint.nmod_mat(n_terms, len(b), right, prime)


def _residue(value: Rational, prime: int) -> int:
    """Return an integer or fraction modulo a prime: u/v becomes u·w for the w with v·w = 1. Raise `UsageError` if there is none."""
    if not isinstance(value, int | Fraction):
        raise UsageError(
            f"{value!r} is neither an int nor a Fraction, so it has no value modulo a prime.\n"
            "  Give ints or Fractions; Fraction(x) is the exact value of a float x.",
            value=value,
        )
    if value.denominator % prime == 0:
        raise UsageError(
            f"{value} has no value modulo {prime}, which divides its denominator.\n  Give another prime.",
            value=value,
            prime=prime,
        )
    return value.numerator * pow(value.denominator, -1, prime) % prime


def rank_modulo(matrix: Sequence[Sequence[Rational]], prime: int = PRIME) -> int:
    """Return the rank of a matrix of integers or fractions modulo a prime, which never exceeds its rank over the rationals.

    This is because a minor that is not zero modulo the prime is not zero.
    """
    flint = flint_module()
    flat = [_residue(value, prime) for row in matrix for value in row]
    return int(flint.nmod_mat(len(matrix), len(matrix[0]), flat, prime).rank())


@realises("MFT24-T2")
def polynomial_rank(
    coefficients: Mapping[int, Rational], a: Sequence[Rational], b: Sequence[Rational], prime: int = PRIME
) -> PolynomialRank:
    """Bound the rank of the m × n matrix ψ(a_i b_j) for a polynomial ψ with |K| terms. Its coefficients, a and b are integers or
    fractions.

    Source:     MFT24 Theorem 2: min(m, n, |K|) for generic a. The repaired theorem also needs b > 0. This
                function does not check b > 0 (`require_positive` does), so that the counterexamples can be shown.
    Guarantee:  the modular rank is a lower bound and min(m, n, |K|) an upper bound, both rigorous.
    """
    most = min(len(a), len(b), len(coefficients))
    return PolynomialRank(int(_product(coefficients, a, b, prime).rank()), most)


@realises("MFT24-T2", "MFT24-T3")
def kruskal_rank(matrix: Sequence[Sequence[Rational]], prime: int = PRIME) -> int:
    """Return the largest k such that every k columns are independent modulo the prime.

    This k is a lower bound on the Kruskal rank, which is the largest such number over the rationals.

    All subsets are tried, so this is meant for small matrices.
    """
    n_columns = len(matrix[0])
    for size in range(1, min(len(matrix), n_columns) + 1):
        for chosen in combinations(range(n_columns), size):
            if rank_modulo([[row[j] for j in chosen] for row in matrix], prime) < size:
                return size - 1
    return min(len(matrix), n_columns)


@dataclass(frozen=True)
class Determinant:
    """Facts about a ball (a number with an error bound) that contains det ψ(abᵀ), the determinant of the matrix of ψ(a_i b_j).

    `excludes_zero` says whether zero is outside the ball. `log10_size` is log10 of the largest magnitude in the ball, and `bits`
    the precision of the computation.
    """

    excludes_zero: bool
    log10_size: float
    bits: int


@realises("MFT24-T3")
def certified_determinant(
    activation: Analytic,
    a: Sequence[Fraction],
    b: Sequence[Fraction],
    *,
    first_bits: int = FIRST_BITS,
    most_bits: int = MOST_BITS,
) -> Determinant:
    """Compute det ψ(abᵀ), for the matrix of ψ(a_i b_j), in ball arithmetic.

    The precision is doubled until the ball excludes zero or the precision is at least `most_bits`.

    Source:     MFT24 Theorem 3: for generic a the matrix has full rank. The repaired theorem also needs b > 0.
    Guarantee:  a ball that excludes zero proves full rank. A ball that contains zero proves nothing.
    """
    flint = flint_module()
    function = _function(activation, flint)
    bits = first_bits
    while True:
        with flint.ctx.workprec(bits):
            entries = [
                function(flint.arb(flint.fmpq((x * y).numerator, (x * y).denominator))) for x in a for y in b
            ]
            value = flint.arb_mat(len(a), len(b), entries).det()
            excludes = not bool(value.contains(0))
            size = _log10(value)
        if excludes or bits >= most_bits:
            return Determinant(excludes, size, bits)
        bits *= 2


@realises("MFT24-T3")
def certified_kruskal_rank(
    activation: Analytic, a: Sequence[Fraction], b: Sequence[Fraction], *, most_bits: int = MOST_BITS
) -> int:
    """Return a lower bound on the Kruskal rank of the m × n matrix of ψ(a_i b_j): min(m, n) if this is proved, else 0.

    The result is also a lower bound on the rank, which is at least the Kruskal rank.

    A set of min(m, n) columns is independent if the minor of its first rows is not zero. All sets of columns are tried, so this is
    meant for matrices with few more columns than rows. Theorem 3 needs b > 0, which the paper does not state. This function does
    not check it; `require_positive` does.
    """
    size = min(len(a), len(b))
    minors = (
        certified_determinant(activation, a[:size], [b[j] for j in chosen], most_bits=most_bits)
        for chosen in combinations(range(len(b)), size)
    )
    return size if all(minor.excludes_zero for minor in minors) else 0


def _function(activation: Analytic, flint: ModuleType) -> Callable[[Any], Any]:
    if activation == "tanh":
        return lambda x: x.tanh()
    if activation == "arctan":
        return lambda x: x.atan()
    return lambda x: x * (1 + (x / flint.arb(2).sqrt()).erf()) / 2


def _log10(value: Any) -> float:
    """Return log10 of the largest magnitude in the ball `value` (a number with an error bound).

    The logarithm is finite even for a magnitude that is not zero but too small for a float.
    """
    upper = value.abs_upper()
    return float("-inf") if bool(upper == 0) else float(upper.log()) / 2.302585092994046
