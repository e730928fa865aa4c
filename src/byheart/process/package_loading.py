"""Show progress while large packages are imported and kernels are compiled, by counting imported modules and compiler passes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from byheart.process.progress import Progress


class _Counter:
    """An import finder that finds nothing, but reports progress whenever a module is looked for."""

    def __init__(self, progress: Progress, n_modules: int) -> None:
        self._progress, self._start, self._total = progress, len(sys.modules), n_modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Report how many modules have been loaded so far, but at most the total minus 1. The caller reports the end."""
        self._progress(min(len(sys.modules) - self._start, self._total - 1), self._total)


@contextmanager
def imports_told(progress: Progress | None, n_modules: int) -> Iterator[None]:
    """Report the progress of imports inside the block. `n_modules` is the approximate number of modules that
    these imports load.
    """
    if progress is None:
        yield
        return
    counter: Any = _Counter(progress, n_modules)
    sys.meta_path.insert(0, counter)
    try:
        yield
    finally:
        sys.meta_path.remove(counter)


@contextmanager
def kernels_told(progress: Progress, n_passes: int) -> Iterator[None]:
    """Report the progress of numba's compilations inside the block; the compiler runs about `n_passes` passes."""
    from numba.core import event

    class _Passes(event.Listener):
        n_done = 0

        def on_start(self, event: Any) -> None:
            """Do nothing; a pass of the compiler is counted when it ends."""

        def on_end(self, event: Any) -> None:
            self.n_done += 1
            progress(min(self.n_done, n_passes - 1), n_passes)

    with event.install_listener("numba:run_pass", _Passes()):
        yield
