"""Constructions at the edge of their theorems: what they record, what they promise, and data that are as small as can be."""

from __future__ import annotations

import warnings
from itertools import product
from random import Random
from typing import get_args

import numpy as np
import pytest

import byheart as bh
from byheart.bounds import table
from byheart.bounds.dana_2024 import proposition_2
from byheart.construct.kajitsuka_sato_2025.context_ids import measure_context_ids
from byheart.data.dataset import Dataset, VectorSequences
from byheart.data.generators import random_tokens
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.decoder.architecture import Activation
from byheart.shatter import shatter
from byheart.theorems import checks

ONE_LAST_TOKEN = Dataset.from_pairs([(f"{letter}z", str(i % 4)) for i, letter in enumerate("abcdefgh")])
SAME_SUCCESSORS = Dataset.from_documents([f"c{i} s{j}" for i in range(40) for j in range(8)])


def theorem_parameters(model: bh.Model) -> int:
    return int(model.record["theorem_size"]["parameters"])


# --- DPC24 ----------------------------------------------------------------------------------------------


@checks("DPC24-C1")
def test_the_size_of_corollary_1_is_one_number_everywhere() -> None:
    data = Dataset.from_pairs([("ab", "X"), ("bb", "Y"), ("cb", "X"), ("db", "Y"), ("eb", "Y")])
    model = bh.compile(data, method="dana-2024", head_dim=1)
    (bound,) = (each for each in table(data).applicable if each.name == "DPC24 Corollary 1")
    assert theorem_parameters(model) == bound.value == 56
    assert model.size.parameters_dense <= 56


def test_the_skip_connection_counts_the_last_tokens_there_are() -> None:
    model = bh.compile(ONE_LAST_TOKEN, method="dana-2024", mode="compact", dim=3, n_heads=2, head_dim=3)
    (rank,) = (each for each in model.record["assumptions"] if ">= T" in each["statement"])
    assert (rank["holds"], rank["detail"].split()[1].rstrip(",")) == (False, "7")
    assert "no theorem" in model.record["theorem"]
    assert model.record["theorem_size"] is None


def test_the_theorem_says_how_many_heads_it_takes() -> None:
    with pytest.raises(UsageError) as refused:
        bh.compile(ONE_LAST_TOKEN, method="dana-2024", n_heads=1)
    assert refused.value.facts["n_heads"] == 1


@checks("DPC24-P2")
def test_contexts_bound_the_rank_of_their_logits() -> None:
    assert (proposition_2(48).value, proposition_2(48, 40).value, proposition_2(48, 60).value) == (47, 40, 47)
    model = bh.compile(SAME_SUCCESSORS, method="dana-2024", dim=40)
    assert model.certificate is not None
    assert model.certificate.holds
    with pytest.raises(AssumptionViolated):
        bh.compile(SAME_SUCCESSORS, method="dana-2024", dim=39)


# --- other papers ---------------------------------------------------------------------------------------


def test_last_tokens_that_are_equal_are_not_independent() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(-5, 6, (12, 2, 4)).astype(float)
    assert any(each.name == "MLT23 Theorem 1" for each in table(_labelled(values)).applicable)
    values[:, -1] = values[0, -1]
    assert not any(each.name == "MLT23 Theorem 1" for each in table(_labelled(values)).applicable)


def _labelled(values: np.ndarray) -> Dataset:
    return Dataset.from_arrays(VectorSequences(values), np.arange(len(values)) % 3)


def test_what_is_outside_a_theorem_is_not_called_by_its_name() -> None:
    data = Dataset.from_pairs([(letter, i % 2) for i, letter in enumerate("abcde")])
    long_sequences = random_tokens(3, 60, 1000, seed=0, task="seq-to-seq")  # for 3 samples, B is at most 1
    beyond = bh.compile(long_sequences, method="kajitsuka-sato-2025-bits", B=2)
    assert not beyond.record["theorem"].startswith("KS25 Theorem F.1")
    for options in ({}, {"B": 2}):
        within = bh.compile(data, method="kajitsuka-sato-2025-bits", **options)
        assert within.record["theorem"].startswith("KS25 Theorem F.1")
    few = bh.compile(SAME_SUCCESSORS, method="madden-2024", solver="convex", hidden_width=1)
    assert "no theorem" in few.record["theorem"]
    assert few.record["theorem_size"] is None
    many = bh.compile(ONE_LAST_TOKEN, method="madden-2024")
    assert many.record["theorem"] == "MFT24 Theorem 5"


