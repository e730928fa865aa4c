"""MFT24 Theorems 2 and 3, repaired, and the counterexamples to what is printed."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.madden_2024.ranks import (
    PRIME,
    certified_determinant,
    certified_kruskal_rank,
    kruskal_rank,
    polynomial_matrix,
    polynomial_rank,
    rank_modulo,
    require_positive,
)
from byheart.errors import AssumptionViolated, UsageError
from byheart.theorems import checks
from tests.examples import examples
from tests.refusal import refused

flint = pytest.importorskip("flint", reason="needs python-flint; runs where the extra `ranks` is installed")


@checks("MFT24-T2")
@examples(200)
@given(
    exponents=st.sets(st.integers(0, 12), min_size=1, max_size=6),
    a=st.lists(st.integers(1, 10**9), min_size=1, max_size=6, unique=True),
    b=st.lists(st.integers(1, 10**6), min_size=1, max_size=6, unique=True),
)
def test_polynomials_have_the_rank_of_the_theorem_for_positive_b(
    exponents: set[int], a: list[int], b: list[int]
) -> None:
    # powers of distinct positive numbers are a generalised Vandermonde matrix: no minor of (a_i^k) or (b_j^k) is zero,
    # and all terms of Cauchy-Binet have one sign where the coefficients have
    require_positive(b)
    found = polynomial_rank(dict.fromkeys(exponents, 1), a, b)
    assert found.most == min(len(a), len(b), len(exponents))
    assert found.is_decided
    matrix = polynomial_matrix(dict.fromkeys(exponents, 1), a, b)
    assert kruskal_rank(matrix) == found.most


@checks("MFT24-T2")
def test_the_printed_theorem_is_false_for_mixed_signs() -> None:
    odd = {1: 1, 3: 1}
    assert polynomial_rank(odd, [3, 5], [1, -1]).modular == 1  # min(m, n, |K|) = 2
    assert polynomial_rank(odd, [3, 5], [1, 2]).modular == 2
    matrix = [[x * y + (x * y) ** 3 for y in (1, -1)] for x in (3, 5)]
    assert matrix[0][0] * matrix[1][1] - matrix[0][1] * matrix[1][0] == 0  # over the integers too
    with pytest.raises(AssumptionViolated):
        require_positive([1, -1])
    with pytest.raises(AssumptionViolated):
        require_positive([1, 1])


@checks("MFT24-T2")
def test_fractions_have_the_rank_of_their_multiples() -> None:
    cubic, half = {1: 1, 3: 1}, Fraction(1, 2)
    assert polynomial_rank(cubic, [half, 3], [1, 2]).modular == 2
    assert polynomial_rank(cubic, [half, 3], [Fraction(1, 7), -Fraction(1, 7)]).modular == 1
    assert polynomial_rank({1: half, 3: Fraction(2, 3)}, [1, 3], [1, 2]).modular == 2
    # modulo 7, 1/2 is 4
    assert polynomial_matrix({1: 1}, [half], [1], prime=7) == [[4]]
    thirds = [[Fraction(1, 3), Fraction(2, 3)], [1, 2]]
    assert (rank_modulo(thirds), kruskal_rank(thirds)) == (1, 1)


def test_numbers_without_a_residue_are_refused() -> None:
    for value in (0.5, "1"):
        with refused(UsageError, value=value):
            polynomial_rank({1: 1}, [value], [1])
    with refused(UsageError, value=Fraction(1, 7), prime=7):
        rank_modulo([[Fraction(1, 7)]], prime=7)


def test_ranks_modulo_a_prime() -> None:
    assert rank_modulo([[1, 2], [2, 4]]) == 1
    assert rank_modulo([[1, 2], [2, 5]]) == 2
    assert rank_modulo([[PRIME, 1], [0, 0]]) == 1
    assert kruskal_rank([[1, 1, 0], [0, 0, 1]]) == 1  # two equal columns


@checks("MFT24-T3")
@pytest.mark.parametrize("activation", ["tanh", "gelu", "arctan"])
@pytest.mark.parametrize("n", [1, 5, 20, 40])
def test_analytic_functions_have_full_rank_for_positive_b(activation: str, n: int) -> None:
    a = [Fraction(i + 1, n + 1) for i in range(n)]
    b = [Fraction(j + 1, n) for j in range(n)]
    require_positive(b)
    found = certified_determinant(activation, a, b)
    assert found.excludes_zero
    assert found.log10_size < 0


@checks("MFT24-T3")
@pytest.mark.parametrize("activation", ["tanh", "gelu", "arctan"])
@pytest.mark.parametrize(("m", "n"), [(1, 4), (3, 6), (6, 3), (5, 7), (9, 2)])
def test_kruskal_ranks_of_matrices_that_are_not_square(activation: str, m: int, n: int) -> None:
    a = [Fraction(i + 1, m + 1) for i in range(m)]
    b = [Fraction(j + 1, n) for j in range(n)]
    require_positive(b)
    assert certified_kruskal_rank(activation, a, b) == min(m, n)
    if n > 2 <= m:  # b and -b: columns of an odd function are dependent, and those of GELU with a third
        mixed = [Fraction(1), Fraction(-1), *b[2:]]
        odd = activation != "gelu"
        assert not odd or certified_kruskal_rank(activation, a, mixed, most_bits=512) == 0


@checks("MFT24-T3")
@pytest.mark.parametrize(("activation", "b"), [("tanh", (1, -1)), ("gelu", (1, -1, 2, -2))])
def test_the_printed_theorem_is_false_for_tanh_and_gelu(activation: str, b: tuple[int, ...]) -> None:
    # tanh is odd; GELU(x) - GELU(-x) = x, so four columns of ±1, ±2 are dependent
    a = [Fraction(1, k) for k in (3, 5, 7, 11)[: len(b)]]
    sizes = []
    for bits in (256, 1024, 4096):
        found = certified_determinant(
            activation, a, [Fraction(y) for y in b], first_bits=bits, most_bits=bits
        )
        assert not found.excludes_zero
        sizes.append(found.log10_size)
    assert sizes[2] < -1000 < sizes[1] < sizes[0]  # the ball shrinks to zero
    assert certified_determinant(activation, a, [Fraction(y) for y in range(1, len(b) + 1)]).excludes_zero


@checks("MFT24-T3")
@pytest.mark.slow
@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_full_rank_is_certified_up_to_two_hundred(activation: str) -> None:
    n = 200
    a = [Fraction(i + 1, n + 1) for i in range(n)]
    b = [Fraction(j + 1, n) for j in range(n)]
    assert certified_determinant(activation, a, b, first_bits=4096).excludes_zero


@checks("MFT24-T2")
@pytest.mark.slow
def test_modular_ranks_up_to_a_thousand() -> None:
    import random

    drawn = random.Random(0)
    a, b = (drawn.sample(range(1, 10**9), 1000) for _ in range(2))
    assert polynomial_rank({k: k + 1 for k in range(1000)}, a, b).is_decided
