"""Processes that are killed: the dead are noticed at once, and children end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from byheart.measure.store import Store
from byheart.process.liveness import is_running

ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import os, time
from byheart.process.liveness import end_with_parent
end_with_parent(os.getppid())
print(os.getpid(), flush=True)
time.sleep(600)
"""
PARENT = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {CHILD!r}]); time.sleep(600)"

MEASURE = """
from pathlib import Path
import sys
from byheart.measure.store import Store
from byheart.measure.workers import train_here
from tests.measure.test_sweep import thirty_two
if __name__ == "__main__":
    with Store(sys.argv[1]) as store:
        train_here(thirty_two(200_000), store, n_workers=3, device="cpu", most=4)
"""

TASKS = """
import os, signal, sys, time
from pathlib import Path
from byheart.process.interrupt import interruptible
from byheart.process.task_runner import Workers
def task(path):
    Path(path).touch()
    time.sleep(600 if path.endswith("long") else 0)
if __name__ == "__main__":
    # a shell starts what it runs in the background with SIGINT ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with interruptible(lambda: os._exit(130)):
        Workers(2).run(task, [f"{sys.argv[1]}/short", f"{sys.argv[1]}/long"])
"""


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, f"of {pids}, some outlived their parent"
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux tells a zombie by its number")
def test_a_claim_of_a_zombie_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    code = f"from byheart.measure.store import Store; Store({str(path)!r}).claim(['k'])"
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not waited for
        os.kill(child.pid, 0)  # so its number is still taken
        assert not is_running(child.pid)
        with Store(path) as store:
            assert store.claim(["k"]) == ["k"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_child_ends_with_its_parent(how: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.send_signal(how)
    wait_until_gone([child])


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_trains_on_when_its_sweep_is_gone(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "sweep.py").write_text(MEASURE)
    command = [sys.executable, str(tmp_path / "sweep.py"), str(tmp_path / "runs.sqlite")]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}) as parent:
        deadline = time.monotonic() + 60
        while len(children_of(parent.pid)) < 3:  # two helpers and the tracker of their semaphores
            assert time.monotonic() < deadline
            time.sleep(0.05)
        children = children_of(parent.pid)
        parent.send_signal(how)
    wait_until_gone(children)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_workers_end_without_a_word_with_whoever_gave_them_tasks(tmp_path: Path, how: signal.Signals) -> None:
    """A terminal sends Ctrl-C to all of them; SIGTERM is sent to the parent alone."""
    (tmp_path / "tasks.py").write_text(TASKS)
    command = [sys.executable, str(tmp_path / "tasks.py"), str(tmp_path)]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        start_new_session=True,
    ) as parent:
        assert parent.stderr is not None
        deadline = time.monotonic() + 60
        while not (tmp_path / "short").exists() or not (tmp_path / "long").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        children = children_of(parent.pid)
        if how == signal.SIGINT:
            os.killpg(parent.pid, how)
        else:
            parent.send_signal(how)
        try:
            wait_until_gone([parent.pid, *children])
        except AssertionError:
            os.killpg(parent.pid, signal.SIGKILL)
            raise
        assert b"Traceback" not in parent.stderr.read()
