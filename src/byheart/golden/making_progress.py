"""Estimate how much of the work is done while several processes make the checkpoints of a family.

The processes share one file. It holds one number per checkpoint: the share of the checkpoint's work that is done. Each process
writes the shares of the checkpoints that it makes, and the parent process reads all of them from time to time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from byheart.golden.selection import MOST_COVERED
from byheart.golden.shape import Shape
from byheart.process.progress import PARTS, Progress
from byheart.process.repetition import called_every

READ_SECONDS = 0.5  # time between two readings of the file
START_SECONDS = 2.0  # rough processor time in which a process loads its packages


def step_seconds(shape: Shape) -> Mapping[str, float]:
    """Return the steps of making a checkpoint, with the rough processor time of each.

    The times are those of the checkpoints of `golden.family`, measured on one core.
    """
    if shape.design == "exact":
        return {"cases": 5, "signatures": 7}
    if shape.design == "balance":
        return {"cases": 26, "signatures": 8}
    if shape.n_needles:
        return {"cases": 9, "signatures": 2, "long cases": 18}
    if shape.vocab > MOST_COVERED:
        return {"cases": 7, "signatures": 7}
    return {"cases": 17, "signatures": 6}


def share_writer(path: Path, number: int) -> Progress:
    """Return a function that writes the share of one checkpoint to the shared file. A written share never falls."""
    shares = np.memmap(path, np.float64, "r+")

    def tell(done: int, total: int, stage: str = "", /) -> None:
        shares[number] = max(shares[number], done / max(1, total))

    return tell


@contextmanager
def shares_read(path: Path, seconds: Sequence[float], n_processes: int, progress: Progress) -> Iterator[None]:
    """Create the shared file, and report the progress of all checkpoints while the block runs. Then remove the file.

    The reported progress stays below 100%; the caller reports the end.

    `seconds` holds the expected time of each checkpoint, in the order in which the checkpoints are begun.
    """
    shares = np.memmap(path, np.float64, "w+", shape=len(seconds))
    whole = START_SECONDS + seconds_left(seconds, n_processes)

    def read() -> None:
        to_start = 0.0 if shares.any() else START_SECONDS
        left = to_start + seconds_left(np.array(seconds) * (1 - shares), n_processes)
        progress(min(round(PARTS * (1 - left / whole)), PARTS - 1), PARTS)

    progress(0, PARTS)
    try:
        with called_every(READ_SECONDS, read):
            yield
    finally:
        path.unlink()


def seconds_left(left: Iterable[float], n_processes: int) -> float:
    """Return the time in seconds until all tasks are done, if each process begins the next task as soon as it is free.

    `left` holds the time in seconds that each task still takes, in the order in which the tasks are begun.
    """
    free_at = [0.0] * n_processes
    for each in left:
        heapq.heapreplace(free_at, free_at[0] + each)
    return max(free_at)
