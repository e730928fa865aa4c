"""Sums of logits notice any row of a vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from byheart import golden
from byheart.golden.diagnosis import LOGIT_SUMS
from byheart.golden.engines.transformers import TransformersEngine
from byheart.golden.logit_sums import signs


def test_one_wrong_row_of_the_head_is_noticed(small_family: Path) -> None:
    """A change of one logit that turns no answer."""

    def change(model: Any) -> None:
        model.lm_head.weight.data[23] *= 1 + 1e-4

    report = golden.check(TransformersEngine(change=change), small_family, only=["llama"])
    assert {outcome.way for outcome in report.wrong} == {LOGIT_SUMS}
    assert report.suspicions[0].kind == "number type"


def test_signs_differ_between_sums_and_are_balanced() -> None:
    table = signs(70_000)
    assert table.abs().eq(1).all()
    assert table.sum(1).abs().max() < 3_000
    assert abs(float((table[0] * table[1]).sum())) < 3_000
