"""The proof of float exactness: it holds where it should, and notices one bit too many."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.errors import UsageError
from byheart.network import Attention, FeedForward, Head, SparseMatrix, Transformer
from byheart.network.transformer.evaluator import evaluate
from byheart.network.transformer.float_exactness import float_exactness
from byheart.network.transformer.floats import as_floats
from byheart.network.transformer.module import run_module
from tests.examples import examples

from .networks import exact_networks, inputs_for


@examples(300)
@given(exact_networks(bits=20, sparse_patterns=False), st.integers(0, 2**32))
def test_where_it_holds_floats_are_exact(network: Transformer, seed: int) -> None:
    floats = as_floats(network)
    encoded = inputs_for(network, np.random.default_rng(seed), 3)
    if float_exactness(floats, encoded).holds:
        assert run_module(floats, encoded).ravel().tolist() == [
            float(v) for v in evaluate(network, encoded).all()
        ]


def one_sum(first: float, second: float) -> Transformer:
    return Transformer(np.array([[first, second]]), (), np.array([[1.0]]), 1)


def test_one_bit_too_many_is_noticed() -> None:
    encoded = np.array([[[1.0, 1.0]]])
    fits = float_exactness(one_sum(2.0**52, 1.0), encoded)
    assert fits.holds
    spills = float_exactness(one_sum(2.0**53, 1.0), encoded)
    assert not spills.holds
    assert spills.where == "w_in"
    # cancelling terms count with their magnitudes: another order of summation would lose the 1
    network = Transformer(np.array([[2.0**53, -(2.0**53), 1.0]]), (), np.array([[1.0]]), 1)
    assert not float_exactness(network, np.ones((1, 1, 3))).holds


def test_float32_has_24_bits() -> None:
    network = Transformer(
        np.array([[2.0**24, 1.0]], dtype=np.float32), (), np.array([[1.0]], dtype=np.float32), 1
    )
    assert not float_exactness(network, np.ones((1, 1, 2))).holds


def test_the_bound_itself_is_decided_exactly() -> None:
    # 2^53 - 1 fits into 53 bits. At 2^53, a small term may have been lost when the magnitudes were added.
    assert float_exactness(one_sum(2.0**53 - 2, 1.0), np.ones((1, 1, 2))).holds
    assert not float_exactness(one_sum(2.0**53 - 1, 1.0), np.ones((1, 1, 2))).holds
    assert float_exactness(one_sum(2.0**53, 2.0**-40), np.ones((1, 1, 2))).bits_needed == 94


def test_products_that_are_too_small_for_a_float_are_noticed() -> None:
    assert not float_exactness(one_sum(2.0**-600, 0.0), np.array([[[2.0**-600, 0.0]]])).holds


def test_numbers_outside_the_range_of_float32_are_noticed() -> None:
    one = np.array([[1.0]], dtype=np.float32)
    for weight in (2.0**100, 2.0**-100):
        network = Transformer(np.array([[weight]], dtype=np.float32), (), one, 1)
        assert float_exactness(network, np.ones((1, 1, 1))).holds
        assert not float_exactness(network, np.full((1, 1, 1), weight)).holds


@pytest.mark.parametrize("kind", ["uniform", "softmax"])
def test_products_of_several_heads_may_be_added_in_any_order(kind: Literal["uniform", "softmax"]) -> None:
    # each head adds 2^52 - 1 and 2 - 2^52, but three times 2^52 - 1 is not a float
    output = np.array([[2.0**52 - 1, 2.0 - 2.0**52], [0.0, 0.0]])
    scores = None if kind == "uniform" else np.zeros((2, 2))
    head = Head(np.eye(2), output, scores, scores)
    for n_heads in (1, 3):
        network = Transformer(np.eye(2), (Attention((head,) * n_heads, kind),), np.array([[1.0, 0.0]]), 1)
        assert float_exactness(network, np.ones((1, 1, 2))).holds == (n_heads == 1)


def test_a_mean_that_rounds_is_noticed() -> None:
    one = np.array([[1.0]])
    network = Transformer(one, (Attention((Head(one, one),), "uniform"),), one, 3)
    assert float_exactness(network, np.array([[[1.0], [2.0], [3.0]]])).holds
    rounds = float_exactness(network, np.array([[[1.0], [2.0], [4.0]]]))
    assert not rounds.holds
    assert "inf" not in rounds.reason


def test_layers_are_looked_at() -> None:
    one, none = np.array([[1.0]]), np.array([0.0])
    for at, layer in enumerate(
        (
            FeedForward(one, np.array([2.0**53]), one, none),
            FeedForward(one, none, one, np.array([2.0**53])),
        )
    ):
        report = float_exactness(Transformer(one, (layer,), one, 1), np.array([[[1.0]]]))
        assert not report.holds
        assert report.where == ("layers.0.w1", "layers.0.w2")[at]


def test_what_it_does_not_cover_is_refused() -> None:
    one = np.array([[1.0]])
    soft = Transformer(one, (Attention((Head(one, one, one, one),), "softmax"),), one, 1)
    with pytest.raises(UsageError):
        float_exactness(soft, np.ones((1, 1, 1)))
    exact = SparseMatrix.of((1, 1), {(0, 0): 1})
    with pytest.raises(UsageError):
        float_exactness(Transformer(exact, (), exact, 1), np.ones((1, 1, 1)))


def test_layers_without_hidden_units_are_checked() -> None:
    one, none = np.array([[1.0]]), np.zeros((1, 0))
    network = Transformer(one, (FeedForward(none.T, np.zeros(0), none, np.array([2.0**53])),), one, 1)
    assert float_exactness(network, np.array([[[0.0]]])).holds
    assert not float_exactness(network, np.array([[[1.0]]])).holds


def test_progress_never_goes_back_or_beyond_the_end() -> None:
    one = np.array([[1.0]])
    attention = Attention((Head(one, one),) * 20, "uniform")
    shares: list[float] = []
    network = Transformer(one, (attention,), one, 1)
    float_exactness(network, np.ones((3, 1, 1)), lambda done, total, stage="": shares.append(done / total))
    assert shares == sorted(shares)
    assert max(shares) <= 1
