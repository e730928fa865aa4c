"""The PyTorch module against the exact values, where floats can hold them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from byheart.errors import InexactWeights
from byheart.network import Attention, Head, SparseMatrix, Transformer, size_of_network
from byheart.network.transformer.evaluator import evaluate
from byheart.network.transformer.floats import as_floats
from byheart.network.transformer.interpreter import interpret
from byheart.network.transformer.module import run_module, to_module
from byheart.theorems import checks
from tests.examples import examples
from tests.refusal import refused

from .networks import exact_networks, inputs_for


@checks("KS25-eq2", "KS25-eq3", "KS25-eq4", "KS25-eq39")
@examples(200)
@given(exact_networks(bits=3), st.integers(0, 2**32))
def test_small_numbers_are_exact_as_floats(network: Transformer, seed: int) -> None:
    """Where every intermediate fits a mantissa, floats give the exact value, from exact or float weights."""
    rng = np.random.default_rng(seed)
    if network.n_vocab is None:
        encoded = rng.integers(-3, 4, size=(4, network.seq_len, network.dim)).astype(np.float64)
    else:
        encoded = inputs_for(network, rng, 4)
    expected = [float(value) for value in evaluate(network, encoded).all()]
    if all(abs(v) < 2**20 for v in expected) and len(network.layers) <= 2:
        assert run_module(network, encoded).ravel().tolist() == expected
        assert run_module(as_floats(network), encoded).ravel().tolist() == expected


@examples(100)
@given(exact_networks(bits=4), st.integers(0, 2**32))
def test_float_networks_are_interpreted_as_the_numbers_they_hold(network: Transformer, seed: int) -> None:
    encoded = inputs_for(network, np.random.default_rng(seed), 2)
    assert evaluate(as_floats(network), encoded).all() == evaluate(network, encoded).all()
    assert as_floats(network).precision == "float64"


@checks("KS25-eq12", "KS25-eq1")
def test_hard_attention_as_floats() -> None:
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    network = Transformer(one, (Attention((Head(one, one, one, one),), "hardmax"),), one, 3)
    encoded = np.array([[[1.0], [3.0], [3.0]], [[-2.0], [0.0], [1.0]]])
    expected = [float(token[0]) for row in encoded for token in interpret(network, row)]
    assert run_module(network, encoded).ravel().tolist() == expected


@checks("KS25-eq2")
def test_softmax_attention_as_floats() -> None:
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    network = Transformer(one, (Attention((Head(one, one, one, one),), "softmax"),), one, 2)
    z = np.array([[[0.5], [1.5]]])
    weights = np.exp(np.outer(z[0, :, 0], z[0, :, 0]))  # scores are key · query
    expected = z[0, :, 0] + (weights * z[0, :, 0][:, None]).sum(0) / weights.sum(0)
    # two exponentials, a sum and a quotient: a few rounding errors of 2^-53 each
    assert np.allclose(run_module(network, z)[0], expected, rtol=1e-14, atol=0)


def test_weights_that_do_not_fit_are_refused_by_name() -> None:
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    for value in (2**60 + 1, Fraction(2) ** 3000, Fraction(1, 2**1200)):
        network = replace(Transformer(one, (), one, 1), w_out=SparseMatrix.of((1, 1), {(0, 0): value}))
        with refused(InexactWeights, "bits", name="w_out", row=0, col=0):
            to_module(network)
    third = Transformer(np.array([[1 / 3]]), (), np.array([[1.0]]), 1)
    with refused(InexactWeights, name="w_in"):
        to_module(third, "float32")


def test_the_module_has_ordinary_parameters() -> None:
    rng = np.random.default_rng(0)
    network = Transformer(rng.random((3, 2)), (), rng.random((1, 3)), 4)
    module = to_module(network)
    assert sum(p.numel() for p in module.parameters()) == size_of_network(network).parameters_dense
    loss = module(torch.ones(1, 4, 2, dtype=torch.float64)).sum()
    loss.backward()
    assert module.w_in.grad is not None
    assert module.double().state_dict().keys() == {"w_in", "w_out"}
