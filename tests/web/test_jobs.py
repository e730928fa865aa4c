"""The queue: order, limits, cancelling, and what happens when a worker dies."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from byheart.web.jobs import ENDED, Job, JobQueue, TooManyJobs, UnknownJob
from byheart.web.limits import Limits

COMMAND = (sys.executable, str(Path(__file__).with_name("echo_worker.py")))


@pytest.fixture
def queue() -> Iterator[JobQueue]:
    made = JobQueue(COMMAND, Limits(n_running=2, n_waiting=5, n_kept=10))
    yield made
    made.close()


def add(queue: JobQueue, task: str, **arguments: object) -> Job:
    return queue.add(task, task, arguments, {"kind": task})


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until it is so; after a minute it never will be."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_a_job_ends_with_its_result(queue: JobQueue) -> None:
    job = add(queue, "echo", text="hello")
    wait_for(lambda: job.state == "done")
    assert job.result["echo"] == {"text": "hello"}
    assert job.to_json(with_result=False).keys().isdisjoint({"arguments", "result"})


def test_progress_can_be_read_while_it_runs(queue: JobQueue) -> None:
    job = add(queue, "sleep", seconds=5, steps=50)
    wait_for(lambda: job.done >= 2)
    assert (job.stage, job.total, job.state) == ("sleep", 50, "running")


def test_a_running_job_is_cancelled_long_before_it_would_end(queue: JobQueue) -> None:
    job = add(queue, "sleep", seconds=3600, steps=1)
    wait_for(lambda: job.state == "running")
    assert queue.cancel(job.id).state == "cancelled"
    following = add(queue, "echo")
    wait_for(lambda: following.state == "done")
    assert job.state == "cancelled"


def test_a_waiting_job_is_cancelled_at_once(queue: JobQueue) -> None:
    running = [add(queue, "sleep", seconds=60, steps=1) for _ in range(2)]
    wait_for(lambda: all(job.state == "running" for job in running))
    waiting = add(queue, "echo")
    assert queue.cancel(waiting.id).state == "cancelled"
    assert waiting.started is None


def test_a_worker_that_dies_fails_its_job_alone(queue: JobQueue) -> None:
    dying, other = add(queue, "die"), add(queue, "sleep", seconds=0.5, steps=2)
    wait_for(lambda: dying.state in ENDED and other.state in ENDED)
    assert (dying.state, other.state) == ("failed", "done")
    assert dying.error is not None
    assert "SIGKILL" in dying.error["message"]
    following = add(queue, "echo")
    wait_for(lambda: following.state == "done")


def test_a_refused_job_keeps_the_words_of_the_worker(queue: JobQueue) -> None:
    job = add(queue, "refuse")
    wait_for(lambda: job.state == "failed")
    assert job.error == {
        "error": "UsageError",
        "message": "no.\n  Ask for something else.",
        "facts": {},
        "status": 2,
    }


def test_a_hundred_jobs_at_once_are_run_or_refused_and_none_is_lost(queue: JobQueue) -> None:
    taken: list[Job] = []
    n_refused = 0
    for _ in range(100):
        try:
            taken.append(add(queue, "sleep", seconds=0.2, steps=1))
        except TooManyJobs:
            n_refused += 1
    assert len(taken) + n_refused == 100
    assert n_refused >= 90
    wait_for(lambda: all(job.state == "done" for job in taken))


def test_old_jobs_are_forgotten(queue: JobQueue) -> None:
    jobs = []
    for _ in range(12):
        jobs.append(add(queue, "echo"))
        wait_for(lambda: jobs[-1].state == "done")
    assert len(queue.all()) == 11  # ten kept, and the one that was added last
    with pytest.raises(UnknownJob):
        queue.get(jobs[0].id)
