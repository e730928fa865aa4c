"""KS25 eq. (65): on sequences of equal tokens a Transformer is a ReLU network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from byheart.errors import AssumptionViolated
from byheart.network import Attention, FeedForward, Head, SparseMatrix, Transformer
from byheart.network.transformer.equal_tokens import on_equal_tokens
from byheart.network.transformer.interpreter import interpret
from byheart.theorems import checks
from tests.network.networks import exact_networks, inputs_for, sparse


@st.composite
def scored_networks(draw: st.DrawFn) -> Transformer:
    """Hardmax attention with keys and queries, which equal tokens make equal scores of."""
    made = draw(exact_networks(bits=12, pools=False, sparse_patterns=False))
    size, model = draw(st.integers(1, 2)), made.model_width
    matrix = lambda *shape: sparse(draw, shape, bits=12)  # noqa: E731 # short for what follows
    heads = tuple(
        Head(matrix(size, model), matrix(model, size), matrix(size, model), matrix(size, model))
        for _ in range(draw(st.integers(1, 3)))
    )
    attention = Attention(heads, draw(st.sampled_from(("hardmax", "softmax"))))
    return replace(made, layers=(*made.layers, attention))


def _equal_sequences(network: Transformer, rng: np.random.Generator) -> np.ndarray:
    single = inputs_for(network, rng, 4)[:, :1]
    return np.repeat(single, network.seq_len, axis=1)


@checks("KS25-T4.2", "KS25-T B.2")
@settings(max_examples=60, deadline=None)
@given(network=st.one_of(exact_networks(bits=12, pools=False), scored_networks()), seed=st.integers(0, 99))
def test_the_relu_network_gives_the_same_numbers(network: Transformer, seed: int) -> None:
    assume(network.extra is None and (network.embedding is None or network.embedding.positions is None))
    reduced = on_equal_tokens(network)
    assert all(isinstance(layer, FeedForward) for layer in reduced.network.layers)
    for sequence in _equal_sequences(network, np.random.default_rng(seed)):
        expected = interpret(network, sequence)
        (made,) = interpret(reduced.network, sequence[:1])
        assert all(token == made for token in expected)
    n_parameters = sum(int(np.prod(weights.shape)) for _, weights in network.parameters())
    scores = [
        m
        for layer in network.layers
        if isinstance(layer, Attention)
        for h in layer.heads
        for m in (h.key, h.query)
    ]
    n_scores = sum(int(np.prod(matrix.shape)) for matrix in scores if matrix is not None)
    assert reduced.free_parameters == n_parameters - n_scores <= n_parameters


def _one_head() -> Transformer:
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    return Transformer(one, (Attention((Head(one, one, one, one),), "hardmax"),), one, seq_len=2)


def test_unequal_tokens_are_another_matter() -> None:
    network = _one_head()
    (made,) = interpret(on_equal_tokens(network).network, np.array([[1.0]]))
    assert interpret(network, np.array([[1.0], [1.0]])) == [made, made]
    assert interpret(network, np.array([[1.0], [3.0]]))[0] != made


def test_a_network_that_tells_positions_apart_is_refused() -> None:
    network = replace(_one_head(), extra=SparseMatrix.of((1, 1), {(0, 0): 1}))
    with pytest.raises(AssumptionViolated):
        on_equal_tokens(network)
