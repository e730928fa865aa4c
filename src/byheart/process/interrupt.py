"""Make Ctrl-C end a command within a second, even during one long call of compiled code that releases the interpreter's lock.

Python raises KeyboardInterrupt only between two bytecode instructions. The signal therefore wakes a thread, which
waits a moment and ends the process if the command still runs then. This cannot damage models, because a model
folder gets its name only when all of it is on disk.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 0.7
"""The number of seconds that Python may take to stop by itself after Ctrl-C. Then the process is ended."""


@contextmanager
def interruptible(give_up: Callable[[], None], patience: float = PATIENCE) -> Iterator[None]:
    """Call `give_up` if the block is still running `patience` seconds after Ctrl-C.

    Only the main thread receives signals. In any other thread, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ended = threading.Event()
    hear, tell = os.pipe()
    os.set_blocking(tell, False)

    def wait() -> None:
        while (heard := os.read(hear, 1)) and heard[0] != signal.SIGINT:
            pass
        if heard and not ended.wait(patience):
            give_up()

    thread = threading.Thread(target=wait, name="interrupt", daemon=True)
    before = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        os.close(tell)  # the thread then reads the end of the pipe and returns
        thread.join()
        os.close(hear)
