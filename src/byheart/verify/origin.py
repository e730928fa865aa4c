"""How a model came about, as far as a certificate repeats it: read from its record, every field checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byheart.assumption import Assumption
from byheart.fields import Fields


@dataclass(frozen=True)
class Origin:
    """Method, theorem and what was found when the network was built, on the data set with that digest."""

    method: str | None
    theorem: str | None
    assumptions: tuple[Assumption, ...]
    theorem_size: dict[str, int] | None
    dataset_digest: str | None


def origin_of(record: Mapping[str, Any], where: str | Path = "the record of this model") -> Origin:
    """Read the parts of a record that a certificate repeats; each may be absent."""
    fields = Fields(dict(record), where)
    dataset = fields.child("dataset") if fields.has("dataset") else None
    return Origin(
        optional_text(fields, "method"),
        optional_text(fields, "theorem"),
        read_assumptions(fields),
        read_theorem_size(fields),
        None if dataset is None else optional_text(dataset, "digest"),
    )


def optional_text(fields: Fields, name: str) -> str | None:
    """A text, or None where the field is absent or null."""
    return fields.text(name) if fields.has(name) else None


def read_assumptions(fields: Fields) -> tuple[Assumption, ...]:
    """The list `assumptions`, empty where it is absent."""
    if not fields.has("assumptions"):
        return ()
    return tuple(
        Assumption(item.text("statement"), item.boolean("holds"), item.text("detail"))
        for item in fields.children("assumptions")
    )


def read_theorem_size(fields: Fields) -> dict[str, int] | None:
    """The numbers `theorem_size`, None where they are absent."""
    if not fields.has("theorem_size"):
        return None
    sizes = fields.child("theorem_size")
    return {name: sizes.integer(name, 0, 10**30) for name in sizes.values}
