"""Running a module over many samples: batches in parallel, each on one thread.

A compiled network is many small layers. Splitting each of them between threads makes the threads wait for one another, and changes
the order of sums; running whole batches in parallel does neither. So answers have the same bits for any number of cores, and a
second core never slows them down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import TypeVar

import numpy as np
import torch

from byheart.process.progress import Progress

Batch = TypeVar("Batch")
Result = TypeVar("Result")

NUMBERS_AT_ONCE = 2**24
"""Entries of the largest array of one batch: 128 MiB in float64."""

ON_DEVICE = 2**27
"""The same where not the CPU computes, 1 GiB: small batches would leave most of a GPU idle."""

IN_CACHE = 3 << 20
"""The same on a CPU, 24 MiB, since larger blocks of memory are fetched anew for every layer."""

SMALL = 100_000_000
"""Multiply-adds of one step below which more than one thread slows it down: they only wait for each other."""


def batch_size_for(numbers_per_sample: int, device: str = "cpu") -> int:
    """Samples at a time, from the entries of the largest array that one sample needs.

    On a CPU few enough to stay in cache, but at least 16.
    """
    if device != "cpu":
        return max(1, ON_DEVICE // max(1, numbers_per_sample))
    most = max(1, NUMBERS_AT_ONCE // max(1, numbers_per_sample))
    return min(most, max(16, IN_CACHE // max(1, numbers_per_sample)))


def run_in_batches(
    function: Callable[[torch.Tensor], torch.Tensor],
    encoded: np.ndarray,
    numbers_per_sample: int,
    *,
    batch_size: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> np.ndarray:
    """`function` of `encoded`, batch by batch, without gradients.

    numbers_per_sample: entries of the largest array that one sample needs; sets the size of a batch unless it is given.
    """
    step = batch_size or batch_size_for(numbers_per_sample, device)

    def run(start: int) -> np.ndarray:
        with torch.no_grad():
            batch = torch.from_numpy(np.array(encoded[start : start + step])).to(device)
            return np.asarray(function(batch).cpu().numpy())

    found = np.zeros((0,))
    for start, outputs in side_by_side(run, range(0, max(1, len(encoded)), step), device):
        if start == 0:
            # One array for all: small ones kept between the large blocks that come and go make the heap grow without end.
            found = np.empty((len(encoded), *outputs.shape[1:]), dtype=outputs.dtype)
        found[start : start + step] = outputs
        if progress is not None:
            progress(min(start + step, len(encoded)), len(encoded))
    return found


def side_by_side(
    run: Callable[[Batch], Result], batches: Sequence[Batch], device: str = "cpu"
) -> Iterator[tuple[Batch, Result]]:
    """Each batch with what `run` gives, in order; no more batches are in memory than there are threads."""
    n_threads = min(torch.get_num_threads(), len(batches)) if device == "cpu" else 1
    with single_thread() if device == "cpu" else nullcontext():
        if n_threads <= 1:
            yield from ((batch, run(batch)) for batch in batches)
            return
        with ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            waiting: list[tuple[Batch, Future[Result]]] = []
            for batch in batches:
                if len(waiting) == n_threads:
                    first, future = waiting.pop(0)
                    yield first, future.result()
                waiting.append((batch, pool.submit(run, batch)))
            for first, future in waiting:
                yield first, future.result()


@contextmanager
def single_thread(n_operations: int = 0) -> Iterator[None]:
    """Run torch on one thread inside the block if a step has fewer than `SMALL` multiply-adds."""
    before = torch.get_num_threads()
    if n_operations < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
