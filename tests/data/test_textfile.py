"""Files of text in other encodings and with other delimiters, and what is said of those that are not what they should be."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from byheart.data.dataset import Dataset
from byheart.data.piece_reader import read_pieces
from byheart.data.textfile import ENCODINGS, TextFormat
from byheart.errors import MalformedFile, UsageError
from tests.refusal import refused

TABLE = "key;value\nZürich;8001\nGenève;1201\n"


def write(tmp_path: Path, encoding: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(TABLE.encode(encoding))
    return path


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf8", "utf-16", "UTF-16-LE", "cp1252", "latin-1"]
)
def test_a_table_is_the_same_in_any_encoding(encoding: str, tmp_path: Path) -> None:
    plain = Dataset.from_pairs([("Zürich", "8001"), ("Genève", "1201")])
    data = Dataset.read(write(tmp_path, encoding), delimiter=";", encoding=encoding)
    assert data.digest == plain.digest
    assert data.source is not None
    assert (data.source.delimiter, data.source.encoding) == (";", encoding)


def test_documents_and_json_lines_have_encodings_too(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes("über Zürich\n".encode("cp1252"))
    assert Dataset.read(path, encoding="cp1252").tokenizer.vocabulary == ("Zürich", "über")
    lines = tmp_path / "t.jsonl"
    lines.write_bytes('{"key": "ü", "value": "1"}\n'.encode("utf-16"))
    assert Dataset.read(lines, encoding="utf-16").n_samples == 1


@pytest.mark.parametrize("typed", ["\t", "tab", "\\t"])
def test_a_tab_can_be_typed(typed: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("key\tvalue\na\t1\nb\t2\n")
    assert Dataset.read(path, delimiter=typed).n_samples == 2
    with refused(UsageError, "path", "columns", column="key"):
        Dataset.read(path)


@pytest.mark.parametrize("delimiter", ["", "ab", '"', "\n", "\r", "\0"])
def test_what_is_not_a_delimiter_is_refused(delimiter: str) -> None:
    with refused(UsageError, "delimiter"):
        TextFormat(delimiter=delimiter)


ESCAPING = ["unicode_escape", "raw_unicode_escape", "utf-7", "punycode", "idna", "hz", "iso2022_jp"]


@pytest.mark.parametrize("encoding", ["latn-1", "zlib", "rot13", "", "a\0b", "ü", "cp037", *ESCAPING])
def test_what_is_not_an_encoding_is_refused(encoding: str) -> None:
    with refused(UsageError, "encoding"):
        TextFormat(encoding)


def test_no_other_character_contains_a_mark_of_a_table() -> None:
    """Read with `unicode_escape`, a table of four rows had three: `\\u0022` became a quotation mark around a row break."""
    of_bytes = {name for name in ENCODINGS if not name.startswith(("utf-16", "utf-32"))}
    assert len(of_bytes) > 30
    for encoding in of_bytes:
        assert bytes(range(128)).decode(encoding) == "".join(map(chr, range(128)))
        for first in range(128, 256):
            for mark in b'"\n\r,;\t':
                with suppress(UnicodeDecodeError):
                    read = bytes([first, mark]).decode(encoding)
                    assert read[1:] == chr(mark), (encoding, first, mark)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("cp1252", "utf-8"),
        ("utf-16", "utf-8"),
        ("latin-1", "ascii"),
        ("utf-16-le", "latin-1"),
    ],
)
def test_another_encoding_is_noticed(written: str, told: str, tmp_path: Path) -> None:
    with refused(MalformedFile, "path", "line", "offset"):
        Dataset.read(write(tmp_path, written), delimiter=";", encoding=told)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("t.jsonl", {"delimiter": ";"}),
        ("t.npz", {"encoding": "cp1252"}),
        ("t.parquet", {"encoding": "cp1252"}),
    ],
)
def test_what_a_file_does_not_have_is_refused(name: str, options: dict[str, str], tmp_path: Path) -> None:
    with refused(UsageError, "path"):
        Dataset.read(write(tmp_path, "utf-8", name), **options)


@pytest.mark.parametrize("name", ["a" * 300 + ".csv", "loop.csv", "nul\0.csv", "file.csv/below.csv"])
def test_paths_that_lead_nowhere_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    (tmp_path / "file.csv").touch()
    with refused(UsageError, "path"):
        Dataset.read(tmp_path / name)


@pytest.mark.parametrize(("encoding", "offset"), [("latin-1", 16), ("utf-16", 34), ("utf-16-le", 32)])
def test_a_nul_character_is_named_by_its_place(tmp_path: Path, encoding: str, offset: int) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("key,value\na,b\nc,\0d\n".encode(encoding))
    with refused(MalformedFile, line=3, offset=offset):
        Dataset.read(path, encoding=encoding)


@pytest.mark.parametrize("name", ["t.xlsx", "t.csv", "t.tsv", "t.jsonl", "t.parquet", "t.txt", "t.xls"])
@pytest.mark.parametrize("begins", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0"])
def test_a_spreadsheet_is_refused_whatever_its_name(tmp_path: Path, name: str, begins: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(begins + bytes(600))
    with refused(MalformedFile, path=str(path)) as caught:
        Dataset.read(path)
    assert set(caught.value.facts) == {"path"}  # no line and no byte to remove


def test_a_spreadsheet_is_refused_in_pieces_too(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"PK\x03\x04" + bytes(600))
    with refused(MalformedFile, path=str(path)) as caught:
        next(read_pieces(path, 0))
    assert set(caught.value.facts) == {"path"}
