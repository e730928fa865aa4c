"""Dyadic rationals: one representation each, exact conversions, bit complexity."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.errors import ByheartError
from byheart.network.exact.dyadic import ZERO, Dyadic, SparseMatrix, as_sparse
from byheart.network.size import size_of_network
from byheart.theorems import checks
from tests.examples import examples

from .networks import exact_networks


@examples(300)
@given(st.integers(-(2**80), 2**80), st.integers(-90, 90))
def test_one_representation_for_each_number(mantissa: int, exponent: int) -> None:
    number = Fraction(mantissa) * Fraction(2) ** exponent
    dyadic = Dyadic.of(number)
    assert dyadic.fraction == number
    assert Dyadic.of(dyadic) is dyadic
    assert dyadic == ZERO if number == 0 else dyadic.mantissa % 2 == 1


@examples(200)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_dyadic(value: float) -> None:
    assert float(Dyadic.of(value)) == value
    assert Dyadic.of(value).is_float64


@checks("KS25-bits")
def test_bit_complexity_counts_digits_on_both_sides_of_the_point() -> None:
    expected = {0: 0, 1: 1, 6: 3, -6: 3, Fraction(1, 2): 1, Fraction(5, 2): 3, Fraction(1, 16): 4, 2**40: 41}
    assert {value: Dyadic.of(value).bits for value in expected} == expected
    assert Dyadic.of(Fraction(21, 4)).bits == 5  # 101.01


def test_what_is_not_dyadic_or_not_reduced_is_refused() -> None:
    with pytest.raises(ByheartError):
        Dyadic.of(Fraction(1, 3))
    for mantissa, exponent in ((2, 0), (0, 1)):
        with pytest.raises(ValueError, match=rf"{mantissa}.*{exponent}"):
            Dyadic(mantissa, exponent)


def test_what_floats_cannot_hold() -> None:
    assert not Dyadic.of(2**53 + 1).is_float64
    assert not Dyadic.of(2**2000).is_float64
    assert not Dyadic(1, -1100).is_float64


def test_sparse_matrices() -> None:
    array = np.array([[0.0, 1.5], [-2.0, 0.0]])
    sparse = as_sparse(array)
    assert sparse.shape == (2, 2)
    assert sparse == SparseMatrix.of((2, 2), {(1, 0): -2, (0, 1): Fraction(3, 2), (0, 0): 0})
    assert sparse != SparseMatrix.of((2, 2), {(1, 0): -2})
    assert list(sparse.entries) == [(0, 1), (1, 0)]
    assert as_sparse(np.zeros((0, 3))).shape == (0, 3)
    assert as_sparse(np.array([0.0, 2.0])) == SparseMatrix.of((2, 1), {(1, 0): 2})
    with pytest.raises(IndexError, match=r"\(2, 0\)"):
        SparseMatrix.of((2, 2), {(2, 0): 1})


@checks("KS25-bits", "KS25-eq4")
@examples(200)
@given(exact_networks(pools=False))
def test_counting(network) -> None:
    size = size_of_network(network)
    values = [value for _, weights in network.parameters() for value in as_sparse(weights).entries.values()]
    assert size.parameters_dense == sum(w.shape[0] * w.shape[1] for _, w in network.parameters())
    assert size.parameters_nonzero == len(values)
    assert size.total_bits == sum(value.bits for value in values)
    assert size.weight_bits == max((value.bits for value in values), default=0)
    assert size.depth == len(network.layers)
