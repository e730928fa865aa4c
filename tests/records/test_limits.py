"""What lies exactly at a limit is taken; one more is refused."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from math import nextafter
from pathlib import Path

import pytest

from byheart.errors import CorruptModel, MalformedFile
from byheart.records.fields import Fields
from byheart.records.json_file import MAX_CONTAINERS, MAX_DEPTH, parse_json, read_bytes, read_json, show_value
from byheart.records.reader import read_known
from byheart.records.refusals import corrupt
from tests.refusal import refused


@pytest.mark.parametrize("is_taken", [True, False])
def test_as_many_lists_and_objects_as_are_allowed(is_taken: bool) -> None:
    n_containers = 2**20 if is_taken else 2**20 + 1
    raw = b"[" + b",".join([b"[]"] * (n_containers - 1)) + b"]"
    if is_taken:
        assert len(parse_json(raw, "here")) == n_containers - 1
    else:
        with pytest.raises(MalformedFile):
            parse_json(raw, "here")


def test_objects_count_as_lists_do() -> None:
    with refused(MalformedFile, "problem", file="here"):
        parse_json(b"[" + b"{}," * MAX_CONTAINERS + b"0]", "here")


def test_as_deep_as_is_allowed() -> None:
    assert MAX_DEPTH == 32
    assert parse_json(b"[" * 32 + b"]" * 32, "here")
    with refused(MalformedFile, "problem"):
        parse_json(b'{"a":' * 33 + b"1" + b"}" * 33, "here")


def test_only_a_file_that_ends_too_early_may_be_cut_short() -> None:
    problems = []
    for raw in (b'{"a": 1', b'{"a": 1  ', b'{"a" 1}'):
        with pytest.raises(MalformedFile) as caught:
            parse_json(raw, "here")
        problems.append(str(caught.value.facts["problem"]))
    assert ["truncated" in problem for problem in problems] == [True, True, False]


def test_a_document_may_have_256_mebibytes(tmp_path: Path) -> None:
    path = tmp_path / "document"
    with path.open("wb") as file:
        file.truncate(2**28)  # a sparse file, which takes no disk
    assert len(read_bytes(path)) == 2**28
    with path.open("r+b") as file:
        file.truncate(2**28 + 1)
    with refused(MalformedFile, "problem", file=str(path)):
        read_bytes(path)


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    memory = Path("/proc/self/mem")
    if not memory.exists():
        pytest.skip("needs a file whose first byte cannot be read, such as Linux has")
    (tmp_path / "document").symlink_to(memory)
    with refused(MalformedFile, "problem", file=str(tmp_path / "document")):
        read_json(tmp_path / "document")


def test_the_key_that_appears_twice_is_named() -> None:
    for raw in (b'{"first": 1, "twice": 1, "twice": 2}', b'{"twice": 1, "last": 1, "twice": 2}'):
        with refused(MalformedFile) as caught:
            parse_json(raw, "here")
        assert "'twice'" in str(caught.value.facts["problem"])


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [("\\ud7ff", True), ("\\ud800", False), ("\\udfff", False), ("\\ue000", True), ("é", True), ("\\ud83d\\ude00", True)],
)  # fmt: skip
def test_half_a_surrogate_pair_is_refused_as_text_and_as_key(text: str, is_taken: bool) -> None:
    for document in (f'"{text}"', f'{{"{text}": 1}}', f'[1, {{"a": ["{text}"]}}]'):
        if is_taken:
            parse_json(document.encode(), "here")
        else:
            with refused(MalformedFile, "problem"):
                parse_json(document.encode(), "here")


@pytest.mark.parametrize("raw", [b"Infinity", b"-Infinity", b"NaN", b"1e400", b"-1e400"])
def test_no_number_is_beyond_floats(raw: bytes) -> None:
    with refused(MalformedFile, "problem"):
        parse_json(b"[" + raw + b"]", "here")
    assert parse_json(b"[1e300, -2.5]", "here") == [1e300, -2.5]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 58, '"' + "x" * 58 + '"'),
        ("x" * 59, '"' + "x" * 56 + "..."),
        ("é", '"é"'),
        (2**128 - 1, str(2**128 - 1)),
        (2**128, "a number of 129 bits"),
        (True, "true"),
        (None, "null"),
        ({"a": 1, "b": 2}, "an object of size 2"),
        ([1, 2, 3], "a list of length 3"),
        ((1,), "a list of length 1"),
        (1j, '"1j"'),
    ],
)
def test_values_are_shown_as_they_were_written_and_never_at_length(value: object, shown: str) -> None:
    assert show_value(value) == shown


# --- fields of a document -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    count: int
    share: float = 0.5
    parts: tuple[dict[str, int], ...] = ()
    names: list[str] = field(default_factory=list)
    made: int = field(default=7, init=False)


@pytest.mark.parametrize("value", [0, 2**53])
def test_whole_numbers_are_exact_as_floats(value: int) -> None:
    assert Fields({"n": value}, "here").integer("n") == value
    with refused(CorruptModel, "problem", file="here"):
        Fields({"n": value + (1 if value else -1)}, "here").integer("n")


def test_numbers_are_not_negative_and_far_from_infinite() -> None:
    for value in (0, 0.5, 2500.5, 2.0**1000):
        assert Fields({"x": value}, "here").number("x") == value
    for value in (-0.5, -1e-300, nextafter(2.0**1000, 2.0**1001), True, "1"):
        with refused(CorruptModel, "problem", file="here"):
            Fields({"x": value}, "here").number("x")


@pytest.mark.parametrize("value", [0, 2**62, 2.0**62])
def test_a_saved_number_is_a_count_or_a_share(value: float) -> None:
    document = {"count": 1, "share": value, "of a later version": -1}
    assert read_known(document, Counted, "here", {}, refuse=corrupt) == Counted(1, value)
    beyond = -1 if value == 0 else nextafter(value, 2.0**63) if isinstance(value, float) else value + 1
    for changed in ({"share": beyond}, {"parts": [{"a": 1}, {"b": beyond}]}):
        with refused(CorruptModel, "problem", file="here"):
            read_known({**document, **changed}, Counted, "here", {}, refuse=corrupt)


def test_what_is_known_is_taken_and_what_is_missing_refused() -> None:
    assert read_known({"count": -5}, Counted, "here", {"count": 3}) == Counted(3)
    assert read_known({"count": 3, "made": 9, "names": ["a"]}, Counted, "here", {}) == Counted(3, names=["a"])
    with refused(CorruptModel, file="here") as caught:
        read_known({"share": 0.5}, Counted, "here", {}, refuse=corrupt)
    assert "count" in str(caught.value.facts["problem"])


def test_a_field_is_read_as_its_kind_and_refused_by_its_path() -> None:
    found = Fields(
        {"size": {"n": 3, "on": True, "x": None, "list": [{"a": 1}, {"a": "b"}]}, "t": ["a"]}, "here"
    )
    size = found.child("size")
    assert (size.integer("n"), size.boolean("on"), size.has("n"), size.has("x"), size.has("y")) == (
        3,
        True,
        True,
        False,
        False,
    )
    assert [item.values for item in size.children("list")] == [{"a": 1}, {"a": "b"}]
    assert found.texts("t") == ("a",)
    for read, path in (
        (lambda: size.text("missing"), "size.missing is missing"),
        (lambda: size.text("n"), "size.n is 3"),
        (lambda: size.text("n", ("a", "b")), "size.n is 3"),
        (lambda: found.text("t"), "t is a list"),
        (lambda: found.child("t"), "t is a list"),
        (lambda: found.child("gone"), "gone is missing"),
        (lambda: list(size.children("n")), "size.n is 3"),
        (lambda: list(size.children("list"))[1].integer("a"), 'size.list[1].a is "b"'),
        (lambda: size.integers("list", 0, 1), "size.list"),
        (lambda: size.boolean("n"), "size.n is 3"),
        (lambda: Fields([1], "here", "size"), "size is a list"),
    ):
        with refused(CorruptModel, file="here") as caught:
            read()
        assert str(caught.value.facts["problem"]).startswith(path)
    assert Fields({"t": "b"}, "here").text("t", ("a", "b")) == "b"
    assert Fields({"t": [1, 2]}, "here").integers("t", 1, 2) == (1, 2)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with refused(MalformedFile, "problem", file=str(tmp_path / "pipe")):
        read_bytes(tmp_path / "pipe")
