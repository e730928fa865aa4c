"""What the papers' runs need can be trained where there is nothing but torch and numpy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from byheart.reproduce.samples import Samples

BARE = """
import importlib.abc, runpy, sys
ABSENT = {absent!r}
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ImportError("not on a bare machine: " + name)
sys.meta_path.insert(0, Absent())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
ABSENT = [
    "jaxtyping",
    "beartype",
    "numba",
    "scipy",
    "rich",
    "click",
    "optuna",
    "matplotlib",
    "safetensors",
    "datasets",
]


def answer(root: Path, absent: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    script = str(root / "benchmarks" / "reproduce_on_device.py")
    code = BARE.format(absent=absent)
    return subprocess.run([sys.executable, "-c", code, script, *arguments], capture_output=True, text=True)


def test_a_bare_machine_can_train_the_figures(project_root: Path, samples: Samples, tmp_path: Path) -> None:
    arguments = [
        "--data",
        str(samples.path.parent),
        "--out",
        str(tmp_path),
        "--device",
        "cpu",
        "--minutes",
        "0.002",
    ]
    found = answer(project_root, ABSENT, *arguments)
    assert found.returncode == 0, found.stderr
    assert "not begun: KS25 fig3" in found.stdout
    assert (tmp_path / "runs.sqlite").is_file()


def test_the_check_can_fail(project_root: Path, samples: Samples, tmp_path: Path) -> None:
    found = answer(
        project_root, [*ABSENT, "torch"], "--data", str(samples.path.parent), "--out", str(tmp_path)
    )
    assert "not on a bare machine: torch" in found.stderr
