"""A sample of the sixty hostile inputs, each in a process that may take little memory; the clock is not read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from byheart.errors import ExitStatus
from tests.attacks.hostile_inputs.case import CASES
from tests.attacks.hostile_inputs.measurement import measure

SAMPLE = (
    ".csv: an open quote",
    ".jsonl: a number of 10^7 digits",
    ".csv: one cell of 1 MiB",
    ".txt: a model of one line of 64 KiB",
    ".npz: 2^30 rows of nothing",
    ".npz: claims 2^60 numbers",
    ".npz: questions that expand",
    "folder: 2^24 tokens a sample",
    "folder: five million brackets",
    "weights: a tensor of 2^62 numbers",
    "signature: a million digits",
    "tokenizer: six rules that multiply",
    "store: a cell of 100 MB",
    "store: 33 million brackets",
    "store: a view without end",
    "specification: 100,000 levels",
    "figure: five million brackets",
    "host: 2^40 positions",
    "GGUF host: 2^60 bytes in a list",
    "server: an answer without end",
    "page: a question of 4 MiB",
    "numbers: 1e999999999 facts",
)
ADDRESS_BYTES = 2**29  # beyond what the process has mapped already
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")


def test_there_are_sixty() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", SAMPLE)
def test_a_small_input_takes_little(name: str, tmp_path: Path) -> None:
    taken = measure(name, tmp_path / "case", ADDRESS_BYTES)
    assert taken.status in (ExitStatus.USAGE, ExitStatus.FALSE, ExitStatus.OUTSIDE)


def test_what_takes_much_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that would need a gigabyte ends for lack of memory, or is killed."""

    def make(folder: Path) -> list[str]:
        (folder / "data.csv").write_text("key,value\na,b\n")
        return ["bounds", "--data", str(folder / "data.csv")]

    monkeypatch.setitem(CASES, "honest", make)
    assert measure("honest", tmp_path / "case", ADDRESS_BYTES).status == ExitStatus.HOLDS
    monkeypatch.setattr(
        "tests.attacks.hostile_inputs.measurement.run_case", lambda *_: len(b"x" * 2**30) and 3
    )
    assert measure("honest", tmp_path / "case", ADDRESS_BYTES).status == ExitStatus.CRASH
