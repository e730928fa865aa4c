"""`auto` sizes other constructions only where it must choose among them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import byheart as bh
from byheart.construct import retrieval
from byheart.construct.registry import Method
from byheart.errors import AssumptionViolated


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
