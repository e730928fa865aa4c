"""One thread for many small steps: on small problems the threads of a linear algebra library only wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL = 100_000_000
"""Multiply-adds of one step below which more than one thread slows it down."""


@contextmanager
def single_thread(n_operations: int = 0) -> Iterator[None]:
    """Run torch on one thread inside, if a step has fewer than `SMALL` multiply-adds."""
    before = torch.get_num_threads()
    if n_operations < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
