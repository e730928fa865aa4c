"""ruff, vulture and mypy as tests among the others: they have a worker to themselves while the other goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("command", ["mypy", "ruff check .", "vulture"])
def test_it_finds_nothing(command: str, project_root: Path) -> None:
    tool, *arguments = command.split()
    pytest.importorskip(tool, reason="the extra `dev` is not installed")
    found = subprocess.run(
        [sys.executable, "-m", tool, *arguments],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
