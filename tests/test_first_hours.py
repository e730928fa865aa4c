"""The steps of `tests/first_hours.py`, each a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.first_hours import STEPS, Step

CASES = [
    pytest.param(each, marks=pytest.mark.slow if each.is_slow else [], id=f"{each.user}: {each.name}")
    for each in STEPS
]


@pytest.mark.parametrize("step", CASES)
def test_a_step_has_its_effect(step: Step, tmp_path: Path) -> None:
    step.act(tmp_path)


def test_five_kinds_of_users_walk() -> None:
    assert len({each.user for each in STEPS}) == 5
