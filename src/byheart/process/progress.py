"""How far some work is: one type for a piece of work, and one for work that has named stages. Nobody else defines another.

Progress          called now and then with (work done, work in all)
StageProgress     called with (stage, work done, work in all), such as ("verify", 30, 100)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
StageProgress: TypeAlias = Callable[[str, int, int], None]

PARTS = 1000  # that a share of the work is told in


def report(progress: Progress | None, done: int, total: int) -> None:
    """Tell how far the work is, where anyone wants to know."""
    if progress is not None:
        progress(done, total)


def in_stage(progress: StageProgress, stage: str) -> Progress:
    """The progress of one stage."""
    return lambda done, total: progress(stage, done, total)


def part_of(progress: Progress, start: float, stop: float) -> Progress:
    """The progress of a part that takes the work from the share `start` to the share `stop`, told as that of the whole."""
    return lambda done, total: progress(round(PARTS * (start + (stop - start) * done / max(1, total))), PARTS)
