"""The interpreter by hand-worked examples, and against the equations, which are the specification."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.network import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    ShapeMismatch,
    SparseMatrix,
    SumPool,
    Transformer,
)
from byheart.network.transformer.architecture import Layer
from byheart.network.transformer.equations import NotExact, exact_outputs
from byheart.network.transformer.interpreter import Interpreter, hardmax, interpret, softmax
from byheart.theorems import checks
from tests.examples import examples
from tests.refusal import refused

from .networks import exact_networks, inputs_for


def column(*values: object) -> SparseMatrix:
    return SparseMatrix.of((len(values), 1), {(i, 0): v for i, v in enumerate(values)})


def matrix(*rows: tuple[object, ...]) -> SparseMatrix:
    entries = {(i, j): v for i, row in enumerate(rows) for j, v in enumerate(row)}
    return SparseMatrix.of((len(rows), len(rows[0])), entries)


ONE = matrix((1,))


@checks("KS25-eq1")
def test_hardmax_shares_ties() -> None:
    assert hardmax([Fraction(1), Fraction(3), Fraction(3)]) == [0, Fraction(1, 2), Fraction(1, 2)]
    assert hardmax([Fraction(-1)]) == [1]


def test_softmax_is_exact_only_where_scores_are_equal() -> None:
    assert softmax([Fraction(7)] * 4) == [Fraction(1, 4)] * 4
    with pytest.raises(NotExact):
        softmax([Fraction(0), Fraction(1)])


@checks("KS25-eq3")
def test_feed_forward_adds_to_its_input() -> None:
    # h = (2, 5): W1 h + b1 = (2·2 - 5 + 0, 5 + 1) = (-1, 6) -> ReLU (0, 6); W2 -> (3·0 + 1/2·6, -6); b2 = (0, 10)
    layer = FeedForward(
        matrix((2, -1), (0, 1)), column(0, 1), matrix((3, Fraction(1, 2)), (0, -1)), column(0, 10)
    )
    network = Transformer(matrix((1, 0), (0, 1)), (layer,), matrix((1, 0), (0, 1)), 1)
    assert interpret(network, np.array([[2.0, 5.0]])) == [[2 + 3, 5 - 6 + 10]]


@checks("KS25-eq2", "KS25-eq12")
def test_hard_attention_reads_the_token_with_the_largest_score() -> None:
    # z = 1, 3, 2; key = query = identity, so every token looks at the largest z = 3 and adds 10·3
    layer = Attention((Head(ONE, matrix((10,)), ONE, ONE),), "hardmax")
    network = Transformer(ONE, (layer,), ONE, 3)
    assert interpret(network, np.array([[1.0], [3.0], [2.0]])) == [[31], [33], [32]]


@checks("KS25-eq39", "KS25-eq2")
def test_softmax_with_a_zero_key_is_uniform() -> None:
    zero = matrix((0,))
    soft = Attention((Head(ONE, ONE, zero, ONE),), "softmax")
    uniform = Attention((Head(ONE, ONE),), "uniform")
    sequence = np.array([[1.0], [2.0], [6.0]])
    outputs = [interpret(Transformer(ONE, (layer,), ONE, 3), sequence) for layer in (soft, uniform)]
    assert outputs[0] == outputs[1] == [[4], [5], [9]]


@checks("KS25-eq4")
def test_embedding_positions_and_pooling() -> None:
    embedding = Embedding(matrix((1, 0), (0, 1)), matrix((10, 0), (20, 0)))
    network = Transformer(matrix((1, 100)), (), ONE, 2, embedding)
    assert interpret(network, np.array([1, 0])) == [[110], [21]]
    pooled = Transformer(matrix((1, 100)), (SumPool(),), ONE, 2, embedding)
    assert interpret(pooled, np.array([1, 0])) == [[131]]
    with pytest.raises(IndexError):
        interpret(network, np.array([2, 0]))


@checks("KS25-eq1", "KS25-eq2", "KS25-eq12")
@examples(400)
@given(exact_networks(bits=20), st.integers(0, 2**32), st.booleans())
def test_what_nothing_reads_changes_nothing(network: Transformer, seed: int, is_hard: bool) -> None:
    rng = np.random.default_rng(seed)
    if is_hard:
        network = replace(network, layers=tuple(_hard(layer, rng) for layer in network.layers))
    for sequence in inputs_for(network, rng, 3):
        expected = exact_outputs(network, sequence)
        assert interpret(network, sequence) == expected
        assert Interpreter(network, last_only=True).outputs(sequence) == [expected[-1][0]]


def _hard(layer: Layer, rng: np.random.Generator) -> Layer:
    """Scores with ties in the place of a plain mean."""
    if not isinstance(layer, Attention) or layer.pattern != "full":
        return layer
    heads = [
        replace(head, key=_signs(head.value.shape, rng), query=_signs(head.value.shape, rng))
        for head in layer.heads
    ]
    return Attention(tuple(heads), "hardmax")


def _signs(shape: tuple[int, ...], rng: np.random.Generator) -> SparseMatrix:
    return SparseMatrix.from_array(rng.integers(-1, 2, size=shape).astype(float))


def test_time_is_linear_in_the_length() -> None:
    """Nothing is computed for each pair of tokens: ten times the tokens, ten times the numbers."""
    layer = Attention((Head(ONE, ONE),), "uniform")
    for n_tokens in (10, 10_000):
        network = Transformer(ONE, (layer, layer), ONE, n_tokens)
        outputs = interpret(network, np.ones((n_tokens, 1)))
        assert outputs == [[4]] * n_tokens


def test_shapes_are_checked_when_a_network_is_made() -> None:
    with refused(ShapeMismatch, name="b1"):
        FeedForward(ONE, column(1, 2), ONE, column(0))
    with pytest.raises(ShapeMismatch):
        Transformer(ONE, (), matrix((1, 1)), 1)
    with pytest.raises(ShapeMismatch):
        Attention((Head(ONE, ONE),), "hardmax")
    with pytest.raises(ShapeMismatch):
        Attention((Head(ONE, ONE, ONE, ONE),), "uniform")
    with pytest.raises(ShapeMismatch):
        Transformer(ONE, (), np.ones((1, 1)), 1)
    wide = FeedForward(matrix((1, 1)), column(0), matrix((1,), (1,)), column(0, 0))
    with pytest.raises(ShapeMismatch):
        Transformer(ONE, (wide,), ONE, 1)
    with pytest.raises(ShapeMismatch):
        Transformer(ONE, (Attention((Head(matrix((1, 1)), matrix((1,), (1,))),), "uniform"),), ONE, 1)
    with pytest.raises(ShapeMismatch):
        Attention((), "uniform")
