"""Sums in one order: with more than one thread, numpy's and scipy's linear algebra adds in another, and weights get other bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ordered_sums() -> Iterator[None]:
    """Run their linear algebra on one thread inside. As a decorator: in the function."""
    import scipy.linalg  # noqa: F401  (a library that is loaded later would not be bounded)
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield
