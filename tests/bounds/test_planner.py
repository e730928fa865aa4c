"""The planner: sizes for a given number of facts, capacities of architectures, lines of the figure."""

from __future__ import annotations

import json

import pytest

from byheart.bounds import DataShape, Estimate, NotApplicable, capacity_of, curves, plan, read_architecture
from byheart.errors import UsageError
from tests.effort import at_most_calls

from .architectures import BERT_BASE_UNCASED, GPT2_SMALL, MIXTRAL_8X7B, T5_SMALL


def linear(shape: DataShape) -> list[Estimate | NotApplicable]:
    return [Estimate("linear", "float64", 2 * shape.n_samples, 128 * shape.n_samples, is_planned=False)]


def small_and_linear(shape: DataShape) -> list[Estimate | NotApplicable]:
    return [NotApplicable("small", "", f"more than 10 facts, here {shape.n_samples}"), *linear(shape)]


def test_a_plan_by_hand() -> None:
    # 10^9 facts of 40 bits: 4·10^10 bits; 625,000,000 words of 64 bits; 11,111,111,112 parameters at 3.6 bits
    rows = {row.name: row for row in plan(10**9, 40, estimates=linear).rows}
    assert rows["information floor at 64 bits per parameter"].parameters == 625_000_000
    assert rows["information floor at 16 bits per parameter"].parameters == 2_500_000_000
    assert rows["Morris et al. 2025"].parameters == 11_111_111_112
    assert "extended beyond the measured range" in rows["Morris et al. 2025"].note
    assert rows["linear"].parameters == 2 * 10**9
    assert rows["linear"].kind == "estimate"
    assert {row.kind for row in rows.values()} == {"estimate", "theorem", "trained", "floor"}


def test_models_of_different_precisions_are_compared_by_the_bits_they_store() -> None:
    rows = {row.name: row for row in plan(10**9, 40, estimates=linear).rows}
    shares = {name: (row.bits_per_stored_bit, row.precision) for name, row in rows.items()}
    assert shares["linear"] == (40 / 128, "float64")
    assert shares["Morris et al. 2025"] == (0.225, "bfloat16")  # 3.6 bits of 16
    # 2 bits of 8: the most that training was seen to reach
    assert shares["Allen-Zhu & Li 2024"] == (0.25, "int8")
    assert shares["information floor at 16 bits per parameter"] == (1.0, "16 bits")


def test_more_facts_than_anyone_has_are_refused_at_once() -> None:
    with at_most_calls(10_000), pytest.raises(UsageError):
        plan(10**30, 10, estimates=linear)


def test_a_construction_that_refuses_is_listed_with_its_reason() -> None:
    result = plan(100, 8, estimates=small_and_linear)
    assert [entry.reason for entry in result.not_applicable] == ["more than 10 facts, here 100"]
    assert [row.name for row in result.rows if row.kind == "estimate"] == ["linear"]


def test_plans_from_a_million_to_a_million_million_are_quick_and_make_lines() -> None:
    with at_most_calls(1_000_000):
        plans = [plan(10**k, 40, estimates=linear) for k in range(6, 13)]
        lines = curves(plans[::-1])
    assert all(len(line.points) == 7 and line.source for line in lines)
    for line in lines:
        facts, parameters = zip(*line.points, strict=True)
        assert facts == tuple(10**k for k in range(6, 13))
        assert list(parameters) == sorted(parameters)
    json.dumps([one.to_json() for one in plans])


def test_the_lines_of_one_plan_have_one_point_each() -> None:
    result = plan(100, 8, estimates=linear)
    assert {(line.name, line.kind, line.source, line.points) for line in curves([result])} == {
        (row.name, row.kind, row.source, ((100, row.parameters),)) for row in result.rows
    }


@pytest.mark.parametrize(("facts", "bits"), [(0, 8), (10, 0)])
def test_impossible_plans_are_refused(facts: int, bits: int) -> None:
    with pytest.raises(UsageError):
        plan(facts, bits)


def test_the_capacity_of_gpt2_by_hand() -> None:
    # 124,439,808 parameters of 16 bits: 1,991,036,928 bits, 49,775,923 facts of 40 bits; contexts k/(ω - 1) = 2,476;
    # (2 + 1/50,256)·124,439,808/50,256 + 1 = 4,953.2...; 3.6 bits: 447,983,308 bits, 11,199,582 facts
    capacity = capacity_of(read_architecture(GPT2_SMALL), value_bits=40)
    assert {bound.name: bound.value for bound in capacity.bounds} == {
        "KS25 Remark 4.4 (counting)": 49_775_923,
        "MFT24 Lemma 1": 2_476,
        "MFT24 Theorem 1": 4_953,
    }
    assert {row.name: row.n_facts for row in capacity.trained} == {
        "Morris et al. 2025": 11_199_582,
        "Allen-Zhu & Li 2024": 6_221_990,
    }
    assert "normalisation" in {e.statement: e.reason for e in capacity.not_applicable}["KS25-T4.2"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (BERT_BASE_UNCASED, "this model is an encoder"),
        (T5_SMALL, "this model is an encoder-decoder"),
        (GPT2_SMALL | {"activation_function": "relu"}, "relu is not known to be continuously differentiable"),
        (MIXTRAL_8X7B, "the choice of experts is not a continuous function"),
    ],
)
def test_why_a_bound_does_not_apply(config: dict[str, object], words: str) -> None:
    capacity = capacity_of(read_architecture(config))
    assert words in {e.statement: e.reason for e in capacity.not_applicable}["MFT24-L1"]
    assert [bound.statement for bound in capacity.bounds] == ["KS25-R4.4"]


def test_trained_and_compiled_facts_stay_below_what_the_bits_allow() -> None:
    for config in (GPT2_SMALL, MIXTRAL_8X7B):
        capacity = capacity_of(read_architecture(config), value_bits=8)
        most = capacity.bounds[0].value
        assert all(row.n_facts <= most for row in capacity.trained)


def test_laws_speak_of_the_data_that_were_measured() -> None:
    rows = [row for row in plan(1000, 8).rows if row.kind == "trained"]
    trained = capacity_of(read_architecture(GPT2_SMALL)).trained
    assert {row.speaks_of for row in trained} == {row.speaks_of for row in rows}
    assert {row.speaks_of for row in rows}.isdisjoint(row.speaks_of for row in plan(1000, 8, laws=()).rows)


def test_bits_must_be_positive() -> None:
    with pytest.raises(UsageError):
        capacity_of(read_architecture(GPT2_SMALL), value_bits=0)
