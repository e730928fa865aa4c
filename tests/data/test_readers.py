from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from byheart.data import CharTokenizer, Dataset
from byheart.data.tables import column_names
from byheart.errors import (
    ByheartError,
    ConflictingLabels,
    DataError,
    ExitStatus,
    MalformedFile,
    MissingExtra,
    UnknownToken,
    UsageError,
)
from tests.examples import examples
from tests.refusal import refused

pyarrow = pytest.importorskip("pyarrow", reason="needs the `parquet` extra")
Writer = Callable[[Path, list[tuple[str, str]]], None]
CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6)


def write_csv(path: Path, rows: list[tuple[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("key", "value"), *rows])


def write_jsonl(path: Path, rows: list[tuple[str, str]]) -> None:
    lines = [json.dumps({"key": key, "value": value}) for key, value in rows]
    path.write_text("\n".join(lines), encoding="utf-8")


def write_parquet(path: Path, rows: list[tuple[str, str]]) -> None:
    from pyarrow import parquet

    table = {"key": [key for key, _ in rows], "value": [value for _, value in rows]}
    parquet.write_table(pyarrow.table(table), path)


def status_of_reading(path: Path) -> ExitStatus:
    """What reading says to the shell; anything but our own errors is let through."""
    try:
        Dataset.read(path)
    except ByheartError as error:
        return error.exit_status
    return ExitStatus.HOLDS


def texts_of(data: Dataset) -> list[str]:
    assert data.tokenizer is not None
    return [data.tokenizer.decode(data.inputs[i].tolist()) for i in range(data.n_samples)]


def labels_of(data: Dataset) -> list[str]:
    return [data.label_names[c] for c in data.labels]


@pytest.mark.parametrize(
    ("suffix", "write"), [("csv", write_csv), ("jsonl", write_jsonl), ("parquet", write_parquet)]
)
@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_what_is_written_is_read_exactly(
    tmp_path: Path, suffix: str, write: Writer, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path / f"table.{suffix}"
    write(path, rows)
    data = Dataset.read(path, on_conflict="keep")
    assert texts_of(data) == [key for key, _ in rows]
    assert labels_of(data) == [value for _, value in rows]
    assert data.label_names == tuple(sorted({value for _, value in rows}))
    assert data.digest == Dataset.from_pairs(rows, on_conflict="keep").digest


def test_all_formats_give_the_same_data_set(tmp_path: Path) -> None:
    rows = [("capital of Namibia", "NA"), ("nan", "null"), ("7", "1.0"), ('say "hi"', "")]
    write_csv(tmp_path / "a.csv", rows)
    (tmp_path / "a.tsv").write_text(
        "key\tvalue\n" + "".join(f"{k}\t{v}\n" for k, v in rows), encoding="utf-8"
    )
    write_jsonl(tmp_path / "a.jsonl", rows)
    write_parquet(tmp_path / "a.parquet", rows)
    readers = [Dataset.from_csv, Dataset.from_tsv, Dataset.from_jsonl, Dataset.from_parquet]
    paths = [tmp_path / f"a.{suffix}" for suffix in ("csv", "tsv", "jsonl", "parquet")]
    sets = [read(path, empty_labels="keep") for read, path in zip(readers, paths, strict=True)]
    assert len({data.digest for data in sets}) == 1
    assert labels_of(sets[0]) == ["NA", "null", "1.0", ""]
    assert Dataset.read(str(paths[0]), empty_labels="keep").digest == sets[0].digest


def test_columns_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,question,answer\n1,a,x\n2,b,y\n", encoding="utf-8")
    data = Dataset.read(path, input="question", label="answer")
    assert texts_of(data) == ["a", "b"]
    assert labels_of(data) == ["x", "y"]
    with refused(UsageError, "path", "columns", column="key") as raised:
        Dataset.read(path)
    assert raised.value.exit_status == ExitStatus.USAGE
    assert raised.value.facts["columns"] == ["id", "question", "answer"]
    with refused(UsageError, column="id"):
        Dataset.read(path, input="id", label="id")
    path.write_text("key,value,key\na,b,c\n", encoding="utf-8")
    with refused(UsageError, "path", "columns", column="key"):
        Dataset.read(path)


def test_a_byte_order_mark_blank_lines_and_old_line_ends_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for end in ("\n", "\r\n", "\r"):
        path.write_bytes(b"\xef\xbb\xbf" + f"key,value{end}{end}a,x{end}{end}é,y{end}{end}".encode())
        assert texts_of(Dataset.read(path)) == ["a", "é"]
    lines = tmp_path / "t.jsonl"
    lines.write_bytes(b'\xef\xbb\xbf{"key": "a", "value": "x"}\r\n\r\n{"key": "b", "value": "y"}\r\n')
    assert texts_of(Dataset.read(lines)) == ["a", "b"]


def test_a_field_may_hold_separators_quotes_and_new_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('key,value\n"a,""b""\nc\u2028",x\nd,y,z\n', encoding="utf-8")
    with refused(MalformedFile, "path", line=4):
        Dataset.read(path)
    path.write_text('key,value\n"a,""b""\nc\u2028",x\n', encoding="utf-8")
    assert texts_of(Dataset.read(path)) == ['a,"b"\nc\u2028']


BROKEN: dict[str, tuple[bytes, dict[str, object]]] = {
    "empty.csv": (b"", {}),
    "blank.csv": (b" \n\n", {}),
    "mark.csv": (b"\xef\xbb\xbf", {}),
    "header.csv": (b"key,value\n", {}),
    "header.tsv": (b"key\tvalue\n", {}),
    "nul.csv": (b"key,value\na,x\nb\0,y\n", {"line": 3, "offset": 15}),
    "nul.jsonl": (b'{"key": "a\0"}', {"line": 1, "offset": 10}),
    "latin.csv": (b"key,value\ncaf\xe9,x\n", {"line": 2, "offset": 13}),
    "mixed.csv": (
        "key,value\né,x\n".encode() + b"\xe9,y\n",
        {"line": 3, "offset": 15},
    ),
    "mark-then-latin.csv": (b"\xef\xbb\xbfkey,value\n\xe9,x\n", {"line": 2, "offset": 13}),
    "utf16.csv": ("key,value\na,x\n".encode("utf-16"), {"line": 1, "offset": 0}),
    "few.csv": (b"key,value\na,x\nb\n", {"line": 3}),
    "many.csv": (b"key,value\na,x,z\n", {"line": 2}),
    "few.tsv": (b"key\tvalue\na\n", {"line": 2}),
    "open.csv": (b'key,value\na,x\n"b,y\nc,z\n', {"line": 3}),
    "stray.csv": (b'key,value\n"a"b,x\n', {"line": 2}),
    "cut.jsonl": (b'{"key": "a", "value": "x"}\n{"key": "b", "val', {"line": 2}),
    "list.jsonl": (b"[1, 2]\n", {"line": 1}),
    "digits.jsonl": (b'{"key": ' + b"9" * 5000 + b"}", {"line": 1}),
    "deep.jsonl": (b'{"key": ' + b"[" * 100_000, {"line": 1}),
    "nothing.jsonl": (b'{}\n{"key": "a", "value": "x"}', {"line": 1}),
    "missing.jsonl": (b'{"key": "a", "value": "x"}\n\n{"key": "b"}', {"line": 3}),
    "null.jsonl": (b'{"key": "a", "value": null}', {"row": 1}),
    "object.jsonl": (b'{"key": {"a": 1}, "value": "x"}', {"row": 1}),
    "labels.jsonl": (
        b'{"key": "a", "value": "x"}\n{"key": "b", "value": ["y"]}',
        {"row": 2},
    ),
    "count.jsonl": (b'{"key": "ab", "value": ["x"]}', {"row": 1, "n_labels": 1, "n_tokens": 2}),
    "half.jsonl": (b'{"key": "\\ud800", "value": "x"}', {"text": "\ud800"}),
    "ids.jsonl": (b'{"key": [0, -2], "value": "x"}', {"sample": 0, "position": 1, "token": -2, "n_vocab": 1}),
    "blank-key.csv": (b"key,value\na,x\n,y\n", {"row": 2}),
    "empty.txt": (b"\n \n", {}),
    "empty.parquet": (b"", {}),
    "noise.parquet": (b"PAR1 and nothing else", {}),
    "empty.npz": (b"", {}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_with_file_place_and_reason(tmp_path: Path, name: str) -> None:
    content, facts = BROKEN[name]
    path = tmp_path / name
    path.write_bytes(content)
    with refused(DataError, path=str(path), **facts) as raised:
        Dataset.read(path)
    assert raised.value.exit_status == ExitStatus.OUTSIDE
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_a_malformed_row_names_the_file_once(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text("key,value\na,b\nc\n", encoding="utf-8")
    with refused(MalformedFile, path=str(path), line=3) as raised:
        Dataset.read(path)
    assert str(raised.value).count(str(path)) == 1


def test_an_empty_object_is_a_malformed_row_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{}\n{"key": "a", "value": "x"}\n{}\n', encoding="utf-8")
    assert labels_of(Dataset.read(path, malformed_rows="drop")) == ["x"]


def test_a_missing_key_in_the_first_line_lists_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"premise": "a", "label": 1}\n', encoding="utf-8")
    with refused(UsageError, "path", "columns", column="key"):
        Dataset.read(path)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet", "npz", "txt"])
def test_paths_that_are_no_file_are_wrong_usage(tmp_path: Path, suffix: str) -> None:
    with refused(UsageError, "path"):
        Dataset.read(tmp_path / f"absent.{suffix}")
    folder = tmp_path / f"folder.{suffix}"
    folder.mkdir()
    with refused(UsageError, "path"):
        Dataset.read(folder)


def test_suffixes_choose_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "table.xlsx"
    path.write_text("key,value\na,x\n", encoding="utf-8")
    with refused(UsageError, "path"):
        Dataset.read(path)
    assert Dataset.from_csv(path).n_samples == 1
    upper = tmp_path / "TABLE.CSV"
    upper.write_text("key,value\na,x\n", encoding="utf-8")
    assert Dataset.read(upper).n_samples == 1


def test_a_cut_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_parquet(path, [("a", "x")] * 50)
    whole = path.read_bytes()
    for size in (4, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with refused(MalformedFile, "path"):
            Dataset.read(path)


def test_parquet_columns_nulls_numbers_and_lists(tmp_path: Path) -> None:
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"key": [[0, 1], [2]], "value": [10, 9]}), path)
    data = Dataset.read(path)
    assert data.lengths.tolist() == [2, 1]
    assert labels_of(data) == ["10", "9"]
    with refused(UsageError, "path", "columns", column="text"):
        Dataset.read(path, input="text")
    parquet.write_table(pyarrow.table({}), path)
    with refused(UsageError, "path", column="key", columns=[]) as raised:
        Dataset.read(path)
    assert "it has no columns" in str(raised.value)
    parquet.write_table(pyarrow.table({"key": ["a", None], "value": ["x", "y"]}), path)
    with refused(DataError, "path", row=2):
        Dataset.read(path)
    parquet.write_table(pyarrow.table({"key": ["ab"], "value": ["x"]}), path, use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"ab", b"a\xff"))
    with refused(MalformedFile, "path"):
        Dataset.read(path)
    parquet.write_table(pyarrow.table({"key": [b"a"], "value": ["x"]}), path)
    with refused(DataError, "path", row=1):
        Dataset.read(path)


def test_without_the_extra_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    write_parquet(path, [("a", "x")])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with refused(MissingExtra, package="pyarrow", extra="parquet", purpose="reading Parquet files"):
        Dataset.read(path)


def test_json_labels_are_text_and_lists_mean_one_label_a_token(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [
        {"key": "a", "value": 10},
        {"key": "b", "value": True},
        {"key": 3, "value": 9},
        {"key": "d", "value": 0.5},
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    data = Dataset.read(path)
    assert labels_of(data) == ["10", "true", "9", "0.5"]
    assert data.label_names == ("0.5", "10", "9", "true")
    assert texts_of(data) == ["a", "b", "3", "d"]
    path.write_text(
        '{"key": "ab", "value": ["x", 1]}\n{"key": [0, 1], "value": ["x", "y"]}', encoding="utf-8"
    )
    with refused(DataError, "value", "path", row=2):
        Dataset.read(path)
    path.write_text('{"key": "ab", "value": ["x", 1]}\n{"key": "b", "value": "y"}', encoding="utf-8")
    data = Dataset.read(path)
    assert data.task == "seq-to-seq"
    assert labels_of(data) == ["x", "1", "y"]


def test_text_tables_of_one_label_a_token(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("key,value\nthe cat,DET N\nsit,V\n", encoding="utf-8")
    data = Dataset.read(path, task="seq-to-seq", tokenizer="word")
    assert labels_of(data) == ["DET", "N", "V"]
    assert Dataset.read(path, task="set").ordered is False


def test_conflicts_and_unknown_tokens_name_file_and_row(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("key,value\na,x\nb,y\n\na,z\n", encoding="utf-8")
    with refused(ConflictingLabels, "rows", "samples", "labels", "path", n_conflicts=1) as raised:
        Dataset.read(path)
    assert raised.value.facts["rows"] == (1, 3)
    assert labels_of(Dataset.read(path, on_conflict="last")) == ["y", "z"]
    with refused(UnknownToken, "path", token="b", text="b", row=2):
        Dataset.read(path, tokenizer=CharTokenizer(("a",)))


def test_reading_again_with_a_models_tokenizer_and_label_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("key,value\nab,x\nb,y\n", encoding="utf-8")
    first = Dataset.read(path)
    again = Dataset.read(path, tokenizer=first.tokenizer, label_names=first.label_names)
    assert again.digest == first.digest
    path.write_text("key,value\nab,w\nb,y\n", encoding="utf-8")
    tampered = Dataset.read(path, tokenizer=first.tokenizer, label_names=first.label_names)
    assert tampered.label_names == ("x", "y", "w")
    assert tampered.labels.tolist() == [2, 1]
    assert tampered.digest != first.digest


def test_documents_of_every_kind(tmp_path: Path) -> None:
    stories = ["the cat", "the dog sat"]
    paths = [tmp_path / f"d.{suffix}" for suffix in ("txt", "jsonl", "csv", "tsv", "parquet")]
    paths[0].write_bytes("\r\n\r\n".join(stories).encode() + b"\n")
    paths[1].write_text(
        "\n".join(json.dumps({"text": text, "whole": True}) for text in stories), encoding="utf-8"
    )
    paths[2].write_text("text\n" + "\n".join(stories), encoding="utf-8")
    paths[3].write_text("text\tn\n" + "".join(f"{text}\t1\n" for text in stories), encoding="utf-8")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": stories}), paths[4])
    digests = {Dataset.read(path, task="distribution").digest for path in paths}
    digests |= {Dataset.read(path).digest for path in paths[:2]}  # these two are taken for documents
    digests |= {Dataset.from_documents(path).digest for path in paths}
    digests.add(Dataset.from_documents(stories).digest)
    assert len(digests) == 1
    by_letter = Dataset.read(paths[0], tokenizer="char")
    assert by_letter.task == "distribution"
    assert by_letter.seq_len == 11
    paths[1].write_text('{"story": "a b"}', encoding="utf-8")
    assert Dataset.from_documents(paths[1], input="story").n_labels == 1


def test_requests_that_do_not_fit_documents_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.txt"
    path.write_text("a b\n", encoding="utf-8")
    with refused(UsageError, "path"):
        Dataset.read(path, task="set")
    arrays = tmp_path / "d.npz"
    np.savez(arrays, inputs=np.zeros((1, 1), dtype=int), labels=np.zeros(1, dtype=int))
    with refused(UsageError, "path"):
        Dataset.read(arrays, task="distribution")
    lines = tmp_path / "d.jsonl"
    lines.write_text('{"text": 5}', encoding="utf-8")
    with refused(DataError, "path", row=1, value=5):
        Dataset.read(lines)


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=60), suffix=st.sampled_from(["csv", "tsv", "jsonl", "parquet", "npz", "txt"])
)
def test_no_file_makes_anything_but_a_clear_error(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"noise.{suffix}"
    path.write_bytes(content)
    assert status_of_reading(path) in (ExitStatus.HOLDS, ExitStatus.USAGE, ExitStatus.OUTSIDE)


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.integers(0, 10**6),
    byte=st.integers(0, 255),
    suffix=st.sampled_from(["csv", "jsonl", "parquet", "npz"]),
)
def test_no_changed_byte_makes_anything_but_a_clear_error(
    tmp_path: Path, place: int, byte: int, suffix: str
) -> None:
    path = tmp_path / f"whole.{suffix}"
    rows = [("a", "x"), ("b", "y")]
    if suffix == "npz":
        buffer = io.BytesIO()
        np.savez_compressed(buffer, inputs=np.arange(6.0).reshape(2, 3, 1), labels=np.arange(2))
        content = bytearray(buffer.getvalue())
    else:
        {"csv": write_csv, "jsonl": write_jsonl, "parquet": write_parquet}[suffix](path, rows)
        content = bytearray(path.read_bytes())
    content[place % len(content)] = byte
    path.write_bytes(content)
    assert status_of_reading(path) in (ExitStatus.HOLDS, ExitStatus.USAGE, ExitStatus.OUTSIDE)


def test_a_repeated_key_is_a_malformed_row(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"key":"a","value":"1"}\n{"key":"b","value":"1","value":"2"}\n')
    with refused(MalformedFile, path=str(path), line=2):
        Dataset.read(path)
    data = Dataset.read(path, malformed_rows="drop")
    assert (data.n_samples, data.left_out) == (1, {"malformed_rows=drop": 1})


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_one_column_cannot_be_input_and_label(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    path.write_text("key,value\na,b\n" if suffix == "csv" else '{"key":"a","value":"b"}\n')
    for columns in ({"input": "value"}, {"label": "key"}, {"input": "value", "label": "value"}):
        with refused(UsageError, "column"):
            Dataset.read(path, **columns)


def test_a_bad_header_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('\n\n"key"x,value\na,b\n')
    with refused(MalformedFile, path=str(path), line=3):
        column_names(path, "csv")
    path.write_text("\n\nkey,value\na,b\n")
    assert column_names(path, "csv") == ["key", "value"]
