"""One reader: what it accepts, and what it says of what it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from byheart.errors import MalformedFile, UsageError
from byheart.records.json_file import MAX_CONTAINERS, MAX_DEPTH, parse_json, read_json
from byheart.records.reader import (
    describe_unknown,
    json_schemas,
    length,
    not_negative,
    read_value,
    read_values,
    within,
)
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
            "here: sizes.a.size is a list of length 0; it must be a whole number.",
        ),
        (
            {"parts": [{"size": 1, "shape": 2}]},
            "here: there is no field `parts[0].shape`; did you mean `share`?",
        ),
        ({"dimm": 3}, "here: there is no field `dimm`; did you mean `dim`?"),
        ({"zzz": 3}, "here: there is no field `zzz`. Choose from: count, dim, parts, precision,"),
        ({"dim": 7}, "dim must not be 7."),
        ({"dim": 8}, "here: dim must not be 8."),
        ([1], "here: it is a list of length 1, not an object."),
        ({"count": 10**200}, "here: count is a number of 665 bits; it must be a whole number from 0 to"),
    ],
)
def test_a_refusal_names_field_value_and_expectation(values: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_values(values, Outer, "here")
    assert str(caught.value).startswith(message)


def test_a_schema_refers_to_those_of_its_parts() -> None:
    schemas = json_schemas([Outer], "#/parts/{name}")
    assert set(schemas) == {"Outer", "Inner"}
    assert schemas["Outer"]["properties"]["parts"]["items"] == {"$ref": "#/parts/Inner"}
    assert schemas["Inner"]["required"] == ["size"]


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


def test_an_empty_file_is_not_called_truncated() -> None:
    problems = []
    for raw in (b"", b"{"):
        with refused(MalformedFile, file="a file") as caught:
            parse_json(raw, "a file")
        problems.append("truncated" in caught.value.facts["problem"])
    assert problems == [False, True]


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


# --- kinds inside kinds ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kinds:
    pair: tuple[int, str] = (0, "")
    many: list[float] = field(default_factory=list)
    one_of: int | str | None = None
    inner: Inner | None = None
    named: dict[str, int] = field(default_factory=dict)
    short: Annotated[str, length(1, 3)] = "a"
    few: Annotated[tuple[int, ...], length(0, 2)] = ()
    share: Annotated[float, not_negative()] = 0.0
    least: Annotated[int, "not a range", Meta(ge=2)] = 2
    most: Annotated[int, Meta(le=9)] = 9
    made: int = field(default=0, init=False)


@pytest.mark.parametrize(
    "values",
    [
        {"pair": [1, "a"]}, {"many": [1, 2.5]}, {"one_of": 1}, {"one_of": "a"}, {"one_of": None}, {"inner": {"size": 1}},
        {"inner": None}, {"named": {"a": 1}}, {"short": "abc"}, {"few": [1, 2]}, {"share": 0}, {"least": 2}, {"most": 9}, {},
    ],
)  # fmt: skip
def test_every_kind_is_read(values: dict[str, Any]) -> None:
    found = read_values(values, Kinds, "here")
    for name, value in values.items():
        wanted = Inner(1) if value == {"size": 1} else tuple(value) if name in ("pair", "few") else value
        assert getattr(found, name) == wanted


@pytest.mark.parametrize(
    ("values", "path", "expected"),
    [
        ({"pair": ["a", "a"]}, 'pair[0] is "a"', "a whole number"),
        ({"pair": [1, 2]}, "pair[1] is 2", "a text"),
        ({"pair": [1, "a", 2]}, "pair is a list of length 3", "a list"),
        ({"many": [1, "b"]}, 'many[1] is "b"', "a number"),
        ({"many": {}}, "many is an object of size 0", "a list, each item a number"),
        ({"one_of": 2.5}, "one_of is 2.5", "a whole number or a text or null"),
        ({"inner": 3}, "inner is 3", "an object or null"),
        ({"inner": {}}, "inner.size is missing", "a whole number"),
        ({"inner": {"size": True}}, "inner.size is true", "a whole number"),
        ({"named": {"a": 1, "b": "c"}}, 'named.b is "c"', "a whole number"),
        ({"short": ""}, 'short is ""', "a text of 1 to 3 characters"),
        ({"short": "abcd"}, 'short is "abcd"', "a text of 1 to 3 characters"),
        ({"few": [1, 2, 3]}, "few is a list of length 3", "a list of 0 to 2 items, each item a whole number"),
        ({"few": [1, "a"]}, 'few[1] is "a"', "a whole number"),
        ({"share": -1}, "share is -1", "a number, not negative"),
        ({"least": 1}, "least is 1", "a whole number from 2"),
        ({"most": 10}, "most is 10", "a whole number to 9"),
    ],
)
def test_a_refusal_says_where_and_what_was_expected(values: dict[str, Any], path: str, expected: str) -> None:
    with refused(UsageError) as caught:
        read_values(values, Kinds, "here")
    problem = str(caught.value.facts["problem"])
    assert problem.startswith(path)
    assert expected in problem


def test_one_value_is_refused_by_the_path_that_was_given() -> None:
    assert read_value(3, int, "here", "n") == 3
    for value, kind, path in (
        ("3", int, 'n is "3"'),
        ({"size": "x"}, Inner, 'n.size is "x"'),
        (4, Inner, "n is 4"),
        ({"dim": 8}, Outer, "n: "),
    ):
        with refused(UsageError) as caught:
            read_value(value, kind, "here", "n")
        assert str(caught.value.facts["problem"]).startswith(path)


def test_an_unknown_name_gets_the_nearest_known_one() -> None:
    with refused(UsageError) as caught:
        read_values({"inner": {"size": 1, "shar": 2}}, Kinds, "here", noun="option")
    problem = str(caught.value.facts["problem"])
    assert "option `inner.shar`" in problem
    assert "`share`" in problem
    with refused(UsageError) as caught:
        read_values({"zzzzz": 1}, Kinds, "here")
    problem = str(caught.value.facts["problem"])
    assert "?" not in problem
    assert all(name in problem for name in ("many", "pair", "short"))
    with refused(UsageError, "problem"):  # what the reader makes itself is not read
        read_values({"made": 1}, Kinds, "here")
    assert "`" in describe_unknown("field", "a", ())
    assert "[]" not in describe_unknown("field", "a", ())


def test_names_inside_lists_and_mappings_are_known_too() -> None:
    for values in (
        {"parts": [{"size": 1}, {"size": 1, "more": 2}]},
        {"sizes": {"a": {"size": 1, "more": 2}}},
    ):
        with refused(UsageError) as caught:
            read_values(values, Outer, "here")
        assert "more`" in str(caught.value.facts["problem"])
        read_values(values, Outer, "here", ignore_unknown=True)
