"""The list of cases. A case writes its input into an empty folder and says what is to be done with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from byheart.cli.main import run

ROOT = Path(__file__).resolve().parents[3]
FIXTURES, CAPITALS = ROOT / "tests" / "storage" / "fixtures", ROOT / "examples" / "capitals.csv"
MIB = 2**20
WRITES = ("compile", "export", "forget", "graft")

Make = Callable[[Path], list[str]]
"""Writes the input into an empty folder; the command line that reads it."""

CASES: dict[str, Make] = {}

AROUND: dict[str, Callable[[list[str]], int]] = {}
"""How the command of a case is run, where it needs more than its files, such as a server that answers."""


def case(name: str) -> Callable[[Make], Make]:
    """Enter a case under the name of its format and of what is wrong with it."""

    def enter(make: Make) -> Make:
        assert name not in CASES
        CASES[name] = make
        return make

    return enter


def run_case(name: str, command: list[str]) -> int:
    """Run the command of a case; its exit status."""
    return AROUND.get(name, run)(command)
