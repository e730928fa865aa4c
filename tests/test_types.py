"""mypy, strict, as one test among the others: it has a worker to itself while the other goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def test_mypy_finds_nothing(project_root: Path) -> None:
    pytest.importorskip("mypy", reason="the extra `dev` is not installed")
    found = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=project_root, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
