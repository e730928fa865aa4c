"""An empty figure of matplotlib, for a file whose suffix says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from byheart.errors import MissingExtra, UsageError

SUFFIXES = (".png", ".svg", ".pdf")


def new_figure(path: Path, size: tuple[float, float], **settings: Any) -> Any:
    """A figure to be saved at `path`; `UsageError` for another suffix, `MissingExtra` without matplotlib."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: a figure is written as one of {', '.join(SUFFIXES)}.", path=str(path))
    try:
        from matplotlib.figure import Figure  # pyplot would take as long to import as all the rest
    except ImportError as error:
        raise MissingExtra("matplotlib", "figures", "Drawing a figure") from error
    return Figure(figsize=size, **settings)
