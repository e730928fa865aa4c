"""What the papers' runs need can be trained where there is nothing but torch and numpy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from byheart.measure.store import Store
from byheart.measure.text_samples import Samples
from byheart.reproduce.wall_clock import read

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
    "msgspec",
    "tokenizers",
]


def answer(root: Path, absent: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    script = str(root / "benchmarks" / "reproduce_on_device.py")
    code = BARE.format(absent=absent)
    return subprocess.run([sys.executable, "-c", code, script, *arguments], capture_output=True, text=True)


@pytest.mark.slow
def test_a_bare_machine_can_train_the_figures(project_root: Path, samples: Samples, tmp_path: Path) -> None:
    arguments = ["--data", str(samples.path.parent), "--store", str(tmp_path / "runs.sqlite")]
    lane = "dana-2024-fig4,kajitsuka-sato-2025-fig3,madden-2024-fig1-left"
    found = answer(project_root, ABSENT, *arguments, "--lane", lane, "--device", "cpu", "--seconds", "0.1")
    assert found.returncode == 0, found.stderr
    assert "begins: DPC24 fig4" in found.stdout
    assert "not begun: KS25 fig3" in found.stdout
    assert (tmp_path / "runs.sqlite").is_file()


@pytest.mark.slow
def test_lanes_share_a_store_and_their_pass_is_noted_packed_and_resumed(
    project_root: Path, tmp_path: Path
) -> None:
    def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
        lanes = ["--lanes", "dana-2024-fig4/position-first", "dana-2024-fig1a/as-written"]
        ends = ["--store", str(folder / "runs.sqlite"), "--pack", str(folder / "pack")]
        return answer(project_root, ABSENT, "--device", "cpu", "--seconds", "60", *ends, *more, *lanes)

    first, second = tmp_path / "first", tmp_path / "second"
    found = run(first)
    assert found.returncode == 0, found.stderr
    with Store(first / "runs.sqlite") as store:
        keys = {record.key for record in store.records()}
    assert len(keys) == 6 + 6
    again = run(second, "--resume", str(first / "pack"))
    assert "12 records" in again.stdout
    assert "0 of them new" in again.stdout
    assert again.returncode == 0, again.stderr
    passes = read(second / "pack" / "passes.jsonl")
    assert [one.n_trained for one in passes] == [12]


def test_the_check_can_fail(project_root: Path, samples: Samples, tmp_path: Path) -> None:
    found = answer(
        project_root,
        [*ABSENT, "torch"],
        "--data",
        str(samples.path.parent),
        "--store",
        str(tmp_path / "runs"),
    )
    assert "not on a bare machine: torch" in found.stderr
