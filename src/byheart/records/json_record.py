"""Records that a command prints as they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class JsonRecord:
    """A frozen dataclass of plain values."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dictionary, by the names of the fields."""
        return asdict(self)
