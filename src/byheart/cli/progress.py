"""Show progress on standard error: a bar on a terminal, plain lines otherwise, and nothing for short tasks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, TextIO

from byheart.cli.output import is_quiet
from byheart.process.progress import Progress, silent
from byheart.process.repetition import called_every

if TYPE_CHECKING:
    from rich import progress as bars

QUIET_SECONDS = 2.0
"""Do not report tasks shorter than this."""

LINE_SECONDS = 5.0
"""Time between two plain lines."""

TICK_SECONDS = 1.0
"""Time between two updates of the display. Each repeats the last report, because a stage may report nothing new for a long time."""


@contextmanager
def watch(stream: TextIO | None = None, *, whole: str = "") -> Iterator[Progress]:
    """Return a context manager that gives a `Progress` to report to. With -q, reports are ignored.

    Every report names its stage. If the name has a comma, the text after it may change while the stage runs.

    stream: where the progress is shown; by default, standard error.
    whole: a name for the whole work. If it is given, all stages share one bar, and every report must count the progress of the
    whole work rather than of its stage. By default, each stage has its own bar.
    """
    if is_quiet():
        yield silent
        return
    goes_on = stream is None  # update the display even when a stage reports nothing new
    stream = sys.stderr if stream is None else stream
    watcher = _Bars(stream, whole) if stream.isatty() else _Lines(stream, whole)
    lock = threading.Lock()
    latest: list[tuple[str, int, int]] = []

    def report(done: int, total: int, stage: str = "", /) -> None:
        with lock:
            latest[:] = [(stage, done, total)]
            watcher.report(stage, done, total)

    def repeat() -> None:
        with lock:
            for said in latest:
                watcher.report(*said)

    try:
        with called_every(TICK_SECONDS, repeat) if goes_on else nullcontext():
            yield report
    finally:
        watcher.close()


class Pace:
    """Measures the speed of the work and estimates the time left, assuming that the speed does not change."""

    def __init__(self, now: float, done: int) -> None:
        """Start measuring at the time `now`, when `done` units of work are done."""
        self.begun, self.before = now, done

    def seconds_left(self, now: float, done: int, total: int) -> float | None:
        """Return the estimated number of seconds left, or None if no work has been done since the measurement began."""
        gained = done - self.before
        return (total - done) * (now - self.begun) / gained if gained > 0 else None

    def in_words(self, now: float, done: int, total: int) -> str:
        left = self.seconds_left(now, done, total)
        return "" if left is None or done >= total else f"about {left:.0f} s left"


class _Lines:
    """Progress as plain lines, for logs."""

    def __init__(self, stream: TextIO, whole: str) -> None:
        self.stream, self.whole = stream, whole
        self.start = time.monotonic()
        self.last = self.start + QUIET_SECONDS - LINE_SECONDS
        self.paces: dict[str, Pace] = {}

    def report(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        name = self.whole or stage.partition(",")[0]
        pace = self.paces.setdefault(name, Pace(self.start if self.whole else now, 0 if self.whole else done))
        if now - self.last >= LINE_SECONDS:
            self.last = now
            share, rest = 100 * done // max(1, total), pace.in_words(now, done, total)
            line = f"{stage}: {share}% after {now - self.start:.0f} s{', ' if rest else ''}{rest}"
            self.stream.write(f"{line}\n")
            self.stream.flush()

    def close(self) -> None:
        """Do nothing; lines need no cleaning up."""


class _Bars:
    """Progress as live bars, one for each stage or one for the whole work. They disappear when the work is done."""

    def __init__(self, stream: TextIO, whole: str) -> None:
        self.stream, self.whole = stream, whole
        self.start = time.monotonic()
        self.progress: bars.Progress | None = None
        self.tasks: dict[str, bars.TaskID] = {}
        self.paces: dict[str, Pace] = {}

    def report(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        name = self.whole or stage.partition(",")[0]  # the text after the comma may change during the stage
        pace = self.paces.setdefault(name, Pace(self.start if self.whole else now, 0 if self.whole else done))
        if self.progress is None:
            if now - self.start < QUIET_SECONDS:
                return
            self.progress = self._start()
        if name not in self.tasks:
            self.tasks[name] = self.progress.add_task(stage, total=total, left="")
        left = pace.in_words(now, done, total)
        self.progress.update(self.tasks[name], description=stage, completed=done, total=total, left=left)

    def _start(self) -> bars.Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        progress = Progress(
            TextColumn("{task.description:<8}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=Console(file=self.stream),
            transient=True,
        )
        progress.start()
        return progress

    def close(self) -> None:
        if self.progress is not None:
            self.progress.stop()
