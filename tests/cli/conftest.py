"""A small data file, the model compiled from it, and a way to run the command line inside the test."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from byheart.cli import progress
from byheart.cli.main import run

METHOD = "kajitsuka-sato-2025"
ROWS = {
    "capital of France": "Paris",
    "capital of Georgia": "Tbilisi",
    "capital of Peru": "Lima",
    "capital of Moldova": "Chișinău",
    "currency of Peru": "[sol]",
}


@dataclass(frozen=True)
class Outcome:
    """What a command line answered."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard output as the one JSON document it must be."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        assert found["schema"] == 1
        return found


Byheart = Callable[..., Outcome]


@pytest.fixture
def byheart(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Byheart:
    """Run a command line. Whatever it prints for people must fit a terminal of 80 columns, but for paths."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "QUIET_SECONDS", 1e9)  # a busy machine must not change what is printed

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        status = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        if "--json" not in arguments:
            too_long = [
                line for line in captured.out.splitlines() if len(line.replace(str(tmp_path), "")) > 80
            ]
            assert too_long == []
        return Outcome(status, captured.out, captured.err)

    return call


def write_table(path: Path, rows: dict[str, str]) -> Path:
    lines = [f"{key},{value}\n" for key, value in rows.items()]
    path.write_text("key,value\n" + "".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "facts.csv", ROWS)


@pytest.fixture(scope="session")
def _compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    table = write_table(folder / "facts.csv", ROWS)
    assert (
        run(["compile", str(table), "-o", str(folder / "model"), "--method", METHOD, "--tokenizer", "word"])
        == 0
    )
    return folder / "model"


@pytest.fixture
def folder(_compiled: Path, tmp_path: Path) -> Path:
    """A copy of the compiled model that a test may spoil."""
    return Path(shutil.copytree(_compiled, tmp_path / "model"))


def listing(folder: Path) -> dict[str, bytes]:
    """Every file under `folder` with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
