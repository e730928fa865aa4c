"""Run long jobs in worker processes, a few at a time. Each job reports its progress and can be cancelled."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from byheart.errors import ByheartError
from byheart.web.limits import Limits
from byheart.web.processes import Refused, Started, WorkerFailed, WorkerProcess, ignore

State = Literal["waiting", "running", "done", "failed", "cancelled"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled")
MOST_JOBS_OF_A_WORKER = 50
"""A worker is replaced after this many jobs, so that leaked memory does not add up."""


class TooManyJobs(ByheartError):
    """The queue is full."""


class UnknownJob(ByheartError):
    """There is no job with this id, or the job is no longer stored."""


@dataclass
class Job:
    """One job and its result. Only the queue changes it."""

    id: str
    task: str
    title: str
    arguments: dict[str, Any] = field(repr=False)
    request: dict[str, Any] = field(repr=False)
    created: float
    state: State = "waiting"
    stage: str = ""
    done: int = 0
    total: int = 0
    started: float | None = None
    ended: float | None = None
    result: Any = None
    error: dict[str, Any] | None = None

    def to_json(self, *, with_result: bool = True) -> dict[str, Any]:
        """Return the job as a dictionary that can be written as JSON, without its arguments, which hold paths of this machine."""
        names = ("id", "task", "title", "request", "created", "state", "started", "ended", "error")
        document = {name: getattr(self, name) for name in names}
        document["progress"] = {"stage": self.stage, "done": self.done, "total": self.total}
        if with_result:
            document["result"] = self.result
        return document


class JobQueue:
    """Runs jobs in the order in which they were queued. Every public method may be called from any thread."""

    def __init__(self, command: Sequence[str], limits: Limits, started: Started = ignore) -> None:
        """Start the threads that watch the workers. Also start one worker, so that the first job does not have to wait.

        `command` is the command line of a worker. `started` is called with the process id of each new worker.
        """
        self._command, self._limits, self._started = command, limits, started
        self._jobs: dict[str, Job] = {}
        self._waiting: deque[Job] = deque()
        self._workers: dict[str, WorkerProcess] = {}  # the workers of running jobs
        self._alive: list[WorkerProcess] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._serve, args=(number == 0,), daemon=True)
            for number in range(limits.n_running)
        ]
        for thread in self._threads:
            thread.start()

    def add(self, task: str, title: str, arguments: dict[str, Any], request: dict[str, Any]) -> Job:
        """Queue a job. `request` is the content of the page's request. It is stored so that the page can send it again."""
        with self._changed:
            if len(self._waiting) >= self._limits.n_waiting:
                raise TooManyJobs(
                    f"the limit of {len(self._waiting)} waiting jobs is reached.\n"
                    "  Wait until some have ended, or cancel some.",
                    limit=len(self._waiting),
                )
            job = Job(secrets.token_hex(6), task, title, arguments, request, time.time())
            self._jobs[job.id] = job
            self._waiting.append(job)
            self._forget_oldest()
            self._changed.notify_all()
            return job

    def get(self, job_id: str) -> Job:
        with self._changed:
            return self._find(job_id)

    def all(self) -> list[Job]:
        """Return every stored job, the newest first."""
        with self._changed:
            return list(reversed(self._jobs.values()))

    def cancel(self, job_id: str) -> Job:
        """Remove a waiting job from the queue, or end the worker of a running job. An ended job is not changed."""
        with self._changed:
            job = self._find(job_id)
            if job.state == "waiting":
                self._waiting.remove(job)
                self._end(job, "cancelled")
            elif job.state == "running":
                self._end(job, "cancelled")
                if job.id in self._workers:
                    self._workers[job.id].kill("the job was cancelled")
            return job

    def close(self) -> None:
        """End all workers."""
        with self._changed:
            self._is_closed = True
            for worker in self._alive:
                worker.kill("the server stopped")
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=5)

    def _serve(self, is_warm: bool) -> None:
        worker = self._new_worker() if is_warm else None
        if worker is not None:
            self._warm_up(worker)
        n_jobs = 0
        while (job := self._next()) is not None:
            if worker is None or not worker.is_alive or n_jobs >= MOST_JOBS_OF_A_WORKER:
                if worker is not None:
                    worker.close()
                worker, n_jobs = self._new_worker(), 0
            n_jobs += 1
            self._work(job, worker)
            # the worker was cancelled or died: start another now, so that the next job does not wait
            if not worker.is_alive:
                worker.close()
                worker, n_jobs = self._new_worker(), 0
        if worker is not None:
            worker.close()

    def _warm_up(self, worker: WorkerProcess) -> None:
        """Make a worker import the packages it needs before the first job."""
        with contextlib.suppress(Refused, WorkerFailed):
            worker.work("warm_up", {}, seconds=self._limits.job_seconds)

    def _new_worker(self) -> WorkerProcess:
        worker = WorkerProcess(self._command, self._started)
        with self._changed:
            self._alive = [*(each for each in self._alive if each.is_alive), worker]
            if self._is_closed:
                worker.kill("the server stopped")
        return worker

    def _next(self) -> Job | None:
        with self._changed:
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            job = self._waiting.popleft()
            job.state, job.started = "running", time.time()
            return job

    def _work(self, job: Job, worker: WorkerProcess) -> None:
        with self._changed:
            if job.state != "running":  # the job was cancelled after it was taken from the queue
                return
            self._workers[job.id] = worker

        def progress(done: int, total: int, stage: str = "", /) -> None:
            job.stage, job.done, job.total = stage, done, total

        try:
            result = worker.work(job.task, job.arguments, seconds=self._limits.job_seconds, progress=progress)
        except Refused as refusal:
            self._end(job, "failed", error=refusal.document)
        except WorkerFailed as failure:
            words = {"error": type(failure).__name__, "message": str(failure), "facts": failure.facts}
            self._end(job, "failed", error=words)
        else:
            self._end(job, "done", result=result)
        finally:
            with self._changed:
                self._workers.pop(job.id, None)

    def _end(self, job: Job, state: State, *, result: Any = None, error: Any = None) -> None:
        """Store the outcome of a job, unless the job has already ended, for example because it was cancelled."""
        with self._changed:
            if job.state not in ENDED:
                job.state, job.ended, job.result, job.error = state, time.time(), result, error

    def _find(self, job_id: str) -> Job:
        if job_id not in self._jobs:
            raise UnknownJob(f"there is no job {job_id!r}. Ended jobs are removed after a while.", job=job_id)
        return self._jobs[job_id]

    def _forget_oldest(self) -> None:
        ended = [job.id for job in self._jobs.values() if job.state in ENDED]
        for job_id in ended[: max(0, len(ended) - self._limits.n_kept)]:
            del self._jobs[job_id]
