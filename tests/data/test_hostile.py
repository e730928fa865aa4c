"""Files and ids that would take everything, or raise exceptions of other packages, are refused at once."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from byheart.data import Dataset, tokenizer_document, tokenizer_process
from byheart.data.contexts import BYTES_WRITTEN, contexts_of
from byheart.data.row_rules import LONGEST, LongRow
from byheart.data.sequences import TokenSequences
from byheart.data.tokenizers import FileTokenizer, Tokenizer
from byheart.errors import ByheartError, DataError, MalformedFile, UnknownToken, UsageError
from byheart.process.memory_limit import OverMemoryLimit, memory_limit
from tests.effort import at_most_calls
from tests.refusal import refused

PLAIN: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {
        "type": "WordLevel",
        "vocab": {"[UNK]": 0, "capital": 1, "of": 2, "Chad": 3},
        "unk_token": "[UNK]",
    },
}


def test_the_limit_is_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, n_bytes in (("", 4 * 2**30), ("1000", 1000), ("16G", 16 * 2**30), ("512 MB", 512 * 2**20)):
        monkeypatch.setenv("BYHEART_MEMORY_LIMIT", text)
        assert memory_limit() == n_bytes
    for text in ("much", "-5", "0", "1e9"):
        monkeypatch.setenv("BYHEART_MEMORY_LIMIT", text)
        with refused(UsageError, "value"):
            memory_limit()


def test_parquet_that_grows_is_refused_unread(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
    from pyarrow import parquet

    path = tmp_path / "grows.parquet"
    n_rows = 20_000_000
    column = pyarrow.array(np.zeros(n_rows, dtype=np.int64))
    parquet.write_table(pyarrow.table({"key": column, "value": column}), path)
    assert path.stat().st_size < 1_000_000
    with at_most_calls(300_000), refused(OverMemoryLimit, n_bytes=4800158596, limit=4294967296):
        Dataset.read(path)


def test_parquet_that_repeats_a_long_text_is_refused(tmp_path: Path) -> None:
    """The text is stored once, so that the sizes in the file are small."""
    pyarrow = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
    from pyarrow import parquet

    path = tmp_path / "repeats.parquet"
    rows = pyarrow.array(np.zeros(200_000, dtype=np.int32))
    column = pyarrow.DictionaryArray.from_arrays(rows, pyarrow.array(["a" * 1000]))
    parquet.write_table(pyarrow.table({"key": column, "value": column}), path)
    assert path.stat().st_size < 200_000
    with refused(MalformedFile, "path", "n_bytes") as caught:
        Dataset.read(path)
    assert caught.value.facts["n_bytes"] < 2**28


def test_times_that_python_cannot_hold_are_our_error(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
    from pyarrow import parquet

    path = tmp_path / "times.parquet"
    times = pyarrow.array([2**60], type=pyarrow.timestamp("ms"))
    parquet.write_table(pyarrow.table({"key": ["a"], "value": times}), path)
    with pytest.raises(DataError):
        Dataset.read(path)


@pytest.mark.parametrize("how", ["lzma", "header", "type"])
def test_damaged_archives_are_our_error(tmp_path: Path, how: str) -> None:
    path = tmp_path / "damaged.npz"
    header = {
        "lzma": b"\x93NUMPY\x01\x00\x46\x00"
        + b"{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }".ljust(70),
        "header": b"\x93NUMPY\x01\x00\x46\x00" + b"{'descr': '<i8', 'shape': ((((".ljust(70),
        "type": b"\x93NUMPY\x01\x00\x46\x00"
        + b"{'descr': 5, 'fortran_order': False, 'shape': (1,), }".ljust(70),
    }[how]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA if how == "lzma" else zipfile.ZIP_STORED) as archive:
        archive.writestr("inputs.npy", header + bytes(8))
        archive.writestr("labels.npy", header + bytes(8))
    if how == "lzma":
        raw = bytearray(path.read_bytes())
        raw[50:60] = b"\xff" * 10  # the stream, not the directory
        path.write_bytes(bytes(raw))
    with pytest.raises(ByheartError):
        Dataset.read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with refused(UsageError, "path"):
            Dataset.from_csv(path)


def test_long_cells_are_read(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("key,value\n" + "a" * 200_000 + ",1\n", encoding="utf-8")
    assert Dataset.read(path, max_tokens=200_000).seq_len == 200_000


@pytest.mark.parametrize("n_longer", [0, 1])
def test_a_row_of_very_many_tokens_is_memorised_on_request_only(tmp_path: Path, n_longer: int) -> None:
    """A cell of a mebibyte took half a minute and 1.3 GB to compile."""
    path, n_tokens = tmp_path / "long.csv", LONGEST + n_longer
    path.write_text(f"key,value\nb,1\n{'a' * n_tokens},2\n", encoding="utf-8")
    if n_longer:
        with refused(LongRow, row=2, n_tokens=n_tokens, most=LONGEST, path=str(path)) as raised:
            Dataset.read(path)
        (fault,) = raised.value.facts["faults"]
        assert (fault["option"], fault["remedies"]) == ("max_tokens", ["1", str(n_tokens)])
        assert [Dataset.read(path, max_tokens=int(n)).n_samples for n in fault["remedies"]] == [1, 2]
        np.savez(tmp_path / "long.npz", inputs=np.zeros((1, n_tokens), np.int8), labels=[1])
        with refused(LongRow, row=1, n_tokens=n_tokens):
            Dataset.read(tmp_path / "long.npz")
    else:
        assert Dataset.read(path).seq_len == n_tokens


def test_contexts_of_long_documents_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of one line is asked once for each of its beginnings: 64 KiB took 11 GB and a minute."""
    text = TokenSequences.of([np.arange(4097) % 2])
    contexts = contexts_of(text)
    n_written = 4096 * 4097 // 2
    with refused(DataError, document=1, n_tokens=4097, n_written=n_written):
        contexts.as_sequences()
    lines = contexts_of(TokenSequences.of([np.arange(1025) + first for first in range(0, 9225, 1025)]))
    assert lines.as_sequences().ids.size == 9 * 1024 * 1025 // 2  # more tokens, of lines of a thousand
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", "256M")
    with refused(OverMemoryLimit, n_bytes=BYTES_WRITTEN * 9 * 1024 * 1024):
        lines.as_sequences()


