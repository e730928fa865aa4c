"""Convert values that JSON cannot represent."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any


def json_default(value: Any) -> Any:
    """Convert a value for `json.dumps`: our records, NumPy numbers and sets to their JSON forms, and other types to text."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)
