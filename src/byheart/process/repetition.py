"""Call a function at regular intervals while other work runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def called_every(seconds: float, call: Callable[[], None]) -> Iterator[None]:
    """Call a function every `seconds` seconds from another thread while the block runs."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(seconds):
            call()

    thread = threading.Thread(target=run, name="repetition", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