# Labels that are missing


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "key,value\na,1\nb,\n"),
        ("t.jsonl", '{"key": "a", "value": "1"}\n{"key": "b", "value": null}\n'),
        ("t.jsonl", '{"key": "a", "value": "1"}\n{"key": "b", "value": ""}\n'),
    ],
)
def test_a_missing_label_is_refused_unless_it_is_kept(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with refused(DataError, "path", row=2):
        Dataset.read(path)
    kept = Dataset.read(path, empty_labels="keep")
    assert kept.label_names == ("", "1")
    assert kept.source is not None
    assert kept.source.empty_labels == "keep"


# tokenizer.json


def tokenizer(**changed: Any) -> FileTokenizer:
    pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
    return FileTokenizer(json.dumps({**PLAIN, **changed}))


def test_padding_and_truncation_are_left_out() -> None:
    plain = tokenizer().encode("capital of Chad")
    assert plain == [1, 2, 3]
    padding = {
        "strategy": {"Fixed": 2**40},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[UNK]",
    }
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    changed = tokenizer(padding=padding, truncation=truncation)
    assert changed.encode("capital of Chad") == plain
    assert changed == tokenizer()
    assert Tokenizer.from_json(changed.to_json()) == changed


@pytest.mark.parametrize(
    "changed",
    [
        {"model": {**PLAIN["model"], "vocab": {"a": 0, "b": 0}}},
        {"model": {**PLAIN["model"], "vocab": {"a": -1}}},
        {"model": {**PLAIN["model"], "vocab": {"a": 2**40}}},
        {"model": {**PLAIN["model"], "vocab": 5}},
        {"model": None},
        {"added_tokens": [{"id": 0}]},
        {"added_tokens": 3},
        {"model": {"type": "Unigram", "vocab": [["a"]], "unk_id": 0}},
    ],
)
def test_a_tokenizer_is_checked_before_it_is_used(changed: dict[str, Any]) -> None:
    with refused(MalformedFile, "problem"):
        tokenizer(**changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"model": {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 2**40}},
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["x", "y"]]}},
        {
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"Regex": "("},
                "behavior": "Isolated",
                "invert": False,
            }
        },
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    ],
)
def test_what_the_package_refuses_is_our_error(changed: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        tokenizer(**changed).encode("a b")


def _growing(times: int) -> dict[str, Any]:
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
    return {"normalizer": {"type": "Sequence", "normalizers": [step] * times}}


def test_a_tokenizer_that_aborts_ends_a_child_and_not_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `a` becomes 10^12 of them: the package runs out of memory, which ends its process."""
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", "64M")
    monkeypatch.setattr(tokenizer_process, "_ROOM", 2**28)
    monkeypatch.setattr(tokenizer_document, "MOST_GROWTH", 10**15)  # which would refuse these rules unread
    growing = tokenizer(**_growing(4))
    with refused(MalformedFile, exit_status=-6):
        growing.encode("a")
    assert growing.encode("of") == [2]  # another child took its place


def test_a_tokenizer_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_process, "SECONDS", 1.0)
    monkeypatch.setattr(tokenizer_document, "MOST_GROWTH", 10**15)
    slow = tokenizer(**_growing(3))
    with refused(MalformedFile, exit_status=-9):
        slow.encode("a")


def test_a_tokenizer_can_be_copied_and_forked() -> None:
    made = tokenizer()
    assert pickle.loads(pickle.dumps(made)).encode("of Chad") == [2, 3]
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            os._exit(0 if made.encode("of Chad") == [2, 3] else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert made.encode("Chad") == [3]


def test_the_row_that_cannot_be_tokenized_is_named() -> None:
    unigram = tokenizer(model={"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": None})
    with refused(UnknownToken, row=2):
        unigram.encode_all(["a", "b", "a"])
