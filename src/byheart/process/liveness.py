"""Check whether a process still runs, and make a child end with its parent rather than by Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PARENT_SECONDS = 0.5  # between two looks at the parent


def is_running(pid: int) -> bool:
    """Whether a process with this number runs, as far as is known. One that has ended but was not waited for counts as ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is not ours to signal, or no number of a process: nothing is known
        return True
    state = _stat(pid)[:1]
    return state not in (["Z"], ["X"])


def start_of(pid: int) -> str:
    """When a process of this machine started, in the kernel's ticks; empty where that is unknown."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else ""


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name of the process: its state, its parent and so on; empty except on Linux."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def end_tree(pid: int) -> None:
    """Kill a process and, on Linux, all its descendants."""
    for each in (*_descendants(pid), pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """All descendants of a process; none where they are unknown."""
    parents = {int(path.name): _stat(int(path.name))[1:2] for path in Path("/proc").glob("[0-9]*")}
    found = [pid]
    for each in found:  # grows while it is read
        found += [child for child, parent in parents.items() if parent == [str(each)]]
    return found[1:]


def end_with_parent(parent: int) -> None:
    """End this process, whatever it is doing, soon after `parent`, which started it, has gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()


@contextmanager
def children_ignore_interrupts() -> Iterator[None]:
    """Processes started in this block do not receive Ctrl-C, which a terminal sends to all: their parent handles it and ends them.

    What is blocked when a process starts stays blocked in it. Here the signal waits until the block ends.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
