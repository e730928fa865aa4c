"""How much work something takes, counted instead of timed: the same on a busy machine as on a quiet one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most_calls(limit: int) -> Iterator[None]:
    """What is done within makes at most that many calls, of Python functions and of built-in ones.

    Limits are about ten times what was counted, so that they notice work of another order and nothing else.
    """
    n_calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
        if "BYHEART_SHOW_EFFORT" in os.environ:
            print(f"{n_calls:,} calls of at most {limit:,}")
    assert n_calls <= limit, f"{n_calls:,} calls, more than {limit:,}"
