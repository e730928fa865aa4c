"""What documents may hold beside the values that JSON has."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any


def json_default(value: Any) -> Any:
    """What JSON has no word for, in words that it has: our records, numbers of numpy, sets; anything else as text."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)
