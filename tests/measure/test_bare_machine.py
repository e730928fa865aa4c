"""The engine, the store and the sweep run where there is nothing but torch, numpy and the standard library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BARE = """
import importlib.abc, sys
ABSENT = {absent!r}
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ImportError("not on a bare machine: " + name)
sys.meta_path.insert(0, Absent())
from pathlib import Path
from byheart.measure.specification import specification_of
from byheart.measure.store import Store
from byheart.measure.measurement import carry_out
from byheart.measure.workers import train_here
from byheart.measure.forecast import forecast
from byheart.measure import fits, cluster, progress
table = dict(
    seeds=2,
    model=dict(family="attention-only", dim=2, head_dim=2, n_heads=[1, 2]),
    data=dict(kind="associations", n_vocab=4),
    training=dict(steps=5),
)
specification = specification_of(table, Path())
forecast(specification, None, device="cpu")
with Store(sys.argv[1]) as store:
    measurement = carry_out(specification, lambda runs: train_here(runs, store, device="cpu"))
print(len(measurement.records))
"""
ABSENT = [
    "jaxtyping",
    "beartype",
    "numba",
    "scipy",
    "rich",
    "click",
    "optuna",
    "ray",
    "pyarrow",
    "safetensors",
    "tokenizers",
]


def test_a_bare_machine_can_measure(tmp_path: Path) -> None:
    code = BARE.format(absent=ABSENT)
    answer = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "runs.sqlite")], capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == ["4"]


def test_the_check_can_fail(tmp_path: Path) -> None:
    code = BARE.format(absent=[*ABSENT, "torch"])
    answer = subprocess.run([sys.executable, "-c", code, str(tmp_path / "x")], capture_output=True, text=True)
    assert "not on a bare machine: torch" in answer.stderr
