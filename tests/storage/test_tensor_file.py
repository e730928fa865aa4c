"""The file of tensors: its header says exactly which bytes it holds, or it is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from byheart.errors import CorruptModel
from byheart.storage.tensor_file import MAX_HEADER_BYTES, read_header, read_tensor
from tests.refusal import refused


def header_file(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(start: int, stop: int, *shape: int, dtype: str = "U8") -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


def test_a_file_may_hold_no_tensor_and_notes(tmp_path: Path) -> None:
    assert read_header(header_file(tmp_path / "f", b"{}")) == {}
    assert read_header(header_file(tmp_path / "f", {"__metadata__": {"format": "pt"}})) == {}


def test_tensors_are_where_the_header_says(tmp_path: Path) -> None:
    header = {
        "b": entry(0, 6, 1, 2, 3),
        "empty": entry(6, 6, 0, 7),
        "a": entry(6, 14, 1, dtype="U64"),
        "one": entry(14, 15),
    }
    path = header_file(tmp_path / "f", header, bytes(range(15)))
    found = read_header(path)
    assert read_tensor(path, found["b"]).tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert read_tensor(path, found["a"]).tolist() == [int.from_bytes(bytes(range(6, 14)), "little")]
    assert (read_tensor(path, found["empty"]).shape, read_tensor(path, found["one"]).item()) == ((0, 7), 14)


@pytest.mark.parametrize(
    "header",
    [
        {"a": entry(0, 8, 8), "b": entry(9, 10, 1)},
        {"a": entry(0, 8, 8), "b": entry(7, 10, 3)},
        {"a": entry(0, 8, 8), "b": entry(8, 10, 1)},
        {"a": entry(0, 8, 8), "b": entry(8, 9, 1)},
        {"a": entry(0, 8, 8), "b": entry(8, 11, 3)},
        {"a": entry(0, 8, 8), "b": entry(10, 8, 2)},
        {"a": entry(1, 8, 7), "b": entry(8, 10, 2)},
        {"a": entry(0, 8, 2, 4), "b": entry(8, 10, 1, 1, 1, 2)},
        {"a": {**entry(0, 8, 8), "data_offsets": [0, 8, 8]}, "b": entry(8, 10, 2)},
        {"a": {**entry(0, 8, 8), "data_offsets": [8]}, "b": entry(8, 10, 2)},
        {"a": entry(0, 8, 8), "b": entry(8, 10, -2)},
        {"a": entry(0, 8, 8), "b": entry(8, 10, 2), "c": entry(0, 0, 0)["shape"]},
    ],
)
def test_a_header_that_is_not_the_file_is_refused(tmp_path: Path, header: dict[str, Any]) -> None:
    path = header_file(tmp_path / "f", header, bytes(10))
    with refused(CorruptModel, "problem"):
        read_header(path)


def test_a_header_of_a_hundred_million_bytes_is_the_longest(tmp_path: Path) -> None:
    path = header_file(tmp_path / "f", b"{" + b" " * (MAX_HEADER_BYTES - 2) + b"}")
    assert (MAX_HEADER_BYTES, read_header(path)) == (10**8, {})
    with path.open("ab") as file:
        file.write(b" ")
    with path.open("r+b") as file:
        file.write(struct.pack("<Q", MAX_HEADER_BYTES + 1))
    with refused(CorruptModel, "problem", file=str(path)):
        read_header(path)
    path.unlink()


@pytest.mark.parametrize("raw", [b"", b"\2" + bytes(6), b"\2" + bytes(7), b"\2" + bytes(7) + b"{"])
def test_a_file_without_its_whole_header_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "f").write_bytes(raw)
    with refused(CorruptModel, "problem", file=str(tmp_path / "f")):
        read_header(tmp_path / "f")


def test_a_file_that_shrinks_or_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = header_file(tmp_path / "f", {"a": entry(0, 10, 10)}, bytes(10))
    (stored,) = read_header(path).values()
    path.write_bytes(path.read_bytes()[:-1])
    with refused(CorruptModel, "problem", file=str(path)):
        read_tensor(path, stored)
    memory = Path("/proc/self/mem")
    if memory.exists():
        (tmp_path / "g").symlink_to(memory)
        with refused(CorruptModel, "problem", file=str(tmp_path / "g")):
            read_header(tmp_path / "g")
