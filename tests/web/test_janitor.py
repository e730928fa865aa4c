"""What is left when the server is killed: no worker, however deep in a computation, and no folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from byheart.process.liveness import is_running

# a computation that no thread of Python interrupts, with a child that outlives what started it
STUCK = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
10 ** 10 ** 9
"""
SERVER = """
import subprocess, sys, time
from pathlib import Path
from byheart.web.janitor import Janitor
janitor = Janitor(Path(sys.argv[1]))
worker = subprocess.Popen([sys.executable, "-c", sys.argv[2]], stdout=subprocess.PIPE, text=True, start_new_session=True)
janitor.watch(worker.pid)
print(janitor._process.pid, worker.pid, worker.stdout.readline().strip(), flush=True)
if sys.argv[3] == "leaves":
    janitor.close()
else:
    time.sleep(600)
"""


@pytest.fixture
def started(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[int, list[int], Path]]:
    """The number of a server, those of what it started, and its folder."""
    folder = tmp_path / "uploads"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "upload.csv").write_text("key,value\n")
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder), STUCK, request.param], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    others = [int(each) for each in process.stdout.readline().split()]
    yield process.pid, others, folder
    for each in (process.pid, *others):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def wait_for_the_end(processes: list[int], folder: Path) -> None:
    """It comes at once; where it does not come at all, the test must end all the same."""
    for _ in range(1200):
        if not any(map(is_running, processes)) and not folder.exists():
            return
        time.sleep(0.05)
    raise AssertionError((list(filter(is_running, processes)), folder.exists()))


@pytest.mark.parametrize("started", ["stays"], indirect=True)
def test_a_killed_server_leaves_no_process_and_no_folder(started: tuple[int, list[int], Path]) -> None:
    server, others, folder = started
    assert len(others) == 3
    assert all(map(is_running, others))
    os.kill(server, signal.SIGKILL)
    wait_for_the_end(others, folder)


@pytest.mark.parametrize("started", ["leaves"], indirect=True)
def test_a_server_that_ends_leaves_none_either(started: tuple[int, list[int], Path]) -> None:
    _, others, folder = started
    wait_for_the_end(others, folder)


def test_a_number_that_is_another_process_by_now_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        janitor = [sys.executable, "-c", "from byheart.web.janitor import clean_up; clean_up()"]
        subprocess.run(janitor, input=f"{tmp_path / 'none'}\n{other.pid} 1\n", text=True, check=True)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
