"""How much work something takes, counted instead of timed: the same on a busy machine as on a quiet one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from cProfile import Profile


@contextmanager
def at_most_calls(limit: int) -> Iterator[None]:
    """What is done within makes at most that many calls, of Python functions and of built-in ones.

    Limits are about ten times what was counted, so that they notice work of another order and nothing else.
    """
    profile = Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        n_calls = sum(entry.callcount for entry in profile.getstats())
        if "BYHEART_SHOW_EFFORT" in os.environ:
            print(f"{n_calls:,} calls of at most {limit:,}")
    assert n_calls <= limit, f"{n_calls:,} calls, more than {limit:,}"
