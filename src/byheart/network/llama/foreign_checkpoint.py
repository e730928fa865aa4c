"""Open someone else's checkpoint with transformers without running its code, reading pickles or using the network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from byheart.errors import ByheartError
from byheart.records.refusals import corrupt

FILES_ALONE: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
NO_PICKLES: dict[str, Any] = {**FILES_ALONE, "use_safetensors": True}
"""For `from_pretrained` of a tokenizer, and of a model."""


@contextmanager
def opened_by_transformers(path: Path) -> Iterator[None]:
    """Say what transformers could not open, whatever it raises (a panic of its tokenizers is not even an Exception)."""
    try:
        yield
    except (ByheartError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        first = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
        raise corrupt(path, f"transformers cannot open it ({first})", "Give another checkpoint.") from None
