"""Use transformers to open a checkpoint that byheart need not have written. This runs no code of the checkpoint, reads no pickles
and downloads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from byheart.errors import ByheartError
from byheart.records.refusals import corrupt

FILES_ALONE: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
NO_PICKLES: dict[str, Any] = {**FILES_ALONE, "use_safetensors": True}
"""Arguments of `from_pretrained`. With FILES_ALONE, used for tokenizers, it runs no code of the checkpoint and downloads nothing.
With NO_PICKLES, used for models, it also reads weights only from safetensors files."""


@contextmanager
def opened_by_transformers(path: Path) -> Iterator[None]:
    """Convert the errors of transformers to `CorruptModel`. This includes panics of Rust code, which are not subclasses of
    Exception. Errors of byheart, lack of memory, Ctrl-C and exits are not converted.

    Inside the block, transformers shows no progress bars of its own.
    """
    try:
        with _no_progress_bars():
            yield
    except (ByheartError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        first = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
        raise corrupt(path, f"transformers cannot open it ({first})", "Use another checkpoint.") from None


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Turn off the progress bars of transformers inside the block, if they are on."""
    from transformers.utils import logging

    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()
