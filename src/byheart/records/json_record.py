"""Convert records to JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np


@dataclass(frozen=True)
class JsonRecord:
    """A base for frozen dataclasses that can be written as JSON."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a dictionary that can be written as JSON."""
        return asdict(self)


def plain(value: Any) -> Any:
    """Convert a value to JSON types: NumPy numbers to numbers, tuples to lists, and other types, NaN and infinity to text."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
