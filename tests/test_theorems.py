"""The theorem index: complete, spelt right, and every claim checked by a test."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from byheart import theorems
from byheart.errors import ByheartError
from tests.refusal import refused

KINDS = {"construct", "bound", "check", "figure", "network", "data", "docs"}


def untested(entries: tuple[theorems.Entry, ...]) -> list[str]:
    return [
        f"{entry.id}, claimed at {', '.join(place.where for place in entry.functions)}"
        for entry in entries
        if entry.state == "untested"
    ]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout whose one function and one test agree."""
    package = tmp_path / "src" / "byheart"
    tests = tmp_path / "tests"
    package.mkdir(parents=True)
    tests.mkdir()
    (package / "bumps.py").write_text('@realises("KS25-L G.2")\ndef bump(): ...\n')
    (tests / "test_bumps.py").write_text('@checks("KS25-L G.2")\ndef test_bump(): ...\n')
    return tmp_path


def index_of(checkout: Path) -> dict[str, theorems.Entry]:
    entries = theorems.index(checkout / "src" / "byheart", checkout / "tests")
    return {entry.id: entry for entry in entries}


def test_every_claimed_statement_has_a_test() -> None:
    assert untested(theorems.index()) == []


def test_a_claim_without_a_test_is_reported(checkout: Path) -> None:
    (checkout / "tests" / "test_bumps.py").write_text("def test_bump(): ...\n")
    entries = theorems.index(checkout / "src" / "byheart", checkout / "tests")
    assert untested(entries) == ["KS25-L G.2, claimed at src/byheart/bumps.py:2"]


def test_the_index_names_functions_tests_and_state(checkout: Path) -> None:
    entry = index_of(checkout)["KS25-L G.2"]
    assert entry.state == "done"
    assert entry.functions == (theorems.Place("byheart.bumps.bump", "src/byheart/bumps.py:2"),)
    assert entry.tests == (theorems.Place("tests/test_bumps.py::test_bump", "tests/test_bumps.py:2"),)
    assert index_of(checkout)["KS25-L G.3"].state == "open"


def test_without_the_tests_a_claim_is_only_claimed(checkout: Path) -> None:
    entries = theorems.index(checkout / "src" / "byheart")
    assert {entry.state for entry in entries if entry.functions} == {"claimed"}


def test_methods_and_test_classes_are_named_in_full(checkout: Path) -> None:
    (checkout / "src" / "byheart" / "bumps.py").write_text(
        'class Bump:\n    @theorems.realises("KS25-L G.2", "KS25-L G.5")\n    def build(self): ...\n'
    )
    (checkout / "tests" / "test_bumps.py").write_text(
        'class TestBump:\n    @checks("KS25-L G.5")\n    def test_unit(self): ...\n'
    )
    entries = index_of(checkout)
    assert entries["KS25-L G.5"].functions[0].name == "byheart.bumps.Bump.build"
    assert entries["KS25-L G.5"].tests[0].name == "tests/test_bumps.py::TestBump::test_unit"
    assert entries["KS25-L G.5"].state == "done"
    assert entries["KS25-L G.2"].state == "untested"


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("src/byheart/bumps.py", '@realises("KS25-L G.22")\ndef bump(): ...\n'),
        ("tests/test_bumps.py", '@checks("KS25-L G.22")\ndef test_bump(): ...\n'),
    ],
)
def test_an_unknown_id_is_an_error_that_names_the_place(checkout: Path, file: str, source: str) -> None:
    (checkout / file).write_text(source)
    with refused(ByheartError, "where", id="KS25-L G.22"):
        index_of(checkout)


@pytest.mark.parametrize(
    "mark", ["@realises", "@realises()", "@realises(LEMMA)", '@realises("KS25-L G.2", X)']
)
def test_a_claim_the_index_cannot_read_is_an_error(checkout: Path, mark: str) -> None:
    (checkout / "src" / "byheart" / "bumps.py").write_text(f"{mark}\ndef bump(): ...\n")
    with refused(ByheartError, where="src/byheart/bumps.py:2"):
        index_of(checkout)


@pytest.mark.parametrize("file", ["tests/test_bumps.py", "tests/helpers.py"])
def test_a_check_that_pytest_does_not_collect_is_an_error(checkout: Path, file: str) -> None:
    name = "helper" if file.startswith("tests/test_") else "test_bump"
    (checkout / file).write_text(f'@checks("KS25-L G.2")\ndef {name}(): ...\n')
    with refused(ByheartError, "where"):
        index_of(checkout)


def test_the_decorators_mark_and_change_nothing() -> None:
    def function() -> int:
        return 7

    marked = theorems.realises("KS25-L G.2")(theorems.realises("KS25-L G.3")(function))
    assert marked is function
    assert marked() == 7
    assert marked.__realises__ == ("KS25-L G.3", "KS25-L G.2")
    assert theorems.checks("KS25-L G.2")(function).__checks__ == ("KS25-L G.2",)


def test_statements_are_well_formed() -> None:
    statements = theorems.statements()
    ids = [statement.id for statement in statements]
    assert len(ids) == len(set(ids))
    assert {statement.paper for statement in statements} == set(theorems.papers())
    for statement in statements:
        assert statement.id.startswith(f"{statement.paper}-")
        assert statement.becomes
        assert set(statement.becomes) <= KINDS
        assert statement.statement.endswith((".", "?"))
        assert "\n" not in statement.statement


def graded_too_high(entries: tuple[theorems.Entry, ...]) -> list[str]:
    """Statements called built of which only a number or a class of data is there, or whose special case has no name."""
    return [
        entry.id
        for entry in entries
        if entry.statement.grade not in get_args(theorems.Grade)
        or (
            (entry.statement.grade == "special case") != bool(entry.statement.case)
            and entry.statement.grade in ("special case", "built")
        )
        or (entry.statement.grade == "open") != (entry.state == "open")
        or (
            entry.statement.grade in ("built", "special case")
            and all(place.name.startswith("byheart.bounds.") for place in entry.functions)
        )
    ]


def test_no_statement_is_graded_higher_than_what_there_is() -> None:
    assert graded_too_high(theorems.index()) == []


@pytest.mark.parametrize(
    ("id", "grade", "case"),
    [("KS25-R4.4", "built", ""), ("KS25-T D.1", "special case", ""), ("KS25-open", "built", "")],
)
def test_a_grade_too_high_is_noticed(id: str, grade: theorems.Grade, case: str) -> None:
    entry = next(entry for entry in theorems.index() if entry.id == id)
    raised = replace(entry, statement=replace(entry.statement, grade=grade, case=case))
    assert graded_too_high((raised,)) == [id]


def test_each_entry_turns_into_plain_json(checkout: Path) -> None:
    record = index_of(checkout)["KS25-L G.2"].to_json()
    assert record["state"] == "done"
    assert record["functions"] == [{"name": "byheart.bumps.bump", "where": "src/byheart/bumps.py:2"}]
    assert record["tests"] == [{"name": "tests/test_bumps.py::test_bump", "where": "tests/test_bumps.py:2"}]


def test_the_index_imports_nothing_heavy() -> None:
    code = (
        "import sys; from byheart.theorems import index; index();"
        "print(sorted({'torch', 'numba', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
