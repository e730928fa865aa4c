"""Data are read again as the data of a model were read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import byheart as bh
from byheart.data.dataset import Dataset
from byheart.data.piece_reader import read_pieces
from byheart.errors import ByheartError, CorruptModel, DataError, UsageError
from byheart.storage.data_source import read_again, read_like, read_recitation
from tests.refusal import refused


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("q,a,other\na,x,1\nb,y,2\nb,z,3\nc,,4\n")
    return path


def test_data_are_read_again_as_they_were(table: Path) -> None:
    reading = {"input": "q", "label": "a", "on_conflict": "first", "tokenizer": "word"}
    model = bh.compile(table, **reading, empty_labels="keep")
    like, again = read_like(model, table), read_again(model, table)
    assert (like.n_samples, again.n_samples) == (4, 3)
    assert (like.tokenizer, like.task) == (model.memoriser.tokenizer, "next-token")
    assert read_like(model, table, label="other").label_names == ("1", "2", "3", "4")
    assert read_again(model, table, on_conflict="drop").n_samples == 2
    strict = bh.compile(Dataset.from_pairs([("a", "x"), ("b", "y")], tokenizer="word"))
    with pytest.raises(ByheartError):  # the column `key`, which this file does not have
        read_like(strict, table)
    assert read_again(strict, table, input="q", label="a").n_samples == 4


def test_a_model_that_recites_needs_a_tokenizer(tmp_path: Path) -> None:
    texts = tmp_path / "t.txt"
    texts.write_text("a b c\nd e f\n")
    model = bh.load(Path(__file__).parent / "fixtures" / "recite")
    windows = read_like(model, texts)
    assert windows.source is not None
    assert windows.source.recite
    assert windows.n_samples > 2
    for option, value in {"label": "x", "on_conflict": "first", "max_tokens": 3}.items():
        with refused(UsageError, option=option):
            read_like(model, texts, **{option: value})
    silent = replace(model, memoriser=replace(model.memoriser, tokenizer=None))
    with refused(CorruptModel, "problem"):
        read_like(silent, texts)
    unknown = replace(model, record={**model.record, "reading": {"of a later version": 1, "input": None}})
    assert read_like(unknown, Path(__file__).parents[2] / "examples" / "capitals.csv").n_samples == 156


def test_documents_have_no_labels_and_some_files_no_columns(tmp_path: Path) -> None:
    """A name of a column that is not read would be repeated in the verdict as if it had been."""
    table, lines = tmp_path / "t.csv", tmp_path / "t.txt"
    table.write_text("text,answer\na b c,x\na b d,y\n")
    lines.write_text("a b c\na b d\n")
    model = bh.compile(table, task="distribution", method="dana-2024", input="text")
    assert read_like(model, table).digest == read_like(model, lines).digest
    with refused(UsageError, option="label"):
        read_like(model, table, label="answer")
    with refused(UsageError, option="label"):
        Dataset.read(table, task="distribution", label="answer")
    for option in ("input", "label"):
        with refused(UsageError, option=option):
            read_like(model, lines, **{option: "text"})
    np.savez(tmp_path / "t.npz", inputs=np.eye(2), labels=np.arange(2))
    with refused(UsageError, option="input"):
        Dataset.read(tmp_path / "t.npz", input="text")
    with refused(UsageError, option="label"):
        list(read_pieces(tmp_path / "t.npz", 0, label="labels"))


def test_texts_that_a_tokenizer_does_not_restore_are_not_recited(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs the `tokenizers` extra")
    words = {"<unk>": 0, "a": 1, "b": 2, "c": 3}
    document = {"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}}
    document["model"] = {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"}
    tokenizer, texts = tmp_path / "tokenizer.json", tmp_path / "t.txt"
    tokenizer.write_text(json.dumps(document))
    texts.write_text("a  b\nb\tc a\n")
    assert read_recitation(texts, tokenizer=str(tokenizer)).n_samples > 2
    texts.write_text("a b\nc d\n")
    with refused(DataError, row=2, path=str(texts)):
        read_recitation(texts, tokenizer=str(tokenizer))
