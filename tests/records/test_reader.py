"""One reader: what it accepts, and what it says of what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from byheart.errors import MalformedFile, UsageError
from byheart.records.json_file import MAX_CONTAINERS, MAX_DEPTH, parse_json, read_json
from byheart.records.reader import read_values, within
from tests.effort import at_most_calls
from tests.refusal import refused


@dataclass(frozen=True)
class Inner:
    size: int
    share: float = 1.0


@dataclass(frozen=True)
class Outer:
    precision: Literal["float64", "float32"] = "float64"
    dim: int | None = None
    parts: tuple[Inner, ...] = ()
    sizes: dict[str, Inner] | None = None
    count: Annotated[int, within(0, 2**53)] = 3
    reject_bits: Annotated[int, within(0, 24)] = 0

    def __post_init__(self) -> None:
        if self.dim == 7:
            raise UsageError("dim must not be 7.")
        if self.dim == 8:
            raise ValueError("dim must not be 8")


def test_a_mapping_becomes_the_dataclass() -> None:
    values = {"dim": 3, "parts": ({"size": 1}, {"size": 2, "share": 2}), "sizes": {"a": {"size": 3}}}
    assert read_values(values, Outer, "here") == Outer(
        dim=3, parts=(Inner(1), Inner(2, 2.0)), sizes={"a": Inner(3)}
    )
    assert read_values({}, Outer, "here") == Outer()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dim": "3"}, 'here: dim is "3"; it must be a whole number or null.'),
        ({"dim": True}, "here: dim is true; it must be a whole number or null."),
        ({"precision": "float16"}, 'here: precision is "float16"; it must be one of float64, float32.'),
        ({"reject_bits": 25}, "here: reject_bits is 25; it must be a whole number from 0 to 24."),
        ({"count": -1}, "here: count is -1; it must be a whole number from 0 to 9,007,199,254,740,992."),
        (
            {"parts": [{"size": 1}, {"size": "x"}]},
            'here: parts[1].size is "x"; it must be a whole number.',
        ),
        ({"parts": [{}]}, "here: parts[0].size is missing; it must be a whole number."),
        (
            {"sizes": {"a": {"size": []}}},
            "here: sizes.a.size is a list of 0 items; it must be a whole number.",
        ),
        (
            {"parts": [{"size": 1, "shape": 2}]},
            "here: there is no field `parts[0].shape`; did you mean `share`?",
        ),
        ({"dimm": 3}, "here: there is no field `dimm`; did you mean `dim`?"),
        ({"zzz": 3}, "here: there is no field `zzz`. It has count, dim, parts, precision,"),
        ({"dim": 7}, "dim must not be 7."),
        ({"dim": 8}, "here: dim must not be 8."),
        ([1], "here: it is a list of 1 items, not an object."),
        ({"count": 10**200}, "here: count is a number of 665 bits; it must be a whole number from 0 to"),
    ],
)
def test_a_refusal_names_field_value_and_expectation(values: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_values(values, Outer, "here")
    assert str(caught.value).startswith(message)


def test_unknown_fields_may_be_ignored() -> None:
    assert read_values({"of a later version": 1}, Outer, "here", ignore_unknown=True) == Outer()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b'{"a": 1',
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b"\xff",
        b'"\\ud800"',
        b"[" * 100_000,
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    ],
)
def test_hostile_json_is_refused(raw: bytes) -> None:
    with refused(MalformedFile, "problem", file="a file"):
        parse_json(raw, "a file")


def test_small_files_that_would_take_much_are_refused_at_once() -> None:
    with at_most_calls(400_000):
        with refused(MalformedFile, "problem", file="a file"):
            parse_json(b"[" + b"[]," * MAX_CONTAINERS + b"0]", "a file")
        repeated = b",".join(b'"k%d": 0' % number for number in range(20_000)) + b', "k0": 0'
        with refused(MalformedFile, "problem", file="a file"):
            parse_json(b"{" + repeated + b"}", "a file")


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    with refused(MalformedFile, "file", "problem"):
        read_json(tmp_path)
