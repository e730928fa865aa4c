"""Answers of a wrong form are refused, or reported as such and not as a fault of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from byheart.errors import UsageError
from byheart.golden.case import Case, cases, shapes
from byheart.golden.diagnosis import (
    BOTH_WRONG,
    FORM,
    SAME_PLACE,
    SAME_TOKEN,
    UNKNOWN,
    Basis,
    Outcome,
    diagnose,
)
from byheart.golden.engine_check import check
from byheart.golden.report import Report
from byheart.golden.signatures import read_signatures
from tests.golden.test_hostile_cases import CASE, SHAPE, write
from tests.refusal import refused

Change = Callable[[list[list[int]]], Any]


def _changed(folder: Path, change: Callable[[list[list[int]], list[list[int]]], Any]) -> Report:
    """Check an engine that gives the right answers, changed by a function of the prompts and the answers."""
    right = {case.prompt: list(case.answer) for case in cases(folder)}
    return check(lambda _, prompts, n: change(prompts, [right[tuple(p)] for p in prompts]), folder)


ACCEPTED: dict[str, Change] = {
    "tuples": lambda rows: tuple(map(tuple, rows)),
    "an array": np.array,
    "a tensor": torch.tensor,
    "tensors": lambda rows: [torch.tensor(row) for row in rows],
    "a generator": lambda rows: (row for row in rows),
}
REFUSED: dict[str, Change] = {
    "None": lambda rows: None,
    "too few": lambda rows: rows[:-1],
    "too many": lambda rows: [*rows, rows[0]],
    "floats": lambda rows: [[token + 0.7 for token in row] for row in rows],
    "whole floats": lambda rows: np.array(rows, dtype=np.float32),
    "a tensor of floats": lambda rows: torch.tensor(rows).float(),
    "texts": lambda rows: ["".join(map(str, row)) for row in rows],
    "rows of None": lambda rows: [None for _ in rows],
    "one token for each prompt": lambda rows: [row[0] for row in rows],
    "a batch axis": lambda rows: [torch.tensor([row]) for row in rows],
    "NaN": lambda rows: [[float("nan")] * 5 for _ in rows],
}


@pytest.mark.parametrize("form", ACCEPTED)
def test_integers_are_accepted(tmp_path: Path, form: str) -> None:
    write(tmp_path)
    assert _changed(tmp_path, lambda _, rows: ACCEPTED[form](rows)).holds


@pytest.mark.parametrize("form", REFUSED)
def test_other_answers_are_refused(tmp_path: Path, form: str) -> None:
    """Floats were cut to integers and passed."""
    write(tmp_path)
    with refused(UsageError, "value"):
        _changed(tmp_path, lambda _, rows: REFUSED[form](rows))


def test_prompts_are_lists(tmp_path: Path) -> None:
    write(tmp_path)
    assert check(lambda _, prompts, n: [(prompt + [2] * n)[-n:] for prompt in prompts], tmp_path).holds


@pytest.mark.parametrize(
    "arguments", [{"only": "tiny"}, {"number_type": "fp32"}, {"only": iter(["tiny", "other"])}]
)
def test_odd_arguments_are_refused(tmp_path: Path, arguments: dict[str, Any]) -> None:
    write(tmp_path)
    with refused(
        UsageError, *({"name"} if "only" in arguments and arguments["only"] != "tiny" else arguments)
    ):
        check(lambda *_: pytest.fail("an engine was asked"), tmp_path, **arguments)
    with refused(UsageError, engine=5):
        check(5, tmp_path)


def test_only_may_be_a_generator(tmp_path: Path) -> None:
    write(tmp_path)
    assert check(lambda _, prompts, n: [[2] * n for _ in prompts], tmp_path, only=iter(["tiny"])).holds


FORMS: dict[str, Callable[[list[list[int]], list[list[int]]], Any]] = {
    "the prompt before the answer": lambda prompts, rows: [
        p + row for p, row in zip(prompts, rows, strict=True)
    ],
    "the text of the prompt before the answer": lambda prompts, rows: [
        (p[1:] + row)[:6] for p, row in zip(prompts, rows, strict=True)
    ],
    "one token too many": lambda _, rows: [[*row, 2] for row in rows],
    "nothing": lambda _, rows: [[] for _ in rows],
    "a space first": lambda _, rows: [[-1, *row] for row in rows],
    "other characters": lambda _, rows: [[-1] * 5 for _ in rows],
}


def test_errors_of_form_are_told_from_faults(small_family: Path) -> None:
    """All were taken for exchanged gate and up."""
    found = {name: _changed(small_family, change).suspicions for name, change in FORMS.items()}
    assert all([(each.kind, each.likeness) for each in said] == [(FORM, 1.0)] for said in found.values())
    assert len({said[0].detail for said in found.values()}) == 4


def test_answers_unlike_every_fault_name_none(small_family: Path) -> None:
    """The first fault of which all answers are wrong too was named."""
    known, table = shapes(small_family), read_signatures(small_family)
    mine = [case for case in cases(small_family) if case.holds_for("float32")]
    outcomes = [Outcome(case, "as given", _unlike_all(case, table)) for case in mine]
    assert [each.kind for each in diagnose(outcomes, known, table)] == [UNKNOWN]


def _unlike_all(case: Case, table: dict[str, Any]) -> tuple[int, ...]:
    """A wrong answer that no fault gives."""
    taken = [ways[way].get(case.name) for ways in table[case.checkpoint].values() for way in ways]
    return next(
        answer
        for answer in ((a, b, 2, 2, 2) for a in range(2, 24) for b in range(2, 24))
        if list(answer) not in taken and answer[0] != case.answer[0]
    )


OTHERS = [replace(CASE, name=name) for name in ("second", "third", "fourth")]
RIGHT, WRONG = CASE.answer, (2, 3, 3, 3, 3)
REASONS: dict[str, tuple[list[Outcome], float, bool]] = {
    "known fault": ([Outcome(CASE, "one by one", WRONG)], 1.0, True),
    "nearest": ([Outcome(case, "one by one", WRONG) for case in (CASE, *OTHERS)], 0.25, False),
    "form": ([Outcome(CASE, "one by one", ())], 1.0, True),
    "way": ([Outcome(CASE, "one by one", RIGHT), Outcome(CASE, "concurrent requests", WRONG)], 0.0, False),
    "unknown": ([Outcome(CASE, "one by one", (4, 4, 4, 4, 4))], 0.0, False),
}


@pytest.mark.parametrize("basis", REASONS)
def test_a_suspicion_says_what_its_likeness_means(basis: str) -> None:
    """A likeness of 0 looked like a fault that is only the nearest, and the share of answers of a wrong form like a similarity."""
    outcomes, likeness, is_clear = REASONS[basis]
    table = {SHAPE.name: {"epsilon: ten times": {"one by one": {CASE.name: list(WRONG)}}}}
    (found,) = diagnose(outcomes, {SHAPE.name: SHAPE}, table)
    assert (found.basis, found.likeness, found.is_clear) == (basis, likeness, is_clear)
    (written,) = Report("engine", "float32", tuple(outcomes), {}, (found,)).to_json()["likely_faults"]
    assert (written["basis"], written["likeness"], written["is_clear"]) == (basis, likeness, is_clear)


def test_every_reason_is_tried() -> None:
    assert set(REASONS) == set(get_args(Basis))


def test_a_missing_beginning_of_text_is_named_before_a_lost_key(small_family: Path) -> None:
    """Both give the same answers; the rarer one was named first."""
    known, table = shapes(small_family), read_signatures(small_family)
    name = "tokenizer: beginning-of-text token left out"
    outcomes = [
        Outcome(case, "as given", tuple(wrong.get(case.name, case.answer)))
        for case in cases(small_family)
        for wrong in [table[case.checkpoint][name].get("one by one", {})]
        if case.holds_for("float32")
    ]
    first, second, *_ = diagnose(outcomes, known, table)
    assert (first.kind, first.likeness, first.is_clear) == ("tokenizer", 1.0, True)
    assert second.kind in ("lost keys", "tokenizer")


@pytest.mark.parametrize(
    ("guess", "likeness"),
    [
        ([2, 3, 3, 3, 3], 1.0),
        ([2, 3, 4, 4, 4], SAME_TOKEN),
        ([2, 4, 3, 3, 3], SAME_PLACE),
        ([3, 3, 3, 3, 3], BOTH_WRONG),
        ([2, 3], SAME_TOKEN),
        ([2], SAME_PLACE),  # the fuzzer found an IndexError
        ([], BOTH_WRONG),
        ([2] * 6, BOTH_WRONG),
    ],
)
def test_the_likeness_of_two_wrong_answers(guess: list[int], likeness: float) -> None:
    """It depends on where they first differ from the right one, 2 2 2 2 2."""
    outcomes = [
        Outcome(CASE, "as given", (2, 3, 3, 3, 3)),
        Outcome(replace(CASE, name="second"), "as given", CASE.answer),
    ]
    table = {SHAPE.name: {"epsilon: ten times": {"one by one": {CASE.name: guess}}}}
    assert diagnose(outcomes, {SHAPE.name: SHAPE}, table)[0].likeness == likeness
