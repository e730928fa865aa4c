"""Reading JSON that may be hostile: sizes and depth first, then each field by kind and range.

Every refusal is a `CorruptModel` that names the file, the field and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from byheart.errors import CorruptModel
from byheart.records import json_file
from byheart.records.json_file import show_value

T = TypeVar("T")
LARGEST = 10**30
"""No count that a record tells comes near this."""

REMEDY = "Restore the folder from a copy you trust, or compile the data again."


def corrupt(where: str | Path, problem: str, remedy: str = REMEDY) -> CorruptModel:
    """The exception for a file of a saved model that cannot be trusted."""
    return CorruptModel(f"{where}: {problem}.\n  {remedy}", file=str(where), problem=problem)


read_bytes = partial(json_file.read_bytes, refuse=corrupt)
read_json = partial(json_file.read_json, refuse=corrupt)
parse_json = partial(json_file.parse_json, refuse=corrupt)


class Fields:
    """One JSON object whose fields are read by kind. `trail` says where in the file the object stands.

    Tuples count as lists, so that a document may be read before it was ever written.
    """

    def __init__(self, values: object, where: str | Path, trail: str = "") -> None:
        """Refuse anything that is no JSON object."""
        self.where = where
        self.trail = trail
        if not isinstance(values, dict):
            raise corrupt(where, f"{trail or 'the document'} must be an object, not {show_value(values)}")
        self.values: dict[str, Any] = values

    def _at(self, name: str) -> str:
        return f"{self.trail}.{name}" if self.trail else name

    def refuse(self, name: str, wanted: str) -> CorruptModel:
        """The exception for the field `name`, which is not what is `wanted`."""
        if name not in self.values:
            return corrupt(self.where, f"the field {self._at(name)} is missing; it must be {wanted}")
        return corrupt(self.where, f"{self._at(name)} must be {wanted}, not {show_value(self.values[name])}")

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

    def record(self, kind: type[T], **known: Any) -> T:
        """A dataclass, each field but those `known` read by its type. An absent or null one has its default, or is None."""
        assert is_dataclass(kind)
        hints, values = get_type_hints(kind), known
        for field in (field for field in fields(kind) if field.name not in known):
            hint = hints[field.name]
            is_optional = NoneType in get_args(hint)
            if self.has(field.name):
                values[field.name] = self._value(field.name, get_args(hint)[0] if is_optional else hint)
            elif field.default is MISSING and field.default_factory is MISSING:
                values[field.name] = None if is_optional else self._value(field.name, hint)
        return kind(**values)

    def _value(self, name: str, kind: Any) -> Any:
        inner = get_args(kind)
        if inner and get_origin(kind) is tuple and is_dataclass(inner[0]):
            return tuple(item.record(cast(type, inner[0])) for item in self.children(name))
        if get_origin(kind) is Mapping:
            items = self.child(name)
            return {key: items._value(key, inner[1]) for key in items.values}
        plain: dict[Any, Callable[[str], Any]] = {
            int: partial(self.integer, most=LARGEST),
            float: self.number,
            bool: self.boolean,
            str: self.text,
            tuple[str, ...]: self.texts,
        }
        return plain[kind](name) if kind in plain else self.child(name).record(kind)
