"""Worker processes as the server sees them: started, asked, and ended at any moment; one of them stays for short questions."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import IO, Any

from byheart.errors import ByheartError
from byheart.process.progress import StageProgress
from byheart.web.limits import Limits


class WorkerFailed(ByheartError):
    """A worker ended before it answered: it was killed, ran out of time or out of memory."""


class Refused(ByheartError):
    """A worker answered that the request cannot be met; `document` is what the command line prints with --json."""

    def __init__(self, document: dict[str, Any]) -> None:
        """Keep the worker's own words."""
        super().__init__(str(document["message"]))
        self.document = document


class WorkerProcess:
    """One process that answers one request at a time. `kill` may be called from another thread."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start it with this command line; it is ready when it answers."""
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # so that its own children end with it
        )
        self._why: str | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(
        self, task: str, arguments: dict[str, Any], *, seconds: float, progress: StageProgress | None = None
    ) -> Any:
        """The result of one task. Raises `Refused` with the worker's words, or `WorkerFailed` if it dies."""
        timer = threading.Timer(seconds, self.kill, [f"it took more than the {seconds:,.0f} seconds allowed"])
        timer.daemon = True
        timer.start()
        try:
            return self._conversation(task, arguments, progress)
        except (OSError, ValueError) as error:
            self.kill("its pipe broke")
            raise self._failure() from error
        finally:
            timer.cancel()

    def _conversation(self, task: str, arguments: dict[str, Any], progress: StageProgress | None) -> Any:
        requests, answers = self._pipes()
        requests.write(json.dumps({"task": task, "arguments": arguments}) + "\n")
        requests.flush()
        for line in answers:
            answer = json.loads(line)
            if "result" in answer:
                return answer["result"]
            if "error" in answer:
                raise Refused(answer["error"])
            if progress is not None:
                progress(*answer["progress"])
        raise self._failure()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def _failure(self) -> WorkerFailed:
        status = self._process.wait()
        why = self._why
        if why is None and status < 0:
            why = f"something ended it with the signal {signal.Signals(-status).name}"
            if -status == signal.SIGKILL:
                why += ", as the system does when memory runs out"
        return WorkerFailed(
            f"the worker process ended before it answered: {why or f'exit status {status}'}.\n"
            "  Nothing half-written was left behind; a new worker takes the next request.",
            exit_status=status,
        )

    def kill(self, why: str) -> None:
        """End the process and its children at once; whoever waits for its answer learns `why`."""
        if self.is_alive:
            self._why = self._why or why
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process and let go of its pipes."""
        self.kill("the server stopped")
        self._process.wait()
        for pipe in self._pipes():
            with contextlib.suppress(OSError):
                pipe.close()


class Questions:
    """A worker that keeps the models it was asked about in memory. If it dies, the next question starts another."""

    def __init__(self, command: Sequence[str], limits: Limits) -> None:
        """Start the worker, so that it is warm when the first question comes."""
        self._command, self._limits = command, limits
        self._lock = threading.Lock()
        self._worker = WorkerProcess(command)
        self._is_closed = False
        threading.Thread(target=self._warm_up, daemon=True).start()

    def ask(self, task: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The document that one task makes."""
        with self._lock:
            if self._is_closed:
                raise WorkerFailed("the server is stopping.")
            if not self._worker.is_alive:
                self._worker.close()
                self._worker = WorkerProcess(self._command)
            found = self._worker.ask(task, arguments, seconds=self._limits.question_seconds)
            assert isinstance(found, dict)
            return found

    def _warm_up(self) -> None:
        with contextlib.suppress(Refused, WorkerFailed):
            self.ask("warm_up", {})

    def close(self) -> None:
        """End the worker."""
        self._is_closed = True
        self._worker.kill("the server stopped")
        with self._lock:
            self._worker.close()
