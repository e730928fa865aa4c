"""A small process that outlives the server by a moment: it ends the workers and removes the folder of uploads.

However the server ends, by SIGKILL too, its pipe to this process closes. A worker notices that by itself unless it is in the
middle of one long computation; the folder has to be removed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from byheart.process.liveness import end_tree, start_of

ATTEMPTS = 20  # to remove the folder, 0.1 seconds apart: what writes into it was just ended
LEAVE_SECONDS = 10.0


class Janitor:
    """The process as the server sees it."""

    def __init__(self, folder: Path) -> None:
        """Start it; `folder` is what it removes."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from byheart.web.janitor import clean_up; clean_up()"],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C does not reach it
        )
        self._tell(str(folder))

    def watch(self, pid: int) -> None:
        """End this process, and those that it started, after the server has gone."""
        self._tell(f"{pid} {start_of(pid)}")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Let it do its work now, and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=LEAVE_SECONDS)


def clean_up() -> None:
    """Read a folder and process numbers from standard input until it closes; then end the processes and remove the folder."""
    folder, *lines = sys.stdin.read().splitlines() or [""]
    if not folder:  # the server ended before it named one
        return
    watched = [line.split() for line in lines]
    for pid, *start in watched:
        if [start_of(int(pid))] == (start or [""]):  # else the number is another process by now
            end_tree(int(pid))
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            return
        time.sleep(0.1)
