"""The context that every task of a worker receives, and the models that stay in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from byheart.model import Model
from byheart.pipeline import load
from byheart.process.progress import Progress

Document = dict[str, Any]
MODELS_KEPT = 4


@dataclass(frozen=True)
class Context:
    """The context of one running task. Through it, the task reports its progress."""

    progress: Progress


@lru_cache(maxsize=MODELS_KEPT)
def _load_version(path: str, version: int) -> Model:
    return load(path)


def open_model(path: str) -> Model:
    """Return the model at `path`. The last few models stay in memory; a model is read again if its `model.json` has changed."""
    return _load_version(path, Path(path, "model.json").stat().st_mtime_ns)
