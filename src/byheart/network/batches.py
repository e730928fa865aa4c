"""Run a module on many samples: batches run in parallel, each on one thread.

A compiled network consists of many small layers. If several threads share each layer, they wait for one another, and the order
of sums changes. Running whole batches in parallel avoids both: answers have the same bits for any number of cores, and a
second core never makes the run slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import TypeVar

import numpy as np
import torch

from byheart.network.compiled_module import own_precision
from byheart.process.progress import Progress

Batch = TypeVar("Batch")
Result = TypeVar("Result")

NUMBERS_AT_ONCE = 2**24
"""Maximum number of entries in the largest array of a batch on a CPU (128 MiB in float64), unless one sample needs more."""

ON_DEVICE = 2**27
"""Maximum number of entries in the largest array of a batch on a GPU (1 GiB in float64), unless one sample needs more. Smaller
batches would not keep it busy."""

IN_CACHE = 3 << 20
"""On a CPU, batches of more than 16 samples also stay within this number of entries (24 MiB in float64), so that the largest array
fits into the cache. Larger blocks of memory would be allocated anew for every layer."""

SMALL = 100_000_000
"""For a step of fewer multiply-adds than this, several threads are slower than one, because they wait for each other."""


def batch_size_for(numbers_per_sample: int, device: str = "cpu") -> int:
    """Return the number of samples per batch. `numbers_per_sample` is the number of entries in the largest array of one sample.

    On a CPU, a batch is small enough to stay in the cache, but has at least 16 samples. It has fewer only if the largest array
    would otherwise have more than `NUMBERS_AT_ONCE` entries.
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
    """Apply `function` to `encoded`, batch by batch, without gradients.

    numbers_per_sample: entries of the largest array that one sample needs. It sets the batch size if `batch_size` is None.
    """
    step = batch_size or batch_size_for(numbers_per_sample, device)

    def run(start: int) -> np.ndarray:
        batch = torch.from_numpy(np.array(encoded[start : start + step])).to(device)
        with torch.no_grad(), own_precision(batch):
            return np.asarray(function(batch).cpu().numpy())

    found = np.zeros((0,))
    for start, outputs in side_by_side(run, range(0, max(1, len(encoded)), step), device):
        if start == 0:
            # Allocate one array for all results: small arrays kept between large temporary blocks would make the heap grow.
            found = np.empty((len(encoded), *outputs.shape[1:]), dtype=outputs.dtype)
        found[start : start + step] = outputs
        if progress is not None:
            progress(min(start + step, len(encoded)), len(encoded))
    return found


def side_by_side(
    run: Callable[[Batch], Result], batches: Sequence[Batch], device: str = "cpu"
) -> Iterator[tuple[Batch, Result]]:
    """Run batches in parallel, and yield each with its result, in order. There are never more batches in memory than threads."""
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
    """In a `with` block, run torch on one thread if the computation is so small that several threads would be slower.

    n_operations: number of multiply-adds in one step of the computation. The computation is small if this is below `SMALL`.
    """
    before = torch.get_num_threads()
    if n_operations < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
