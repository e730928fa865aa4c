"""A sweep resumes: killed, shared or repeated, every run ends up stored exactly once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from byheart.measure.records import Run
from byheart.measure.specification import specification_of
from byheart.measure.stack_plan import pack
from byheart.measure.store import Store
from byheart.measure.sweep import Sweep, SweepState
from byheart.measure.workers import train_here

SWEEP = """
import sys
from pathlib import Path
from tests.measure.test_sweep import thirty_two
from byheart.measure.store import Store
from byheart.measure.sweep import Sweep
with Store(sys.argv[1]) as store:
    report = Sweep(thirty_two(int(sys.argv[2])), store, device="cpu", most=8).run()
    print(report.n_found, report.n_trained)
"""
ROOT = Path(__file__).resolve().parents[2]


def runs_of(heads: list[int], seeds: int, steps: int, **changes: object) -> list[Run]:
    table = {
        "seeds": seeds,
        "model": {"family": "attention-only", "dim": 4, "head_dim": "=dim", "n_heads": heads},
        "data": {"kind": "associations", "n_vocab": 6},
        "training": {"steps": steps, "learning_rate": 1e-2, **changes},
    }
    return specification_of(table, Path()).runs


def thirty_two(steps: int) -> list[Run]:
    return runs_of([1, 2, 3, 4], 8, steps)


def start(path: Path, steps: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SWEEP, str(path), str(steps)], cwd=ROOT, text=True, stdout=subprocess.PIPE
    )


def wait_for(path: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "the sweep ended before it could be killed; give it more steps"
        if path.exists():
            try:
                with sqlite3.connect(path) as connection:
                    if connection.execute("SELECT count(*) FROM runs").fetchone()[0] >= count:
                        return
            except sqlite3.OperationalError:
                pass  # not made yet
        time.sleep(0.05)
    raise AssertionError("no record in two minutes")


def rows(path: Path) -> dict[str, tuple[object, ...]]:
    with sqlite3.connect(path) as connection:
        return {row[0]: row for row in connection.execute("SELECT * FROM runs")}


def test_kill_9_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    path, steps = tmp_path / "runs.sqlite", 300
    process = start(path, steps)
    wait_for(path, 8, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = rows(path)
    assert 8 <= len(before) < 32
    with Store(path) as store:
        again = Sweep(thirty_two(steps), store, device="cpu", most=8).run()
    # finished ones are not trained again
    assert (again.n_found, again.n_trained) == (len(before), 32 - len(before))
    after = rows(path)
    assert set(after) == {run.key for run in thirty_two(steps)}
    assert len(after) == 32
    assert all(after[key] == row for key, row in before.items())


@pytest.mark.slow
def test_two_processes_share_one_store(tmp_path: Path) -> None:
    path, steps = tmp_path / "runs.sqlite", 100
    both = [start(path, steps), start(path, steps)]
    reports = [process.communicate(timeout=120)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert len(rows(path)) == 32
    found, trained = zip(*([int(x) for x in report] for report in reports), strict=True)
    # What one found at its start the other had trained by then; nothing was trained twice.
    assert sum(trained) == 32, (found, trained)
    with Store(path) as store:
        assert store.connection.execute("SELECT count(*) FROM claims").fetchone()[0] == 0


@pytest.mark.slow
def test_one_of_two_is_killed_and_the_other_finishes(tmp_path: Path) -> None:
    path, steps = tmp_path / "runs.sqlite", 200
    victim, survivor = start(path, steps), start(path, steps)
    wait_for(path, 4, victim)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    survivor.communicate(timeout=120)
    assert survivor.returncode == 0
    assert len(rows(path)) == 32


def test_what_is_stored_is_not_trained_again(tmp_path: Path) -> None:
    runs = runs_of([1, 2], 2, 10)
    seen: list[SweepState] = []
    with Store(tmp_path / "runs.sqlite") as store:
        first = train_here(runs, store, device="cpu", on_progress=seen.append)
        assert [record.key for record in first] == [run.key for run in runs]
        report = Sweep(runs, store, device="cpu").run()
        assert (report.n_found, report.n_trained, report.is_complete) == (4, 0, True)
    assert seen
    assert seen[-1].n_runs == 4


def test_a_diverged_run_is_a_record_and_the_sweep_goes_on(tmp_path: Path) -> None:
    runs = runs_of([2], 1, 20) + runs_of([2], 1, 20, learning_rate=1e30, schedule="constant")
    with Store(tmp_path / "runs.sqlite") as store:
        calm, wild = train_here(runs, store, device="cpu")
        assert calm.status == "done"
        assert wild.status == "diverged"
        assert Sweep(runs, store, device="cpu").run().n_trained == 0


def test_a_time_limit_stops_between_stacks(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.sqlite") as store:
        report = Sweep(thirty_two(20), store, device="cpu", most=4, max_seconds=0.0).run()
        assert not report.is_complete
        assert report.n_trained == 0


def test_stacks_are_cut_by_memory_number_and_padding() -> None:
    runs = runs_of([1, 2, 3, 4], 4, 10)
    assert [len(batch.runs) for batch in pack(runs, memory=1 << 40, most=16)] == [16]
    assert sorted(len(batch.runs) for batch in pack(runs, memory=1 << 40, most=6)) == [4, 6, 6]
    by_memory = pack(runs, memory=1000, most=16, measure=lambda run: 250)
    assert [len(batch.runs) for batch in by_memory] == [4, 4, 4, 4]
    assert [len(b.runs) for b in pack(runs, memory=10, most=16, measure=lambda run: 250)] == [1] * 16
    lopsided = runs_of([1, 2, 2000], 2, 10)
    assert [len(batch.runs) for batch in pack(lopsided, memory=1 << 40, most=16)] == [4, 2]
    heads = [
        sorted(run.model.sizes["n_heads"] for run in b.runs) for b in pack(lopsided, memory=1 << 40, most=16)
    ]
    assert heads == [[1, 1, 2, 2], [2000, 2000]]
    apart = runs_of([1], 2, 10) + runs_of([1], 2, 11)
    assert len(pack(apart, memory=1 << 40, most=16)) == 2


def test_the_memory_of_a_stack_is_that_of_its_longest_training_set() -> None:
    """The first round of a search for the largest data set trains its smallest and its largest in one stack."""
    (run,) = runs_of([1], 1, 10)
    sizes = (10, 900)
    runs = [
        replace(run, data={"kind": "facts", "n_vocab": 1000, "n_classes": 2, "n_samples": n, "seed": 0})
        for n in sizes
    ]
    batches = pack(runs, memory=1000, most=16, measure=lambda run: int(run.data["n_samples"]))
    assert [batch.n_bytes for batch in batches] == [900, 900]


@pytest.mark.parametrize("steps", [10])
def test_results_do_not_depend_on_the_stack(tmp_path: Path, steps: int) -> None:
    runs = runs_of([1, 3], 3, steps)
    curves = []
    for most in (1, 6):
        with Store(tmp_path / f"{most}.sqlite") as store:
            curves.append(
                [record.measured["loss"] for record in train_here(runs, store, device="cpu", most=most)]
            )
    assert curves[0] == pytest.approx(curves[1], rel=1e-5)  # float32: steps · 2^-24, times the step's gain


@pytest.mark.slow
def test_a_stack_that_cannot_end_in_time_is_given_up(tmp_path: Path) -> None:
    from byheart.reproduce.dana_2024 import runs as dana

    slow = dana.run("laptop", "as-coded", 0, dim=10, head_dim=10, n_heads=26)
    with Store(tmp_path / "runs.sqlite") as store:
        report = Sweep([slow], store, device="cpu", max_seconds=0.5, gives_up=True).run()
        assert not report.is_complete
        assert report.n_trained == store.count() == 0
