"""The type of progress callbacks, and functions that combine them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

PARTS = 1000  # shares of the work are reported as whole numbers out of this total


@runtime_checkable
class Progress(Protocol):
    """A function that is called from time to time with the work done, the total work and, if there are stages, the
    name of the stage.
    """

    def __call__(self, done: int, total: int, stage: str = "", /) -> None: ...


class Steps:
    """Work in several steps, each with its share of the time. The progress of a step is reported as progress of the whole.

    A bar then moves once from 0 to 100%, so that the time left can be estimated. The shares are rough measurements.
    """

    def __init__(
        self, progress: Progress | None, shares: Mapping[str, float], *, are_named: bool = False
    ) -> None:
        """Store the share of each step, in the order of steps.

        With `are_named`, the name of a step is reported as the stage.
        """
        self._progress, self._are_named = progress, are_named
        self._ranges: dict[str, tuple[float, float]] = {}
        start, whole = 0.0, sum(shares.values())
        for name, share in shares.items():
            self._ranges[name] = (start / whole, (start + share) / whole)
            start += share

    def begin(self, name: str) -> Progress | None:
        """Report that a step begins, and return the progress callback to use during this step."""
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
    """Return the callback for one stage. A stage inside it is reported with both names, as in "verify: read"."""
    return lambda done, total, part="", /: progress(done, total, f"{stage}: {part}" if part else stage)


def part_of(progress: Progress, start: float, stop: float) -> Progress:
    """Return the callback for one part of the work. While this part runs, the reported share of the whole grows from `start` to
    `stop`.
    """

    def tell(done: int, total: int, stage: str = "", /) -> None:
        progress(round(PARTS * (start + (stop - start) * done / max(1, total))), PARTS, stage)

    return tell
