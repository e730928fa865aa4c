"""`auto` sizes other constructions only where it must choose among them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import byheart as bh
from byheart.construct import retrieval
from byheart.construct.choice import note_on_options
from byheart.construct.registry import Method
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.transformer.architecture import Precision
from tests.refusal import refused


def test_the_usual_construction_is_built_without_a_look_at_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    estimate = Method.estimate
    monkeypatch.setattr(
        Method, "estimate", lambda self, *rest: asked.append(self.name) or estimate(self, *rest)
    )
    assert bh.compile({"a": "1", "b": "2"}).record["method"] == "retrieval"
    assert asked == []
    exact = bh.compile({"a": "1", "b": "2"}, precision="exact")  # the smallest, so all are sized
    assert len(asked) > 1
    assert exact.record["method"] in asked


def test_the_others_are_sized_where_the_usual_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssumptionViolated("these data are not taken.")

    monkeypatch.setattr(retrieval, "METHOD", replace(retrieval.METHOD, plan=refuse))
    record = bh.compile({"a": "1", "b": "2"}).record
    assert record["method"] != "retrieval"
    assert "these data are not taken" in record["refused"]["retrieval"]


@pytest.mark.parametrize("precision", [None, "float32", "exact"])
def test_a_misspelt_option_is_refused_whatever_the_precision(precision: Precision | None) -> None:
    with refused(UsageError, option="reject_bit"):
        bh.compile({"a": "1", "b": "2"}, precision=precision, reject_bit=3)


@pytest.mark.parametrize("precision", [None, "float64", "float32", "int8"])
def test_a_wrong_value_of_an_option_is_refused_by_its_own_construction(precision: Precision | None) -> None:
    with refused(UsageError, "problem"):
        bh.compile({"a": "1", "b": "2"}, precision=precision, reject_bits=25)
    model = bh.compile({"a": "1", "b": "2"}, precision=precision, reject_bits=24)
    assert model.record["options"]["reject_bits"] == 24


def test_options_of_other_constructions_choose_them() -> None:
    record = bh.compile({"a": "1", "b": "2"}, precision="float32", activation="tanh").record
    assert record["method"].startswith("madden-2024")


@pytest.mark.parametrize("options", [(), ("reject_bits",), ("reject_bit",), ("B", "reject_bits")])
def test_the_note_on_options_is_for_those_that_only_other_constructions_have(
    options: tuple[str, ...],
) -> None:
    assert note_on_options(options) is None
    assert "kajitsuka-sato-2025-bits" in str(note_on_options(["B"]))
