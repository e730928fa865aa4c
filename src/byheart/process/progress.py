"""Progress of long work: one type for all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

PARTS = 1000  # that a share of the work is told in


@runtime_checkable
class Progress(Protocol):
    """Called now and then with the work done, the total work and, where the work has stages, the name of the stage."""

    def __call__(self, done: int, total: int, stage: str = "", /) -> None: ...


class Steps:
    """Work that is done in steps, each with its share of the time: what a step tells is told as progress of the whole.

    So a bar moves once from 0 to 100%, and time left can be told from the time spent. The shares were measured, and are rough.
    """

    def __init__(
        self, progress: Progress | None, shares: Mapping[str, float], *, are_named: bool = False
    ) -> None:
        """Take the share of each step, in the order of steps; with `are_named` the name of a step is told as the stage."""
        self._progress, self._are_named = progress, are_named
        self._ranges: dict[str, tuple[float, float]] = {}
        start, whole = 0.0, sum(shares.values())
        for name, share in shares.items():
            self._ranges[name] = (start / whole, (start + share) / whole)
            start += share

    def begin(self, name: str) -> Progress | None:
        """Report that a step begins, and return the progress to call within it."""
        if self._progress is None:
            return None
        own = in_stage(self._progress, name) if self._are_named else self._progress
        part = part_of(own, *self._ranges[name])
        part(0, 1)
        return part


def silent(done: int, total: int, stage: str = "", /) -> None:
    """Report nothing."""


def report(progress: Progress | None, done: int, total: int) -> None:
    """Report progress, if a `progress` was given."""
    if progress is not None:
        progress(done, total)


def in_stage(progress: Progress, stage: str) -> Progress:
    """The progress of one stage; the stages inside it are reported after its name: "verify: read"."""
    return lambda done, total, part="", /: progress(done, total, f"{stage}: {part}" if part else stage)


def part_of(progress: Progress, start: float, stop: float) -> Progress:
    """The progress of a part, from the share `start` to the share `stop` of the whole, reported as progress of the whole."""

    def tell(done: int, total: int, stage: str = "", /) -> None:
        progress(round(PARTS * (start + (stop - start) * done / max(1, total))), PARTS, stage)

    return tell
