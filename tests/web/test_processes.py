"""Workers answer, refuse, die and run out of time; whoever waits for them learns why."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from byheart.web.processes import Refused, WorkerFailed, WorkerProcess
from tests.refusal import refused

COMMAND = (sys.executable, str(Path(__file__).with_name("echo_worker.py")))


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    process = WorkerProcess(COMMAND)
    yield process
    process.close()


def test_a_worker_answers_again_and_again(worker: WorkerProcess) -> None:
    for text in ("one", "zwei", "\u4e09"):
        assert worker.work("echo", {"text": text}, seconds=10)["echo"] == {"text": text}


def test_progress_is_told_as_it_comes(worker: WorkerProcess) -> None:
    heard: list[tuple[object, ...]] = []
    worker.work("sleep", {"seconds": 0, "steps": 3}, seconds=10, progress=lambda *news: heard.append(news))
    assert heard == [(0, 3, "sleep"), (1, 3, "sleep"), (2, 3, "sleep")]


def test_a_refusal_keeps_the_words_and_the_worker(worker: WorkerProcess) -> None:
    with pytest.raises(Refused) as caught:
        worker.work("refuse", {}, seconds=10)
    assert caught.value.document["status"] == 2
    assert worker.is_alive


def test_a_worker_that_is_killed_says_by_what(worker: WorkerProcess) -> None:
    with refused(WorkerFailed, exit_status=-9):
        worker.work("die", {}, seconds=10)
    assert not worker.is_alive


def test_a_worker_that_takes_too_long_is_ended(worker: WorkerProcess) -> None:
    with refused(WorkerFailed, exit_status=-9):
        worker.work("sleep", {"seconds": 3600, "steps": 1}, seconds=0.3)
    assert not worker.is_alive


def test_another_thread_can_end_it(worker: WorkerProcess) -> None:
    threading.Timer(0.2, worker.kill, ["somebody asked"]).start()
    with refused(WorkerFailed, exit_status=-9):
        worker.work("sleep", {"seconds": 60, "steps": 1}, seconds=30)


def test_a_dead_worker_refuses_the_next_question(worker: WorkerProcess) -> None:
    os.kill(worker.pid, signal.SIGTERM)
    with pytest.raises(WorkerFailed):
        worker.work("echo", {}, seconds=10)
