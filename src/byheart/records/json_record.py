"""Records as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np


@dataclass(frozen=True)
class JsonRecord:
    """A frozen dataclass of plain values."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dictionary, by the names of the fields."""
        return asdict(self)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: NumPy numbers become numbers, tuples become lists, anything else becomes text."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
