"""Check whether a process still runs, make child processes end when their parent ends, and make them ignore Ctrl-C.

The parent handles Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path

PARENT_SECONDS = 0.5  # time between two checks of the parent


def is_running(pid: int) -> bool:
    """Return whether a process with this number runs.

    If the system does not provide this information, return True. On Linux, also return False for a process that has ended but
    whose parent has not yet waited for it.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # we may not send signals to this process, or the number is invalid: assume that it runs
    except (OSError, OverflowError):
        return True
    state = _stat(pid)[:1]
    return state not in (["Z"], ["X"])


def start_of(pid: int) -> str:
    """Return when a process started, in clock ticks since this machine booted, or an empty text if that is unknown."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else ""


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name of the process, such as its state and its parent.

    On systems other than Linux, the result is empty.
    """
    try:
        # the name of a process may be cut in the middle of a character
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def end_tree(pid: int) -> None:
    """Kill a process and, on Linux, all its descendants."""
    for each in (*_descendants(pid), pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Return all descendants of a process, or none if they are unknown."""
    parents = {int(path.name): _stat(int(path.name))[1:2] for path in Path("/proc").glob("[0-9]*")}
    found = [pid]
    for each in found:  # the list grows during the loop
        found += [child for child, parent in parents.items() if parent == [str(each)]]
    return found[1:]


def end_with_parent(parent: int) -> None:
    """End this process soon after its parent process has ended, even in the middle of a task."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()


@contextmanager
def children_ignore_interrupts() -> Iterator[None]:
    """Make processes that are started in this `with` block ignore Ctrl-C.

    A terminal sends Ctrl-C to the running command and to its child processes. Here, only the parent process handles Ctrl-C. It
    then ends its children.

    Until the `with` block ends, the signal SIGINT, which Ctrl-C sends, is masked in this thread. Processes that this thread starts
    inherit the mask. If this process has no other thread and receives the signal in the meantime, it handles it when the block
    ends.
    """
    # In some versions of Python, multiprocessing removes the mask when it starts its resource tracker, so this comes first.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
