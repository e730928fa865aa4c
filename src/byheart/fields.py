"""Reading JSON that may be hostile: sizes and depth first, then each field by kind and range.

Every refusal is a `CorruptModel` that names the file, the field and what to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from byheart.errors import CorruptModel

MAX_JSON_BYTES = 256 * 2**20
"""No document of ours comes near this; a larger one is refused before it is read."""

REMEDY = "Restore the folder from a copy you trust, or compile the data again."


def corrupt(where: str | Path, problem: str, remedy: str = REMEDY) -> CorruptModel:
    """The exception for a file of a saved model that cannot be trusted."""
    return CorruptModel(f"{where}: {problem}.\n  {remedy}", file=str(where), problem=problem)


def read_bytes(path: Path) -> bytes:
    """The file `path`, which must be a plain file of at most `MAX_JSON_BYTES`."""
    if not path.is_file():
        raise corrupt(path, "the file is missing or is not a plain file")
    size = path.stat().st_size
    if size > MAX_JSON_BYTES:
        raise corrupt(
            path, f"the file has {size:,} bytes, more than the {MAX_JSON_BYTES:,} a document may have"
        )
    return path.read_bytes()


def read_json(path: Path) -> object:
    """The JSON document in the file `path`."""
    return parse_json(read_bytes(path), path)


def parse_json(raw: bytes, where: str | Path) -> object:
    """The JSON document `raw`, guarded by the reader: UTF-8, no repeated key, no NaN or infinity, neither deep nor many parts."""
    from byheart import reader  # only reading files needs it, so networks run without msgspec

    return reader.parse_json(raw, str(where), refuse=corrupt)


class Fields:
    """One JSON object whose fields are read by kind. `trail` says where in the file the object stands.

    Tuples count as lists, so that a document may be read before it was ever written.
    """

    def __init__(self, values: object, where: str | Path, trail: str = "") -> None:
        """Refuse anything that is no JSON object."""
        self.where = where
        self.trail = trail
        if not isinstance(values, dict):
            raise corrupt(where, f"{trail or 'the document'} must be an object, not {_show(values)}")
        self.values: dict[str, Any] = values

    def _at(self, name: str) -> str:
        return f"{self.trail}.{name}" if self.trail else name

    def refuse(self, name: str, wanted: str) -> CorruptModel:
        """The exception for the field `name`, which is not what is `wanted`."""
        if name not in self.values:
            return corrupt(self.where, f"the field {self._at(name)} is missing; it must be {wanted}")
        return corrupt(self.where, f"{self._at(name)} must be {wanted}, not {_show(self.values[name])}")

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(name) is not None

    def integer(self, name: str, least: int = 0, most: int = 2**53) -> int:
        """A whole number in [least, most]."""
        value = self.values.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.refuse(name, f"a whole number from {least:,} to {most:,}")
        return value

    def number(self, name: str) -> float:
        """A finite number, not negative."""
        value = self.values.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 2**1000:
            raise self.refuse(name, "a number, not negative")
        return float(value)

    def boolean(self, name: str) -> bool:
        value = self.values.get(name)
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false")
        return value

    def text(self, name: str, choices: tuple[str, ...] | None = None) -> str:
        """A string, one of `choices` if given."""
        value = self.values.get(name)
        if not isinstance(value, str) or (choices is not None and value not in choices):
            raise self.refuse(name, "text" if choices is None else f"one of {', '.join(choices)}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name)
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise self.refuse(name, "a list of texts")
        return tuple(value)

    def integers(self, name: str, least: int, most: int) -> tuple[int, ...]:
        """A list of whole numbers in [least, most]."""
        value = self.values.get(name)
        good = isinstance(value, list) and all(
            isinstance(item, int) and not isinstance(item, bool) and least <= item <= most for item in value
        )
        if not good:
            raise self.refuse(name, f"a list of whole numbers from {least:,} to {most:,}")
        assert isinstance(value, list)
        return tuple(value)

    def child(self, name: str) -> Fields:
        if not isinstance(self.values.get(name), dict):
            raise self.refuse(name, "an object")
        return Fields(self.values[name], self.where, self._at(name))

    def children(self, name: str) -> Iterator[Fields]:
        value = self.values.get(name)
        if not isinstance(value, list | tuple):
            raise self.refuse(name, "a list of objects")
        for number, item in enumerate(value):
            yield Fields(item, self.where, f"{self._at(name)}[{number}]")


def _show(value: object) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value):,} items"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"a number of {value.bit_length():,} bits"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
