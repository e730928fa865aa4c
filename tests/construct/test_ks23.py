"""KS23: one softmax head tells contexts apart, natively in float64, or the construction says it cannot."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.kajitsuka_sato_2023.context_ids import boltzmann
from byheart.construct.kajitsuka_sato_2023.network_program import round_to_whole
from byheart.data import Dataset, VectorSequences
from byheart.data.generators import random_tokens, uniform_vectors
from byheart.errors import AssumptionViolated, UsageError
from byheart.network import Attention
from byheart.network.transformer.module import run_module, to_module
from tests.examples import examples
from tests.refusal import refused

from ..program.programs import run
from .rival_data import answers, compiled, token_sequences, vector_sequences

METHOD = "kajitsuka-sato-2023"


@examples(60)
@given(st.integers(0, 63), st.integers(-(2**20) // 4, 2**20 // 4))
def test_rounding_is_exact_within_a_quarter(whole: int, offset: int) -> None:
    state = run(round_to_whole("y", "out", "help", 6), {"y": whole + Fraction(offset, 2**20)})
    assert state["out"] == whole
    assert state["help"] == 0


def test_rounding_cannot_mend_more_than_a_half() -> None:
    assert run(round_to_whole("y", "out", "help", 3), {"y": 3 + Fraction(5, 8)})["out"] != 3


def test_boltzmann_is_a_mean_that_leans_to_the_largest() -> None:
    places = np.array([[1.0, 2.0, 4.0]])
    assert np.allclose(boltzmann(places, 0.0), 7 / 3)
    sharp = boltzmann(places, 50.0)
    assert np.allclose(sharp, 4.0)
    assert ((boltzmann(places, 0.5) > 7 / 3) & (boltzmann(places, 0.5) < 4.0)).all()


@examples(60)
@given(st.one_of(token_sequences(), vector_sequences(wild=False)), st.integers(0, 2**32))
def test_every_label_is_memorised(data: Dataset, seed: int) -> None:
    construction = compiled(METHOD, data, seed)
    assert (answers(construction, data) == data.labels).all()
    measured, bound = construction.notes["value_error_measured"], construction.notes["value_error_bound"]
    assert float(str(measured)) <= float(str(bound)) <= 0.24
    attention = [layer for layer in construction.memoriser.network.layers if isinstance(layer, Attention)]
    assert len(attention) == 1
    assert len(attention[0].heads) == 1
    assert attention[0].heads[0].value.shape[0] == 1


@examples(40)
@given(vector_sequences(), st.integers(0, 2**32))
def test_floats_of_any_size_are_memorised_or_refused(data: Dataset, seed: int) -> None:
    try:
        construction = compiled(METHOD, data, seed)
    except AssumptionViolated as refusal:
        reason = str(refusal)
    else:
        assert (answers(construction, data) == data.labels).all()
        return
    assert "float64" in reason


def test_sequences_that_no_hard_attention_layer_separates() -> None:
    values = np.array([[-1.0, -0.3, 0.3, 1.0], [-1.0, -0.1, 0.1, 1.0]])[:, :, None]
    labels = np.array([[0, 0, 0, 1], [1, 0, 0, 0]])
    data = Dataset.from_arrays(values, labels, task="seq-to-seq")
    assert (answers(compiled(METHOD, data), data) == data.labels).all()


def test_the_theorem_sharpness_is_refused_in_floats() -> None:
    data = random_tokens(20, 4, 20, seed=0, task="seq-to-seq", ordered=False)
    with refused(AssumptionViolated, gap=0.0, error=1.0690305486864716e-12, beta=179.1251773204102):
        compiled(METHOD, data, beta="theorem")
    assert (answers(compiled(METHOD, data), data) == data.labels).all()


def test_beta_must_be_a_number() -> None:
    data = uniform_vectors(3, 2, 2, seed=0, task="seq-to-seq")
    given = compiled(METHOD, data, beta=2.0)
    assert given.notes["beta"] == 2.0
    assert given.theorem != compiled(METHOD, data).theorem  # the sharpness was not chosen for the data
    with refused(UsageError, beta="sharp"):
        compiled(METHOD, data, beta="sharp")


def test_lengths_are_told_apart_by_padding() -> None:
    data = Dataset.from_arrays([[0], [0, 0], [0, 0, 0]], [0, 1, 2], ordered=False, task="next-token")
    assert (answers(compiled(METHOD, data), data) == data.labels).all()


def test_any_order_of_summation_gives_the_same_labels() -> None:
    data = uniform_vectors(120, 4, 3, seed=1, task="seq-to-seq")
    network = compiled(METHOD, data).memoriser.network
    expected = data.labels.reshape(120, 4) + 1
    assert isinstance(data.inputs, VectorSequences)
    one_by_one = np.concatenate([run_module(network, data.inputs.values[i : i + 1]) for i in range(120)])
    assert (one_by_one == expected).all()
    module = to_module(network)
    wide = max(
        (layer for layer in module.layers if hasattr(layer, "w1")), key=lambda layer: layer.w1.shape[0]
    )
    order = np.random.default_rng(0).permutation(wide.w1.shape[0])
    for name, axis in (("w1", 0), ("b1", 0), ("w2", 1)):
        parameter = getattr(wide, name)
        parameter.data = parameter.data.index_select(axis, torch.from_numpy(order))
    with torch.no_grad():
        outputs = module(torch.from_numpy(np.array(data.inputs.values)))[:, :, 0].numpy()
    assert (outputs == expected).all()
