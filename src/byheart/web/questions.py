"""Questions: short work that a person waits for, answered one at a time by a worker that stays."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

from byheart.web.limits import Limits
from byheart.web.processes import Refused, WorkerFailed, WorkerProcess


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
