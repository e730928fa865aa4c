"""The vectorised exact evaluation against the interpreter, which defines what a network computes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.network import Attention, FeedForward, Head, SparseMatrix, Transformer
from byheart.network.exact.dyadic import Dyadic
from byheart.network.exact.limbs import Fixed, divide, linear_combination, segment_sums
from byheart.network.transformer.equations import NotExact
from byheart.network.transformer.evaluator import evaluate
from byheart.network.transformer.interpreter import interpret
from byheart.theorems import checks
from tests.examples import examples

from .networks import exact_networks, inputs_for

dyadics = st.builds(
    lambda mantissa, exponent: Fraction(mantissa) * Fraction(2) ** exponent,
    st.integers(-(2**200), 2**200),
    st.integers(-150, 60),
)


@checks("KS25-eq3", "KS25-eq4", "KS25-eq39")
@examples(400)
@given(exact_networks(), st.integers(0, 2**32), st.booleans())
def test_evaluate_equals_interpret(network: Transformer, seed: int, last_only: bool) -> None:
    encoded = inputs_for(network, np.random.default_rng(seed), 5)
    values = evaluate(network, encoded, last_only=last_only)
    expected = [[token[0] for token in interpret(network, sequence)] for sequence in encoded]
    if last_only:
        expected = [row[-1:] for row in expected]
    assert values.all() == [value for row in expected for value in row]


@examples(300)
@given(st.lists(dyadics, min_size=1, max_size=5), st.lists(st.tuples(dyadics, dyadics), max_size=4), dyadics)
def test_linear_combination_is_exact(
    values: list[Fraction], terms: list[tuple[Fraction, Fraction]], bias: Fraction
) -> None:
    shifted = [[value + offset for value in values] for _, offset in terms]
    got = linear_combination(
        len(values),
        [
            (Dyadic.of(coefficient), Fixed.from_fractions(row))
            for (coefficient, _), row in zip(terms, shifted, strict=True)
            if coefficient
        ],
        Dyadic.of(bias),
    )
    expected = [
        bias + sum((c * row[i] for (c, _), row in zip(terms, shifted, strict=True)), Fraction(0))
        for i in range(len(values))
    ]
    assert got.fractions() == expected


@examples(200)
@given(st.lists(st.integers(-(2**100), 2**100), min_size=1, max_size=12), st.integers(1, 12), st.booleans())
def test_sums_and_quotients_are_exact(values: list[int], divisor: int, exact: bool) -> None:
    numbers = [value * divisor if exact else value for value in values]
    index = np.arange(len(numbers))
    total = segment_sums(Fixed.from_integers(numbers, 0), index, len(numbers))
    assert total.fractions() == [sum(numbers)]
    odd = divisor // (divisor & -divisor)
    quotients = divide(Fixed.from_integers(numbers, 0), divisor)
    if any(value % odd for value in numbers):
        assert quotients is None
    else:
        assert quotients is not None
        assert quotients.fractions() == [Fraction(value, divisor) for value in numbers]


@examples(200)
@given(st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=30))
def test_distinct_numbers_each_once(values: list[int]) -> None:
    rows, index = Fixed.from_integers(values, 0).distinct()
    assert [values[rows[i]] for i in index] == values
    assert len(rows) == len(set(values))


def test_many_rows_are_split_over_threads_without_a_trace() -> None:
    rng = np.random.default_rng(0)
    values = [int(v) - 2**61 for v in rng.integers(0, 2**62, size=100_000)]
    doubled = linear_combination(len(values), [(Dyadic.of(-6), Fixed.from_integers(values, 3))], Dyadic.of(1))
    assert doubled.fractions() == [1 - Fraction(6 * value, 8) for value in values]


def _mean_network(scale: int) -> Transformer:
    head = Head(SparseMatrix.of((1, 1), {(0, 0): 1}), SparseMatrix.of((1, 1), {(0, 0): scale}))
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    return Transformer(one, (Attention((head,), "uniform"),), one, 3)


def test_a_mean_of_three_is_refused_unless_it_is_dyadic() -> None:
    encoded = np.array([[[1.0], [2.0], [4.0]]])
    with pytest.raises(NotExact):
        evaluate(_mean_network(1), encoded)
    assert evaluate(_mean_network(3), encoded).all() == [8, 9, 11]
    assert interpret(_mean_network(1), encoded[0])[0] == [Fraction(10, 3)]


@checks("KS25-eq12")
def test_scored_attention_goes_through_the_interpreter() -> None:
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    layer = Attention((Head(one, one, one, one),), "hardmax")
    network = Transformer(one, (layer,), one, 2)
    encoded = np.array([[[1.0], [3.0]], [[2.0], [2.0]]])
    assert evaluate(network, encoded).all() == [4, 6, 4, 4]
    assert evaluate(network, encoded, last_only=True).all() == [6, 4]


def test_a_changed_weight_changes_the_value() -> None:
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    layer = FeedForward(one, SparseMatrix.of((1, 1), {(0, 0): -1}), one, SparseMatrix.of((1, 1), {}))
    network = Transformer(one, (layer,), one, 1)
    encoded = np.array([[[5.0]]])
    assert evaluate(network, encoded).all() == [9]
    tampered = replace(network, layers=(replace(layer, b1=SparseMatrix.of((1, 1), {(0, 0): -2})),))
    assert evaluate(tampered, encoded).all() == [8]


def test_no_samples() -> None:
    network = _mean_network(3)
    assert evaluate(network, np.zeros((0, 3, 1)), last_only=True).index.shape == (0,)
    assert evaluate(network, np.zeros((0, 3, 1))).index.shape == (0, 3)
