"""What a person sees while a sweep runs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from byheart.measure.sweep import Progress

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

LINE_SECONDS = 5.0
LIVE_SECONDS = 0.2


@contextmanager
def watched(stream: TextIO | None = None) -> Iterator[Callable[[Progress], None]]:
    """A function to call with each progress, for as long as the block lasts."""
    stream = sys.stderr if stream is None else stream
    watcher = _LiveTable(stream) if stream.isatty() else _Lines(stream)
    try:
        yield watcher.report
    finally:
        watcher.close()


def share_done(progress: Progress) -> float:
    """Share of the work done, counting the stack in training by its steps."""
    done = float(progress.n_stored)
    if progress.moment is not None:
        done += progress.moment.n_active * progress.moment.step / progress.moment.n_steps
    return min(1.0, done / max(1, progress.n_runs))


def seconds_left(progress: Progress, first: Progress) -> float:
    """Time left if work goes on as it did since `first`; infinite before anything was done."""
    gained, spent = share_done(progress) - share_done(first), progress.seconds - first.seconds
    return (1 - share_done(progress)) * spent / gained if gained > 0 else math.inf


def cells(progress: Progress, first: Progress) -> list[tuple[str, str]]:
    """What is shown, as names and values."""
    left = seconds_left(progress, first)
    shown = [("runs", f"{progress.n_stored}/{progress.n_runs}")]
    moment = progress.moment
    if moment is not None:
        shown += [
            ("in training", f"{moment.n_active}"),
            ("step", f"{moment.step:,}/{moment.n_steps:,}"),
            ("best loss", f"{moment.best_loss:.4g}"),
            ("model-steps/s", f"{moment.model_steps_per_second:,.0f}"),
        ]
    return [*shown, ("time left", duration(left))]


def duration(seconds: float) -> str:
    """Seconds for people."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class _Lines:
    """A line now and then, for logs."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.first: Progress | None = None
        self.last = time.monotonic()

    def report(self, progress: Progress) -> None:
        self.first = self.first or progress
        if time.monotonic() - self.last >= LINE_SECONDS:
            self.last = time.monotonic()
            text = ", ".join(f"{name} {value}" for name, value in cells(progress, self.first))
            self.stream.write(f"measure: {text}\n")
            self.stream.flush()

    def close(self) -> None:
        """Nothing to take down."""


class _LiveTable:
    """One line of a table that renews itself, gone when the work is done."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self.first: Progress | None = None
        self.last = 0.0
        self.live: Live = Live(console=Console(file=stream), transient=True, auto_refresh=False)
        self.live.start()

    def report(self, progress: Progress) -> None:
        self.first = self.first or progress
        if time.monotonic() - self.last >= LIVE_SECONDS:
            self.last = time.monotonic()
            self.live.update(_table(cells(progress, self.first)), refresh=True)

    def close(self) -> None:
        self.live.stop()


def _table(shown: list[tuple[str, str]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, _ in shown:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*(value for _, value in shown))
    return table
