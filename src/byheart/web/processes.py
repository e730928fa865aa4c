"""Worker processes that the server starts and may end at any time. One worker is reserved for short questions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from byheart.errors import ByheartError
from byheart.process.child import ChildEnded, JsonChild
from byheart.process.progress import Progress
from byheart.web.limits import Limits

Started = Callable[[int], None]
"""A function that is called with the process id of each new process."""


def ignore(pid: int) -> None:
    """Do nothing."""


class WorkerFailed(ByheartError):
    """A worker ended before it answered, because it was killed or ran out of time or memory, or the server is stopping."""


class Refused(ByheartError):
    """A worker answered with an error. `document` is the error document that the command line prints with --json."""

    def __init__(self, document: dict[str, Any]) -> None:
        """Store the error document of the worker."""
        super().__init__(str(document["message"]))
        self.document = document


class WorkerProcess(JsonChild):
    """A process that answers one request at a time. `kill` may be called from another thread."""

    def __init__(self, command: Sequence[str], started: Started = ignore) -> None:
        """Start the process with this command line, and call `started` with its process id."""
        super().__init__(command)
        started(self.pid)

    def work(
        self, task: str, arguments: dict[str, Any], *, seconds: float, progress: Progress | None = None
    ) -> Any:
        """Run one task and return its result.

        Raise `Refused` if the worker answers with an error, and `WorkerFailed` if it ends first or takes longer than `seconds`.
        """
        try:
            answer = self.ask({"task": task, "arguments": arguments}, seconds=seconds, progress=progress)
        except ChildEnded as error:
            raise WorkerFailed(
                f"the worker process ended before it answered: {error.why}.\n"
                "  No model or exported file is incomplete. A new worker will take the next request.",
                exit_status=error.status,
            ) from error
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]


class Questions:
    """A worker process that keeps recently used models in memory. If the worker dies, the next question starts another one."""

    def __init__(self, command: Sequence[str], limits: Limits, started: Started = ignore) -> None:
        """Start the worker now, so that the first question does not have to wait."""
        self._command, self._limits, self._started = command, limits, started
        self._lock = threading.Lock()
        self._worker = WorkerProcess(command, started)
        self._is_closed = False
        threading.Thread(target=self._warm_up, daemon=True).start()

    def ask(self, task: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run one task in the worker and return its result, a JSON object."""
        with self._lock:
            if self._is_closed:
                raise WorkerFailed("the server is stopping.")
            if not self._worker.is_alive:
                self._worker.close()
                self._worker = WorkerProcess(self._command, self._started)
            found = self._worker.work(task, arguments, seconds=self._limits.question_seconds)
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
