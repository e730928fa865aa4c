"""What `make mutants` puts into the code: every kind of mistake, each a module of its own that Python can read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.attacks.mutants import ROOMS, SELECTIONS, TESTS, sample
from tests.attacks.mutations import mutants_of, mutate

SOURCE = '''
"""A docstring, 1 < 2."""
MOST: int | None = 3

@decorated(1)
def refuse(x: Literal[5], y: int = 4) -> bool:
    """1 + 1"""
    if not 0 < x <= y:
        raise ValueError(f"{x + 1} is wrong", y - 1)
    log(x)
    assert x < 7
    return x == y and x is not None
'''


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("boundary", "0 < x <= y", "0 <= x <= y"),
        ("boundary", "0 < x <= y", "0 < x < y"),
        ("comparison", "x == y", "x != y"),
        ("comparison", "x is not None", "x is None"),
        ("and/or", "x == y and x is not None", "x == y or x is not None"),
        ("not", "not 0 < x <= y", "0 < x <= y"),
        ("never", "if not 0 < x <= y:", "if False:"),
        ("removed", "log(x)", "pass"),
        ("return", "return x == y and x is not None", "return None"),
        ("constant", "3", "4"),
        ("constant", "4", "3"),
    ],
)
def test_every_kind_of_mistake_is_made(kind: str, before: str, after: str) -> None:
    assert (kind, before, after) in {(each.kind, each.before, each.after) for each in mutants_of(SOURCE)}


def test_annotations_texts_assertions_and_refusals_stay() -> None:
    assert {"5", "1 + 1", "x + 1", "y - 1", "x < 7", "int | None"}.isdisjoint(
        each.before for each in mutants_of(SOURCE)
    )
    assert not any(each.before == "1" for each in mutants_of(SOURCE))  # of the decorator


def test_a_mutant_differs_in_one_place_and_can_be_read() -> None:
    whole = ast.unparse(ast.parse(SOURCE)).splitlines()
    for mutant in mutants_of(SOURCE):
        lines = ast.unparse(ast.parse(mutate(SOURCE, mutant.number))).splitlines()
        assert lines != whole
        assert len(set(whole) - set(lines)) <= 1, mutant


@pytest.mark.parametrize("room", [*ROOMS, *SELECTIONS])
def test_a_sample_depends_on_its_seed_alone(room: str) -> None:
    one, same, other = (sample(room, 20, seed) for seed in (0, 0, 1))
    assert one == same
    assert one != other
    assert len({task.name for task in one}) == 20


def test_the_tests_that_mutants_meet_are_there(project_root: Path) -> None:
    assert [name for name in TESTS if not (project_root / name).exists()] == []
