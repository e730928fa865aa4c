"""A child process that answers requests. Requests and answers are JSON documents, one per line.

When the parent process ends, the standard input of the child closes, and so the child ends too. The child runs in its own
session, so Ctrl-C does not reach it. When it is killed, its own children are killed too. Each request has a time-out.
Before the answer, a child may report progress in lines {"progress": [done, total, stage]}.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from byheart.errors import ByheartError
from byheart.process.progress import Progress

LEAVE_SECONDS = 1.0  # time that a child has to end by itself when it is no longer needed


class ChildEnded(ByheartError):
    """A child process ended before it answered: it failed, was killed, or ran out of time or memory."""

    def __init__(self, why: str, status: int) -> None:
        """Store the reason and the exit status. The status -n means that signal n ended the process."""
        super().__init__(f"a child process ended before it answered: {why}.", why=why, exit_status=status)
        self.why, self.status = why, status


class JsonChild:
    """A process that answers one request at a time. `kill` may be called from another thread."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        errors: str = "strict",
        hides_errors: bool = False,
    ) -> None:
        """Start the process with this command line.

        errors: how to encode texts that are not valid Unicode, as in `str.encode`.
        hides_errors: whether to discard the standard error of the process.
        """
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if hides_errors else None,
            text=True,
            encoding="utf-8",
            errors=errors,
            env=None if env is None else {**os.environ, **env},
            start_new_session=True,
        )
        self._owner = os.getpid()
        self._why: str | None = None
        self._finalizer = weakref.finalize(self, _close, self._process, self._owner, LEAVE_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether requests can be sent: the child runs, and this process started it.

        After a fork, this is false in the new process, because the child belongs to the old one.
        """
        return self._owner == os.getpid() and self._process.poll() is None

    def ask(
        self, question: Mapping[str, Any], *, seconds: float, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Send one request and return the answer. Raise `ChildEnded` if the child ends or takes longer than `seconds`."""
        timer = threading.Timer(seconds, self.kill, [f"it took more than the {seconds:,.0f} seconds allowed"])
        timer.daemon = True
        timer.start()
        try:
            return self._conversation(question, progress)
        except (OSError, ValueError) as error:  # a broken pipe, or an incomplete answer
            self.kill("its pipe broke, or its answer was incomplete")
            raise self._failure() from error
        finally:
            timer.cancel()

    def _conversation(self, question: Mapping[str, Any], progress: Progress | None) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            answer: dict[str, Any] = json.loads(line)
            if "progress" not in answer:
                return answer
            if progress is not None:
                progress(*answer["progress"])
        raise self._failure()

    def _failure(self) -> ChildEnded:
        status = self._process.wait()
        why = self._why
        if why is None and status < 0:
            why = f"it was ended by the signal {signal.Signals(-status).name}"
            if -status == signal.SIGKILL:
                why += ", which the system sends when memory runs out"
        return ChildEnded(why or f"exit status {status}", status)

    def kill(self, why: str) -> None:
        """End the process and its children at once. A waiting `ask` then raises `ChildEnded` with the reason `why`."""
        if self.is_alive:
            self._why = self._why or why
            _kill(self._process)

    def close(self) -> None:
        """End the process at once and close its pipes."""
        self.kill("it was closed")
        self._finalizer()


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _close(process: subprocess.Popen[str], owner: int, seconds: float) -> None:
    """Close the pipes and wait for the process to end; kill it after `seconds`.

    Do nothing unless the current process is `owner`, the process that started it.
    """
    if os.getpid() != owner:
        return
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        _kill(process)
        process.wait()
