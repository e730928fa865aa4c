"""The proof of float exactness: it holds where it should, and notices one bit too many."""

from __future__ import annotations

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


def test_a_mean_that_rounds_is_noticed() -> None:
    one = np.array([[1.0]])
    network = Transformer(one, (Attention((Head(one, one),), "uniform"),), one, 3)
    assert float_exactness(network, np.array([[[1.0], [2.0], [3.0]]])).holds
    assert not float_exactness(network, np.array([[[1.0], [2.0], [4.0]]])).holds


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
