"""Lemma F.1 and Theorem F.1: short weights, any B, and native float64."""

from __future__ import annotations

from math import isqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.kajitsuka_sato_2025.limited_bits import fields_for, plan_short_lookup
from byheart.data import Dataset
from byheart.data.generators import grid_vectors, random_tokens, uniform_vectors
from byheart.errors import AssumptionViolated, UsageError
from byheart.network import size_of_network
from byheart.network.transformer.float_exactness import float_exactness
from byheart.network.transformer.module import to_module
from byheart.program.construction import Construction
from byheart.theorems import checks
from tests.examples import examples
from tests.refusal import refused

from .rival_data import compiled as compiled_by
from .test_theorem import answers, token_data


def compiled(data: Dataset, **options: object) -> Construction:
    return compiled_by("kajitsuka-sato-2025-bits", data, **options)


@checks("KS25-L F.1", "KS25-T F.1")
@examples(60)
@given(token_data(), st.integers(1, 6))
def test_any_b_memorises_with_short_weights(data: Dataset, B: int) -> None:
    construction = compiled(data, B=B)
    assert (answers(construction, data) == data.labels).all()
    assert construction.notes["group_size_first"] <= fields_for(B)
    assert construction.notes["group_size_second"] <= fields_for(B)


@checks("KS25-T F.1")
@pytest.mark.parametrize("B", [5, 6])
def test_the_theorem_is_judged_by_the_packed_numbers(B: int) -> None:
    """30 samples allow B <= 5, so B = 6 was refused the name, although it packs no more keys into a number."""
    construction = compiled(random_tokens(30, 4, 20, seed=0), B=B)
    assert construction.notes["fields_per_word"] <= fields_for(5)
    assert construction.theorem.startswith("KS25 Theorem F.1")
    assert construction.theorem_size is not None
    assert construction.theorem_size.theorem.statement == "KS25-T F.1"


@checks("KS25-T F.1")
def test_longer_packed_numbers_are_not_called_the_theorem() -> None:
    construction = compiled(random_tokens(3, 60, 1000, seed=0, task="seq-to-seq"), B=2)
    assert construction.notes["fields_per_word"] > fields_for(isqrt(3))
    assert not construction.theorem.startswith("KS25 Theorem F.1")


@pytest.mark.slow
@checks("KS25-T F.1")
def test_more_bits_fewer_parameters() -> None:
    data = uniform_vectors(600, seed=1)
    sizes = [size_of_network(compiled(data, B=B).memoriser.network) for B in (1, 2, 4, 8)]
    dense = [size.parameters_dense for size in sizes]
    assert dense == sorted(dense, reverse=True)
    bits = [plan_short_lookup(fields_for(B))(600, 20, 5, 10).group_size for B in (1, 2, 4, 8)]
    assert bits == sorted(bits)


@checks("KS25-T F.1")
@pytest.mark.parametrize(
    "kind", ["set", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("grid", "tokens"))]
)
def test_native_float64(kind: str) -> None:
    data = {
        "grid": lambda: grid_vectors(300, levels=4, dim=2, seq_len=4, seed=0),
        "tokens": lambda: random_tokens(300, seq_len=5, n_vocab=20, seed=0),
        "set": lambda: random_tokens(200, seq_len=6, n_vocab=20, seed=0, task="set"),
    }[kind]()
    construction = compiled(data, precision="float64")
    memoriser = construction.memoriser
    assert memoriser.network.precision == "float64"
    encoded = memoriser.encode(data.inputs)
    assert (memoriser.answer(encoded, backend="module") == data.labels).all()
    assert (memoriser.answer(encoded, backend="exact") == data.labels).all()
    assert float_exactness(memoriser.network, encoded).holds
    assert to_module(memoriser.network).w_in.dtype.is_floating_point


@pytest.mark.slow
def test_two_thousand_random_sequences_in_plain_pytorch() -> None:
    data = random_tokens(2000, seed=0)
    memoriser = compiled(data, precision="float64").memoriser
    with torch.no_grad():
        outputs = to_module(memoriser.network)(torch.from_numpy(np.array(memoriser.encode(data.inputs))))
    assert (outputs[:, -1, 0].numpy() == data.labels + 1.0).all()


@examples(60)
@given(token_data())
def test_floats_and_exact_values_agree(data: Dataset) -> None:
    construction = compiled(data, precision="float64")
    assert (answers(construction, data, "module") == data.labels).all()
    assert (answers(construction, data, "exact") == data.labels).all()


def test_what_does_not_fit_a_mantissa_is_refused() -> None:
    with refused(AssumptionViolated, "reason"):
        compiled(uniform_vectors(50, seed=0), precision="float64")


def test_wrong_options() -> None:
    data = random_tokens(10, seed=0)
    for options in ({"B": 0}, {"B": 1.5}, {"colour": 1}, {"precision": "float16"}):
        with pytest.raises(UsageError):
            compiled(data, **options)
