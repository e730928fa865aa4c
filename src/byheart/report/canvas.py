"""An empty figure of matplotlib, for a file whose suffix says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from byheart.errors import UsageError, import_extra

SUFFIXES = (".png", ".svg", ".pdf")


def new_figure(path: Path, size: tuple[float, float], **settings: Any) -> Any:
    """A figure to be saved at `path`; `UsageError` for another suffix, `MissingExtra` without matplotlib."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: a figure is written as one of {', '.join(SUFFIXES)}.", path=str(path))
    # pyplot would take as long to import as all the rest
    return import_extra("matplotlib.figure", "figures", "Drawing a figure").Figure(figsize=size, **settings)
