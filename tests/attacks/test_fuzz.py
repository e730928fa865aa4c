"""The fuzzer finds what it is there for, and finds nothing in some hundred cases of a fixed seed."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from byheart.errors import UsageError
from tests.attacks.fuzz import children
from tests.attacks.fuzz.mutation import VALUES, mutate_document
from tests.attacks.fuzz.target import Target, Wrong

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")


class Villain(Target):
    """A target on which everything goes wrong, one case after the other."""

    name, share = "villain", 1
    case = 0

    def prepare(self, folder: Path) -> None: ...

    def attack(self, random: Random, folder: Path) -> str:
        (folder / "evidence").write_text("x")
        Villain.case += 1
        number = Villain.case
        if number == 2:
            raise UsageError("this is ours.")
        if number == 3:
            raise KeyError("this is not")
        if number == 4:
            raise Wrong("Rome is the capital of France")
        if number == 5:
            _ = b"x" * (200 << 20)
        return "taken"


class Deadly(Villain):
    """The same for what ends the process."""

    def attack(self, random: Random, folder: Path) -> str:
        if random.random() < 0.5:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            pass


class Slow(Villain):
    """Works for a while, then waits without end."""

    def attack(self, random: Random, folder: Path) -> str:
        Villain.case += 1
        while Villain.case % 2 and time.process_time() < 0.8:
            pass
        if not Villain.case % 2:
            time.sleep(600)
        return "taken"


def test_the_fuzzer_finds_what_it_is_there_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "TARGETS", (Villain(),))
    monkeypatch.setattr(children, "RESIDENT_BYTES", 100 << 20)
    late = time.monotonic() + 600
    found = list(children.run_cases(0, iter(range(6)), tmp_path / "case", tmp_path / "out", late))
    assert [outcome["number"] for outcome in found] == [0, 1, 2, 3, 4, 5]
    assert [outcome["outcome"] for outcome in found] == [
        "taken",
        "refused",
        "finding",
        "finding",
        "finding",
        "taken",
    ]
    kept = {path.parent.name for path in (tmp_path / "out").glob("*/*")}
    assert kept == {"KeyError-nowhere", "Wrong-Rome-is-the-capital-of-France", "memory-villain"}
    assert (tmp_path / "out" / "KeyError-nowhere" / "0-2" / "evidence").read_text() == "x"


def test_the_fuzzer_outlives_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "TARGETS", (Deadly(),))
    monkeypatch.setattr(children, "CPU_SECONDS", 0.2)
    late = time.monotonic() + 600
    found = list(children.run_cases(0, iter(range(8)), tmp_path / "case", tmp_path / "out", late))
    assert [outcome["number"] for outcome in found] == list(range(8))
    assert {outcome["kind"] for outcome in found} == {"death-villain", "hang-villain"}


def test_a_case_that_works_on_is_told_from_one_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a case may take long and work little."""
    monkeypatch.setattr(children, "TARGETS", (Slow(),))
    monkeypatch.setattr(children, "WALL_SECONDS", 0.3)
    monkeypatch.setattr(children, "LEAST_WORK", 0.02)
    late = time.monotonic() + 600
    found = list(children.run_cases(0, iter(range(2)), tmp_path / "case", tmp_path / "out", late))
    assert [outcome.get("kind", outcome["outcome"]) for outcome in found] == ["taken", "hang-villain"]


@pytest.mark.parametrize("n_cases", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_nothing_is_found(n_cases: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.attacks.fuzz", "--seconds", "600", "--cases", str(n_cases)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    ended = subprocess.run(
        [*command, "--processes", "1", "--out", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads((tmp_path / "summary.json").read_text())["n_cases"] == n_cases


def test_a_case_leaves_nothing_behind_for_the_next() -> None:
    before = copy.deepcopy(VALUES)
    for number in range(500):
        mutate_document([{}, [], {"a": [1]}], Random(number))
    assert before == VALUES
