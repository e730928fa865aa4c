"""Read a JSON object field by field. The document may come from anyone, so `reader.read_value` checks each value.

    Fields.read(path)              the object in a file; `parse` for the object in bytes
    Fields(values, where)          an object that was read already; `where` is the name of the file
    .integer("n", 1, 10)           a field as a whole number in a range; also number(s), boolean, text(s), integers
    .child("size")                 a field that is itself an object; `children` for a list of objects
    .record(Certificate)           the whole object as a dataclass

Each error is a `CorruptModel` that names the file and, if the document could be parsed, the field. Its last line is `remedy`; the
default is meant for saved models.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from byheart.errors import CorruptModel
from byheart.records import json_file
from byheart.records.json_file import show_value
from byheart.records.reader import LARGEST, describe_type, not_negative, read_known, read_value, within
from byheart.records.refusals import REMEDY, corrupt

T = TypeVar("T")

read_bytes = partial(json_file.read_bytes, refuse=corrupt)


def read_json(path: Path, remedy: str = REMEDY) -> object:
    return json_file.read_json(path, refuse=partial(corrupt, remedy=remedy))


def parse_json(raw: bytes, where: str | Path, remedy: str = REMEDY) -> object:
    return json_file.parse_json(raw, where, refuse=partial(corrupt, remedy=remedy))


class Fields:
    """One JSON object. `trail` is the path of the object in the file. Tuples count as lists."""

    def __init__(self, values: object, where: str | Path, trail: str = "", remedy: str = REMEDY) -> None:
        """Raise `CorruptModel` unless `values` is a JSON object."""
        self.where = str(where)
        self.trail = trail
        self.remedy = remedy
        self._corrupt = partial(corrupt, remedy=remedy)
        if not isinstance(values, dict):
            what = f"{trail or 'the document'} is {show_value(values)}"
            raise self._corrupt(self.where, f"{what}; it must be an object")
        self.values: dict[str, Any] = values

    @classmethod
    def read(cls, path: Path, remedy: str = REMEDY) -> Fields:
        """Read a file that holds one JSON object."""
        return cls(read_json(path, remedy), path, remedy=remedy)

    @classmethod
    def parse(cls, raw: bytes, where: str | Path, remedy: str = REMEDY) -> Fields:
        """Read one JSON object from bytes. `where` is the name of the file that they come from."""
        return cls(parse_json(raw, where, remedy), where, remedy=remedy)

    def _at(self, name: str) -> str:
        return f"{self.trail}.{name}" if self.trail else name

    def refuse(self, name: str, wanted: str) -> CorruptModel:
        """Return the exception for a field that does not have the wanted type or value."""
        if name not in self.values:
            return self._corrupt(self.where, f"{self._at(name)} is missing; it must be {wanted}")
        shown = show_value(self.values[name])
        return self._corrupt(self.where, f"{self._at(name)} is {shown}; it must be {wanted}")

    def has(self, name: str) -> bool:
        """Return whether the field exists and is not null."""
        return self.values.get(name) is not None

    def _read(self, name: str, kind: Any) -> Any:
        if name not in self.values:
            raise self.refuse(name, describe_type(kind))
        return read_value(self.values[name], kind, self.where, self._at(name), refuse=self._corrupt)

    def integer(self, name: str, least: int = 0, most: int = 2**53) -> int:
        """Return the field as a whole number in [least, most]."""
        value: int = self._read(name, Annotated[int, within(least, most)])
        return value

    def number(self, name: str) -> float:
        """Return the field as a finite number that is not negative."""
        value: float = self._read(name, Annotated[float, not_negative()])
        return value

    def boolean(self, name: str) -> bool:
        value: bool = self._read(name, bool)
        return value

    def text(self, name: str, choices: tuple[str, ...] | None = None) -> str:
        """Return the field as a string, which must be one of `choices` if they are given."""
        value: str = self._read(name, str if choices is None else Literal[choices])
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value: tuple[str, ...] = self._read(name, tuple[str, ...])
        return value

    def integers(self, name: str, least: int, most: int) -> tuple[int, ...]:
        """Return the field, a list of whole numbers in [least, most], as a tuple."""
        value: tuple[int, ...] = self._read(name, tuple[Annotated[int, within(least, most)], ...])
        return value

    def numbers(self, name: str) -> tuple[float, ...]:
        value: tuple[float, ...] = self._read(name, tuple[float, ...])
        return value

    def child(self, name: str) -> Fields:
        if not isinstance(self.values.get(name), dict):
            raise self.refuse(name, "an object")
        return Fields(self.values[name], self.where, self._at(name), self.remedy)

    def children(self, name: str) -> Iterator[Fields]:
        value = self.values.get(name)
        if not isinstance(value, list | tuple):
            raise self.refuse(name, "a list of objects")
        for number, item in enumerate(value):
            yield Fields(item, self.where, f"{self._at(name)}[{number}]", self.remedy)

    def record(self, kind: type[T], **known: Any) -> T:
        """Read the object as the dataclass `kind`, checking each field by its type.

        Fields in `known` are used as given, and fields that `kind` does not have are ignored.
        """
        return read_known(self.values, kind, self.where, known, refuse=self._corrupt)


__all__ = ["LARGEST", "Fields", "parse_json", "read_bytes", "read_json"]