SMALL_VECTORS = [
    # in float32 every layout with reject bits is tried first, which takes seconds
    pytest.param(value, precision, marks=pytest.mark.slow if precision == "float32" else [])
    for value, precision in product((5e-324, 1e-200, 0.1), ("exact", "float64", "float32"))
]


@pytest.mark.parametrize(("value", "precision"), SMALL_VECTORS)
def test_one_vector_is_memorised_however_small(value: float, precision: str) -> None:
    data = Dataset.from_arrays(np.array([[value]]), [0])
    model = bh.compile(data, method="retrieval", precision=precision)
    assert model.certificate is not None
    assert model.certificate.holds


def test_the_smallest_vector_is_memorised_in_float32_without_reject_bits() -> None:
    data = Dataset.from_arrays(np.array([[5e-324]]), [0])
    model = bh.compile(data, method="retrieval", precision="float32", reject_bits=0)
    assert model.certificate is not None
    assert model.certificate.holds


def test_shattering_keeps_its_lower_bound_where_no_upper_one_applies() -> None:
    found = shatter(2, method="kim-2023")
    assert found.holds
    assert (found.vc_at_most, found.no_bound is None) == (None, False)
    assert shatter(2).no_bound is None


@checks("KS25-D4.1")
@pytest.mark.parametrize("task", ["next-token", "seq-to-seq"])
def test_context_ids_are_measured_for_either_task(task: str) -> None:
    data = random_tokens(6, 3, 8, 2, seed=0, task=task, ordered=False)
    found = measure_context_ids(bh.compile(data, method="kajitsuka-sato-2025").memoriser, data)
    assert found.is_consistent
    assert found.separation is not None
    assert found.separation >= 2


# --- corpora of two to five tokens ----------------------------------------------------------------------

SOLVERS = ("auto", "steps", "random-features", "convex", "stochastic")
WAYS = [
    *product(("madden-2024", "madden-2024-averaging"), SOLVERS, get_args(Activation)),
    ("dana-2024", None, None),
]


def small_corpus(seed: int) -> Dataset:
    """Two to five tokens in one or more documents, of which at least one has two."""
    rng = Random(seed)
    n_tokens = rng.randint(2, 5)
    words = [f"w{rng.randrange(5)}" for _ in range(n_tokens)]
    cut = rng.randint(2, n_tokens)
    return Dataset.from_documents(
        [" ".join(words[:cut]), *([" ".join(words[cut:])] if cut < n_tokens else [])]
    )


def test_few_gelu_neurons_are_drawn_again_where_they_are_silent() -> None:
    data = Dataset.from_documents(["w1 w0", "w2 w4"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = bh.compile(data, method="madden-2024", solver="random-features", activation="gelu")
    assert model.certificate is not None
    assert model.certificate.holds


SEEDS = [seed if seed == 2 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(20)]


@pytest.mark.parametrize("seed", SEEDS)
def test_small_corpora_are_built_or_refused_without_a_warning(seed: int) -> None:
    """`DoesNotHold` is neither: it would be a mistake of ours."""
    data = small_corpus(seed)
    n_built = 0
    for (method, solver, activation), precision in product(WAYS, ("float64", "float32")):
        options = {} if solver is None else {"solver": solver, "activation": activation}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                model = bh.compile(data, method=method, precision=precision, **options)
            except (AssumptionViolated, UsageError):
                continue
        n_built += 1
        assert model.certificate is not None
        assert model.certificate.holds or model.certificate.fitted
    assert n_built >= len(WAYS)


def test_an_option_that_would_be_ignored_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        bh.compile(SAME_SUCCESSORS, method="madden-2024", solver="steps", hidden_width=1)
    assert refused.value.facts["hidden_width"] == 1
