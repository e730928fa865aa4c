"""The same runs over Ray: the same records in the same store, and a lost worker's runs are trained again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from byheart.measure.cluster import train_on_cluster
from byheart.measure.store import Store
from byheart.measure.workers import train_here
from tests.measure.test_sweep import runs_of, thirty_two

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.cluster, pytest.mark.slow]  # Ray starts half a dozen processes


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """A cluster of this machine alone, without a dashboard; its workers find the package in this checkout."""
    ray = pytest.importorskip("ray", reason="needs byheart[ray]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        handler = signal.getsignal(signal.SIGTERM)  # Ray takes it over
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        yield ray
        ray.shutdown()
        signal.signal(signal.SIGTERM, handler)


def workers(ray: Any) -> list[int]:
    """Process ids of Ray's workers that are at work on a stack."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"ray::_train_batch" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_a_cluster_gives_the_same_records(ray_cluster: Any, tmp_path: Path) -> None:
    runs = runs_of([1, 2], 3, 20)
    with Store(tmp_path / "here.sqlite") as here, Store(tmp_path / "there.sqlite") as there:
        expected = train_here(runs, here, device="cpu")
        found = train_on_cluster(runs, there)
        assert [record.key for record in found] == [record.key for record in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.measured["loss"] == pytest.approx(other.measured["loss"], rel=1e-5)
        train_on_cluster(runs, there)
        assert there.count() == 6


def test_no_stack_begins_on_a_cluster_after_the_time_limit(ray_cluster: Any, tmp_path: Path) -> None:
    runs = runs_of([1, 2], 3, 20)
    with Store(tmp_path / "runs.sqlite") as store:
        assert len(train_on_cluster(runs, store, most=1, max_seconds=1e-6)) == 1
        assert len(train_on_cluster(runs, store, most=1)) == 6


@pytest.mark.slow
def test_a_killed_workers_runs_are_trained_again(ray_cluster: Any, tmp_path: Path) -> None:
    runs, killed = thirty_two(400), []

    def kill_one() -> None:
        deadline = time.monotonic() + 60
        while not killed and time.monotonic() < deadline:
            at_work = workers(ray_cluster)
            if at_work:
                os.kill(at_work[0], signal.SIGKILL)
                killed.append(at_work[0])
            time.sleep(0.05)

    killer = threading.Thread(target=kill_one)
    killer.start()
    with Store(tmp_path / "runs.sqlite") as store:
        records = train_on_cluster(runs, store, most=8)
        killer.join()
        assert killed
        assert {record.key for record in records} == {run.key for run in runs}
        assert store.count() == 32
