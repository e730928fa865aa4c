"""A small process that cleans up after the server: it ends the workers and removes the server's temporary folder.

When the server ends, even by SIGKILL, its pipe to this process closes. This process then ends the workers that still run and
removes the folder, which holds uploads, exports and, without `--models`, the models. Most workers end by themselves, but a worker
that is busy with one long computation may not.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from byheart.process.liveness import end_tree, start_of

# attempts to remove the folder, 0.1 seconds apart, because processes that write into it are just ending
ATTEMPTS = 20
LEAVE_SECONDS = 10.0


class Janitor:
    """The object by which the server controls the process that cleans up."""

    def __init__(self, folder: Path) -> None:
        """Start the process, which will remove `folder`."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from byheart.web.janitor import clean_up; clean_up()"],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C does not reach it
        )
        self._tell(str(folder))

    def watch(self, pid: int) -> None:
        """After the server has ended, end the process `pid` and all processes that it started."""
        self._tell(f"{pid} {start_of(pid)}")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Make the process clean up now, and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=LEAVE_SECONDS)


def clean_up() -> None:
    """Read the path of a folder, and process ids with their start times, from standard input. When standard input closes, end
    these processes and remove the folder.
    """
    folder, *lines = sys.stdin.read().splitlines() or [""]
    if not folder:  # the server ended before it sent the name of a folder
        return
    watched = [line.split() for line in lines]
    for pid, *start in watched:
        if [start_of(int(pid))] == (start or [""]):  # otherwise the number belongs to another process by now
            end_tree(int(pid))
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            return
        time.sleep(0.1)
