"""Tables for problems and for data sets: what applies, what does not, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from byheart.bounds import (
    Bound,
    DataShape,
    Estimate,
    NotApplicable,
    for_shape,
    label_bits,
    shape_of,
    table,
    theorem_4_1,
)
from byheart.bounds.bound import spell
from byheart.bounds.token_vectors import tokens_as_vectors
from byheart.data import Dataset
from byheart.errors import NonFiniteInput, UsageError
from byheart.theorems import checks
from tests.refusal import refused

VECTORS = DataShape(1000, 8, 16, dim=4, radius=1, separation=Fraction(1, 1000))


def names(bounds: tuple[Bound | NotApplicable, ...]) -> set[str]:
    return {bound.name for bound in bounds}


def reasons(problem: DataShape) -> dict[str, str]:
    return {entry.name: entry.reason for entry in for_shape(problem).not_applicable}


def test_separated_vectors() -> None:
    result = for_shape(VECTORS)
    assert names(result.of("parameters", "lower")) == {
        "KS25 Remark 4.3",
        "KS25 Theorem 4.2",
        "KS25 Theorem 4.3",
        "Siegel 2024",
    }
    assert names(result.of("parameters", "upper")) == {
        "KS25 Theorem 4.1",
        "KS25 Theorem F.1 with B = 1",
        "VYS22 Theorem 3.1",
        "two-layer ReLU interpolation",
        "Bubeck et al. 2020",
    }
    assert {b.value for b in result.of("bits", "lower")} == {4000}
    assert "separated" in reasons(VECTORS)["Sontag 1997"]
    json.dumps(result.to_json())


def test_vectors_of_unknown_separation() -> None:
    problem = DataShape(1000, 8, 2, dim=4)
    assert {"Sontag 1997", "Baum 1988"} <= names(for_shape(problem).applicable)
    for name in ("KS25 Theorem 4.1", "Siegel 2024"):
        assert "separation" in reasons(problem)[name]


def test_short_sequences_of_long_vectors() -> None:
    assert "MLT23 Theorem 1" in names(for_shape(DataShape(1000, 3, 2, dim=4)).applicable)


def test_token_ids() -> None:
    problem = DataShape(1000, 8, 16, vocab=50)
    result = for_shape(problem)
    assert {"KS25 Theorem E.1", "MFT24 Theorem 5", "MFT24 Theorem 7", "DPC24 Corollary 1"} <= names(
        result.applicable
    )
    # at most 50 sequences of equal tokens: the bound of Theorem 4.2 is that for 50 points
    assert {b.value for b in result.applicable if b.name == "KS25 Theorem 4.2"} == {4}
    assert "Siegel 2024" in reasons(problem)


def test_positions_void_the_argument_of_theorem_4_2() -> None:
    problem = DataShape(1000, 8, 16, vocab=50, ordered=True)
    assert "positions make equal tokens differ" in reasons(problem)["KS25 Theorem 4.2"]
    assert "KS25 Theorem 4.3" in names(for_shape(problem).of("parameters", "lower"))
    # a sequence of one token has no positions to speak of
    assert "KS25 Theorem 4.2" in names(for_shape(DataShape(50, 1, 16, vocab=50, ordered=True)).applicable)


def test_the_ball_limits_the_sequences_of_equal_tokens() -> None:
    # three tokens fit on a line of length 2 at distance 1, so Theorem 4.2 speaks of three sequences only
    crowded = DataShape(100, 8, 2, dim=1, radius=1, separation=1)
    assert {b.value for b in for_shape(crowded).applicable if b.name == "KS25 Theorem 4.2"} == {1}
    view = tokens_as_vectors(crowded)
    assert view is not None
    assert view.distinct_tokens(10**6) == 3
    # in dimension 4 a cube of edge 2/√4 = 1 holds 2^4 tokens at distance 1, more than a diameter's 3
    wide = tokens_as_vectors(DataShape(10**6, 8, 2, dim=4, radius=1, separation=1))
    assert wide is not None
    assert wide.distinct_tokens(10**6) == 16
    huge = tokens_as_vectors(DataShape(10**6, 8, 2, dim=10**6, radius=1000, separation=1))
    assert huge is not None
    assert huge.distinct_tokens(10**6) == 10**6


def test_each_task_has_its_theorem() -> None:
    upper = {
        task: names(for_shape(DataShape(100, 8, 4, task=task, dim=4, radius=1, separation=1)).applicable)
        for task in ("next-token", "seq-to-seq", "set")
    }
    assert "KS25 Theorem 4.1" in upper["next-token"]
    assert "KS25 Corollary 4.1" in upper["seq-to-seq"]
    assert "KS25 Theorem D.1" in upper["set"]
    assert "KS25 Theorem 4.1" not in upper["seq-to-seq"] | upper["set"]


@checks("MFT24-T1", "MFT24-L1")
def test_distributions_take_far_more() -> None:
    problem = DataShape(1000, 10, 690, task="distribution", vocab=690, n_contexts=2637, ordered=True)
    result = for_shape(problem)
    assert {b.name: b.value for b in result.of("parameters", "lower")} == {
        "MFT24 Lemma 1": 1_816_893,
        "MFT24 Theorem 1": 907_444,
    }
    # n (ω + 2) + ω + T = 2,637 · 692 + 690 + 9 = 1,825,503, and 4 more for attention
    assert {b.name: b.value for b in result.of("parameters", "upper") if b.name.startswith("MFT24")} == {
        "MFT24 Theorem 5": 1_825_507,
        "MFT24 Theorem 7": 1_825_503,
    }
    assert "distributions" in reasons(problem)["KS25 Theorem 4.2"]


@checks("MFT24-T1", "MFT24-L1", "DPC24-P2")
def test_what_every_distribution_needs_is_no_bound_on_data() -> None:
    """One document of 9 tokens has 8 contexts with one next token each: 2 logits per token, on a circle, are enough for it."""
    shape = DataShape(1, 9, 1000, task="distribution", vocab=1000, ordered=True)
    documents = table(Dataset.from_documents(["a b c a c", "b c b"]))
    for found in (for_shape(shape), documents):
        arbitrary = {each.name for each in found.applicable if each.speaks_of == "arbitrary distributions"}
        assert arbitrary == {"MFT24 Lemma 1", "MFT24 Theorem 1", "DPC24 Proposition 2"}
        assert not [each for each in found.applicable if each.speaks_of == "some data of this shape"]


def test_documents_of_three_tokens_have_contexts_of_two_lengths() -> None:
    shapes = {
        seq_len: DataShape(9, seq_len, 5, task="distribution", vocab=5, ordered=True) for seq_len in (2, 3)
    }
    assert "DPC24 Theorem 1" in names(for_shape(shapes[2]).applicable)
    assert "DPC24 Theorem 1" in names(for_shape(shapes[3]).not_applicable)
    few = DataShape(4, 2, 5, task="distribution", vocab=5, ordered=True)
    assert "DPC24 Theorem 1" in names(for_shape(few).not_applicable)  # no context is followed by all tokens


def test_only_contexts_that_data_can_have_are_counted() -> None:
    def bits(shape: DataShape) -> int:
        (bound,) = for_shape(shape).of("bits", "lower")
        return int(bound.value)

    assert bits(DataShape(1, 8, 16, vocab=2, task="seq-to-seq")) == 2 * 4
    assert bits(DataShape(1, 100, 16, vocab=4, task="seq-to-seq")) == 4 * 4
    # three vectors at distance 1 fit on a line of length 2; in the plane, a bound for some data counts those of a grid
    assert bits(DataShape(1, 8, 2, dim=1, radius=1, separation=1, task="seq-to-seq")) == 3
    assert bits(DataShape(9, 1, 2, dim=2, radius=1, separation=1)) == 4


@pytest.mark.parametrize("ball", [{}, {"radius": 1, "separation": Fraction(1, 1000)}])
def test_repeated_vectors_are_no_points_to_separate(ball: dict[str, Any]) -> None:
    """Two points take at most seven parameters, however often they repeat."""
    found = for_shape(DataShape(1000, 1, 2, dim=1, n_contexts=2, **ball))
    assert max(each.value for each in found.of("parameters", "lower")) <= 7
    # each token of these 10 sequences has its own context, so none consists of equal tokens
    full = for_shape(DataShape(10, 3, 2, task="seq-to-seq", dim=1, n_contexts=30, **ball))
    assert "KS25 Theorem 4.2" in names(full.not_applicable)
    one = for_shape(DataShape(10, 3, 2, task="seq-to-seq", dim=1, n_contexts=28, **ball))
    assert {each.value for each in one.applicable if each.name == "KS25 Theorem 4.2"} == {1}


def test_contexts_of_a_data_set_are_counted_before_bounds_count_them() -> None:
    for shape in (
        DataShape(1000, 1, 2, dim=1, n_labels=1000),
        DataShape(1000, 1, 2, vocab=2, n_labels=1000),  # most samples repeat
        DataShape(50, 3, 9, vocab=9, n_labels=100, task="distribution"),
    ):
        uncounted, counted = for_shape(shape), for_shape(replace(shape, n_contexts=2))
        lower = {each.name for each in uncounted.applicable if each.kind == "lower"}
        assert lower <= {"KS25 Remark 4.3", "KS25 section 4.2.1"}
        assert lower < {each.name for each in counted.applicable if each.kind == "lower"}


@checks("KS25-T D.1")
def test_sets_may_differ_in_size() -> None:
    data = Dataset.from_pairs([([1, 2, 3], "a"), ([1, 2], "b"), ([3], "c"), ([1, 1, 2], "a")], task="set")
    assert "KS25 Theorem D.1" in names(table(data).of("parameters", "upper"))


def test_bounds_say_how_token_ids_are_read() -> None:
    for ordered in (False, True):
        for bound in for_shape(DataShape(100, 3, 4, vocab=9, ordered=ordered)).of("parameters", "upper"):
            if bound.name == "KS25 Theorem 4.1":
                assert len(bound.assumptions) == 1 + len(theorem_4_1(100, 3, 4, 2).assumptions)


def test_one_class_needs_nothing() -> None:
    problem = DataShape(1000, 8, 1, dim=4, radius=1, separation=1)
    assert "nothing to distinguish" in reasons(problem)["KS25 Theorem 4.2"]
    assert {b.value for b in for_shape(problem).of("bits", "lower")} == {0}


def test_estimates_stand_beside_the_bounds_and_never_among_them() -> None:
    ours = Estimate("ours", "float64", 1000, 64_000, is_planned=False)
    theirs = NotApplicable("theirs", "", "no room for 16 classes")
    result = for_shape(VECTORS, [ours, theirs])
    assert result.estimates == (ours,)
    assert result.applicable == for_shape(VECTORS).applicable
    assert theirs in result.not_applicable
    assert result.to_json()["estimates"] == [
        {
            "name": "ours",
            "precision": "float64",
            "parameters": 1000,
            "bits": 64_000,
            "is_planned": False,
            "options": {},
        }
    ]


def table_names(values: list[list[list[float]]], labels: list[int]) -> tuple[set[str], dict[str, str]]:
    found = table(Dataset.from_arrays(np.array(values), np.array(labels)))
    return names(found.applicable), {entry.name: entry.reason for entry in found.not_applicable}


def test_general_position_is_checked_on_the_data() -> None:
    scattered, _ = table_names([[[0.0, 0.0]], [[1.0, 0.0]], [[0.0, 1.0]], [[2.0, 3.0]]], [0, 1, 0, 1])
    assert {"Bubeck et al. 2020", "Baum 1988"} <= scattered
    on_a_line, why = table_names([[[0.0, 0.0]], [[1.0, 1.0]], [[2.0, 2.0]], [[2.0, 3.0]]], [0, 1, 0, 1])
    assert not {"Bubeck et al. 2020", "Baum 1988"} & on_a_line
    assert why["Baum 1988"] == "3 samples are affinely dependent, so the data are not in general position"
    many = np.random.default_rng(0).standard_normal((200, 1, 3))
    _, why = table_names(many.tolist(), [0, 1] * 100)
    assert why["Bubeck et al. 2020"].endswith("there are 64,684,950 choices")


def test_independence_of_tokens_is_checked_on_the_data() -> None:
    independent = [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]]
    assert "MLT23 Theorem 1" in table_names(independent, [0, 1])[0]
    _, why = table_names([[[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]], independent[1]], [0, 1])
    assert why["MLT23 Theorem 1"] == "the tokens of row 1 are linearly dependent"


def test_sequences_that_end_alike_share_the_skip_connection() -> None:
    alike = table(Dataset.from_arrays(np.array([[0, 2], [1, 2]]), np.array([0, 1])))
    (bound,) = (each for each in alike.applicable if each.name == "DPC24 Corollary 1")
    # two sequences, one last token: the skip connection has rank 1, so one head is needed
    assert bound.value == 2 * (2 + 2 * 3 + 4 * 1)
    differ = table(Dataset.from_arrays(np.array([[0, 1], [1, 2]]), np.array([0, 1])))
    (bound,) = (each for each in differ.applicable if each.name == "DPC24 Corollary 1")
    assert bound.value == 2 * (2 + 2 * 3)


def test_ragged_data_and_documents_are_outside_theorems_of_one_length() -> None:
    ragged = table(Dataset.from_pairs([([0], "a"), ([1, 0], "b")]))
    why = {entry.name: entry.reason for entry in ragged.not_applicable}
    assert "equal length" in why["DPC24 Corollary 1"]
    assert "differ in length" in why["two-layer ReLU interpolation"]
    documents = table(Dataset.from_documents(["a b c", "a b a"]))
    assert "DPC24 Theorem 1" in names(documents.not_applicable)
    pairs = table(Dataset.from_documents(["a b", "b a"]))
    why = {entry.name: entry.reason for entry in pairs.not_applicable}
    assert "never occur after some contexts" in why["DPC24 Theorem 1"]
    full = table(Dataset.from_documents(["a a", "a b", "b a", "b b"]))
    assert "DPC24 Theorem 1" in names(full.applicable)


# Data sets


def test_a_data_set_of_vectors_is_measured_exactly() -> None:
    values = np.array([[[3.0, 4.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.5]]])
    problem = shape_of(Dataset.from_arrays(values, np.array([0, 1])))
    assert (problem.n_samples, problem.seq_len, problem.n_classes, problem.dim) == (2, 2, 2, 2)
    assert problem.n_contexts == 2
    assert problem.radius is not None
    assert problem.separation is not None
    assert 5 <= problem.radius < 5 + 2**-50
    assert 0.5 - 2**-50 < problem.separation <= 0.5


def test_repeated_samples_carry_no_new_bits() -> None:
    values = np.array([[[0.0]], [[1.0]], [[1.0]], [[1.0]]])
    result = table(Dataset.from_arrays(values, np.array([0, 1, 1, 1])))
    assert {b.value for b in result.of("bits", "lower")} == {2}


def test_conflicting_labels_void_what_suffices() -> None:
    values = np.array([[[0.0]], [[1.0]], [[1.0]]])
    data = Dataset.from_arrays(values, np.array([0, 1, 0]), on_conflict="keep")
    result = table(data)
    assert result.of("parameters", "upper") == ()
    named = {entry.name: entry.reason for entry in result.not_applicable}
    assert "different labels" in named["KS25 Theorem 4.1"]


def test_values_that_are_not_finite_are_refused() -> None:
    values = np.array([[[0.0]], [[np.nan]]])
    with pytest.raises(NonFiniteInput):
        table(Dataset.from_arrays(values, np.array([0, 1])))


@checks("MFT24-L2")
def test_documents_get_their_entropy() -> None:
    # "a b", "a c": one context, a, followed by b and c once each: 2 ln 2 nats
    data = Dataset.from_documents(["a b", "a c"], tokenizer="word")
    result = table(data)
    entropy = [b for b in result.applicable if b.statement == "MFT24-L2"]
    assert float(entropy[0].value) == pytest.approx(2 * np.log(2))
    assert result.shape.n_contexts == 1


def test_the_facts_data_set(shared_data: Path) -> None:
    data = Dataset.from_csv(shared_data / "facts.csv")
    result = table(data)
    assert result.shape.context_count == 1790
    assert {b.value for b in result.of("bits", "lower")} == {label_bits(1790, 1271)} == {18_459}
    assert {"KS25 Theorem 4.1", "KS25 Theorem E.1"} <= names(result.of("parameters", "upper"))


# What is refused


@pytest.mark.parametrize(
    "sizes",
    [
        {"n_samples": 0, "dim": 1},
        {"n_samples": 5, "dim": 1, "vocab": 3},
        {"n_samples": 5},
        {"n_samples": 5, "dim": 1, "radius": 1, "separation": 0},
        {"n_samples": 5, "dim": 1, "radius": float("nan"), "separation": 1},
        {"n_samples": 5, "dim": 1, "radius": -1, "separation": 1},
        {"n_samples": 2.5, "dim": 1},
        {"n_samples": "5", "dim": 1},
        {"n_samples": 5, "dim": 1, "n_contexts": 6},
    ],
)
def test_impossible_problems_are_refused_in_the_users_values(sizes: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        DataShape(**sizes)


@pytest.mark.parametrize(
    ("shape", "possible"),
    [
        # vectors of norm at most 1/10 are less than 1 apart
        (DataShape(1000, 1, dim=3, radius=0.1, separation=1), 1),
        # at most three vectors on a line of length 2, in pairs
        (DataShape(10, 2, dim=1, radius=1, separation=1, ordered=True), 9),
        (DataShape(7, 2, dim=1, radius=1, separation=1, task="set"), 6),
        (DataShape(1000, 1, vocab=3), 3),
    ],
)
def test_more_sequences_than_the_sizes_allow_are_refused(shape: DataShape, possible: int) -> None:
    with refused(UsageError, wanted=shape.n_samples, possible=possible):
        for_shape(shape)
    for_shape(replace(shape, n_samples=possible))


def test_a_bound_refuses_what_could_mislead() -> None:
    good = for_shape(VECTORS).applicable[0]
    fields = {name: getattr(good, name) for name in good.__dataclass_fields__}
    with pytest.raises((TypeError, ValueError), match="kind"):  # the run-time type check may object first
        Bound(**{**fields, "kind": "roughly"})
    with pytest.raises(ValueError, match="source"):
        Bound(**{**fields, "source": ""})
    with pytest.raises(TypeError):
        Bound(**{**fields, "value": True})


def test_numbers_are_spelt_for_people() -> None:
    assert spell(1234567) == "1,234,567"
    assert spell(10**24) == "about 10^24"
    assert spell(10**9999) == "about 10^9999"
    # far more digits than Python would print: nothing breaks
    enormous = for_shape(DataShape(10**6, 8, 1 << 100_000, vocab=10**6))
    assert "10^30103^1,000,000 labellings" in enormous.of("bits", "lower")[0].sentence


def test_a_rational_value_is_written_as_a_fraction() -> None:
    good = for_shape(VECTORS).applicable[0]
    fields = {name: getattr(good, name) for name in good.__dataclass_fields__}
    assert Bound(**{**fields, "value": Fraction(1, 3)}).to_json()["value"] == "1/3"
    assert Bound(**{**fields, "value": Fraction(6, 3)}).to_json()["value"] == 2
