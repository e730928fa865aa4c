"""What is told of long work: one share that rises from 0 to the end, and time left that follows from it. No clock is read here."""

from __future__ import annotations

import importlib
import sys
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from byheart.cli.progress import Pace
from byheart.construct.retrieval import table_solver
from byheart.data.generators import random_tokens
from byheart.documents.compilation import compile_file
from byheart.pipeline import compile
from byheart.process.package_loading import imports_told, kernels_told
from byheart.process.progress import Steps

ROOT = Path(__file__).resolve().parents[2]


class Told:
    """Every report: stage and share."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, float]] = []

    def __call__(self, done: int, total: int, stage: str = "", /) -> None:
        self.reports.append((stage, done / total))

    @property
    def shares(self) -> list[float]:
        return [share for _, share in self.reports]

    def require_one_rise(self, most: float = 1.0) -> None:
        """No share falls, none goes beyond `most`, and no step is a third of the whole."""
        shares = self.shares
        assert shares == sorted(shares)
        assert shares[0] == 0
        assert shares[-1] <= most
        assert max(b - a for a, b in pairwise(shares)) < 1 / 3


def test_steps_are_parts_of_the_whole() -> None:
    told = Told()
    steps = Steps(told, {"read": 1, "write": 3}, are_named=True)
    for name in ("read", "write"):
        step = steps.begin(name)
        assert step is not None
        for done in range(3):
            step(done, 2, "rows" if done else "")
    assert told.reports == [
        ("read", 0), ("read", 0), ("read: rows", 0.125), ("read: rows", 0.25),
        ("write", 0.25), ("write", 0.25), ("write: rows", 0.625), ("write: rows", 1),
    ]  # fmt: skip
    assert Steps(None, {"read": 1}).begin("read") is None


def test_time_left_is_told_from_the_whole() -> None:
    pace = Pace(10.0, 0)
    assert pace.seconds_left(12.0, 0, 100) is None
    assert pace.seconds_left(14.0, 20, 100) == 16.0
    assert pace.in_words(14.0, 100, 100) == ""
    assert Pace(10.0, 20).seconds_left(12.0, 40, 100) == 6.0


@pytest.mark.parametrize("method", ["retrieval", "llama", "kajitsuka-sato-2025"])
def test_a_file_is_compiled_under_one_bar(method: str, tmp_path: Path) -> None:
    if method == "llama":
        pytest.importorskip("transformers", reason="the package transformers is not installed")
    told = Told()
    capitals = ROOT / "examples" / "capitals.csv"
    compile_file(capitals, tmp_path / "m", reading={}, progress=told, method=method)
    told.require_one_rise()
    stages = list(dict.fromkeys(stage for stage, _ in told.reports))
    assert stages == ["read", "compile", "verify", "save"]
    ends = [stage for stage, share in told.reports if share == 1]
    assert ends == ["save"]  # 100% is told once, when all is done


@pytest.mark.parametrize("options", [{"shards": 5}, {"precision": "float32"}, {}])
def test_many_keys_are_told_bit_by_bit(options: dict[str, Any]) -> None:
    told = Told()
    compile(random_tokens(3000, 4, 60, seed=0), method="retrieval", progress=told, **options)
    told.require_one_rise()
    compiling = [share for stage, share in told.reports if stage == "compile"]
    assert len(set(compiling)) > 10


def test_imports_are_told_module_by_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"loaded_{number}.py").write_text("")
    (tmp_path / "loads_five.py").write_text("".join(f"import loaded_{number}\n" for number in range(5)))
    monkeypatch.syspath_prepend(tmp_path)
    told, before = Told(), list(sys.meta_path)
    with imports_told(told, 6):
        importlib.import_module("loads_five")
    assert told.shares == sorted(told.shares)
    assert len(set(told.shares)) >= 5
    assert told.shares[-1] < 1
    assert sys.meta_path == before


def test_kernels_are_told_pass_by_pass() -> None:
    told = Told()
    with kernels_told(told, 30):
        numba.njit(lambda value: value + 1)(1)
    assert told.shares == sorted(told.shares)
    assert len(set(told.shares)) >= 10
    assert told.shares[-1] < 1
    before = len(told.reports)
    numba.njit(lambda value: value + 2)(1)
    assert len(told.reports) == before


def test_a_plane_is_told_while_its_equations_are_reduced() -> None:
    told, reached, future = Told(), np.array([0]), Future[Any]()

    def tell(done: int, total: int, stage: str = "", /) -> None:
        told(done, total, stage)
        reached[0] += 10
        if done == 30:
            future.set_result(None)

    table_solver._watch(future, reached, 40, tell)
    assert told.shares == [0, 0.25, 0.5, 0.75]
