"""Progress of long work: one type for all of it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

PARTS = 1000  # that a share of the work is told in


@runtime_checkable
class Progress(Protocol):
    """Called now and then with the work done, the total work and, where the work has stages, the name of the stage."""

    def __call__(self, done: int, total: int, stage: str = "", /) -> None: ...


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
