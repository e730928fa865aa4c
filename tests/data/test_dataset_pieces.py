"""Data read in pieces are the data read at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from byheart.data import piece_reader
from byheart.data.dataset import Dataset
from byheart.data.dataset_pieces import spool
from byheart.data.distinct_contexts import context_fingerprints
from byheart.data.generators import grid_vectors, random_tokens
from byheart.data.options import TableOptions
from byheart.errors import DataError, MalformedFile, NonFiniteInput, UsageError
from tests.refusal import refused


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_reader, "PIECE_NUMBERS", 60)
    monkeypatch.setattr(piece_reader, "PIECE_ROWS", 7)


def write_table(path: Path) -> Path:
    rows = [(f"käse {n}" if n % 5 else f"a,b{n}", f"{n % 13}") for n in range(50)]
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
        from pyarrow import parquet

        columns = {"key": [key for key, _ in rows], "value": [int(value) for _, value in rows]}
        parquet.write_table(pyarrow.table(columns), path)
    else:
        separator, quote = ("\t", "") if path.suffix == ".tsv" else (",", '"')
        lines = [f"{quote}{key}{quote}{separator}{value}" for key, value in rows]
        path.write_text("\n".join([f"key{separator}value", *lines]), "utf-8")
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("tokenizer", ["char", "word", "bytes"])
def test_a_table(suffix: str, tokenizer: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / f"data.{suffix}")
    whole = Dataset.read(path, tokenizer=tokenizer)
    found = spool(path, tmp_path / "pieces", tokenizer=tokenizer)
    assert found.sizes == (7,) * 7 + (1,)
    assert (found.digest, found.label_entropy) == (whole.digest, whole.label_entropy)
    assert (found.source, found.tokenizer) == (whole.source, whole.tokenizer)
    assert [piece.row(0) for piece in found.pieces()] == list(range(1, 51, 7))


@pytest.mark.parametrize("compress", [np.savez, np.savez_compressed])
def test_arrays(compress: object, tmp_path: Path) -> None:
    for data in (random_tokens(40, 4, 30, seed=0), grid_vectors(40, 3, 2, seed=0)):
        path = tmp_path / f"{data.dim}.npz"
        inputs = data.inputs.values if data.dim else data.inputs.ids.reshape(40, 4)
        compress(path, inputs=inputs, labels=data.labels * 7)
        found = spool(path, tmp_path / f"pieces-{data.dim}")
        assert found.digest == Dataset.read(path).digest


@pytest.mark.parametrize("label_names", [None, ["y", "x"], ["7", "10", "100"], ["7"]])
@pytest.mark.parametrize(
    "labels",
    [
        ["x"] * 20 + ["y"] * 20 + ["z"] * 20,
        ["10", "11"] * 20 + ["2"] * 20,
        ["10", "11"] * 20 + ["7"] * 20,
        ["-3", "10"] * 20 + ["-20"] * 20,
    ],
)
@pytest.mark.parametrize("suffix", ["npz", "npz of numbers", "csv", "parquet"])
def test_label_names_are_those_of_the_whole_file(
    labels: list[str], label_names: list[str] | None, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"data.{suffix.split()[0]}"
    values: list[Any] = labels
    if suffix in ("npz of numbers", "parquet") and "x" not in labels:
        values = [int(label) for label in labels]
    if path.suffix == ".npz":
        np.savez(path, inputs=np.arange(360).reshape(60, 6), labels=np.array(values))
    elif path.suffix == ".csv":
        path.write_text("key,value\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values)))
    else:
        pyarrow = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"key": list(map(str, range(60))), "value": values}), path)
    options: TableOptions = {} if label_names is None else {"label_names": label_names}
    whole, found = Dataset.read(path, **options), spool(path, tmp_path / "pieces", **options)
    assert found.label_names == whole.label_names
    assert (found.digest, found.label_type) == (whole.digest, whole.label_type)
    assert [int(count) for count in np.bincount(whole.labels, minlength=whole.n_classes)] == list(
        found.label_counts
    )


def test_a_file_cut_short_is_refused_and_what_was_read_is_kept(tmp_path: Path) -> None:
    path = write_table(tmp_path / "data.csv")
    text = path.read_text("utf-8")
    path.write_text(text[: len(text) * 2 // 3] + '\n"', "utf-8")
    with refused(MalformedFile, "path", line=35):
        spool(path, tmp_path / "pieces")
    assert (tmp_path / "pieces" / "000000.json").exists()
    assert not (tmp_path / "pieces" / "merged.json").exists()


def test_a_bad_row_is_named_by_its_place_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("key,value\n" + "".join(f"k{n},{'' if n == 9 else n}\n" for n in range(20)), "utf-8")
    with refused(DataError, "path", row=3):
        spool(path, tmp_path / "pieces")


def test_a_value_that_is_not_finite_is_named_by_its_row_in_the_file(tmp_path: Path) -> None:
    values = np.zeros((50, 2, 3))
    values[37, 1, 2] = np.inf
    np.savez(tmp_path / "data.npz", inputs=values, labels=np.arange(50))
    with refused(NonFiniteInput, row=38):
        spool(tmp_path / "data.npz", tmp_path / "pieces")


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"key,value\n" + b"a,1\n" * 3 + b"\xff,2\n")
    with refused(MalformedFile, "path", line=1):
        spool(path, tmp_path / "pieces")


@pytest.mark.parametrize(
    ("name", "options"),
    [("data.csv", {"on_conflict": "first"}), ("data.csv", {"task": "seq-to-seq"}), ("data.jsonl", {})],
)
def test_what_is_not_read_in_pieces_is_refused(name: str, options: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("key,value\na,b\n", "utf-8")
    with pytest.raises(UsageError):
        spool(path, tmp_path / "pieces", **options)


def test_ids_with_large_gaps_and_columns_first_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, inputs=np.array([[1, 2**40], [3, 4]]), labels=np.array([0, 1]))
    with pytest.raises(UsageError):
        spool(path, tmp_path / "a")
    np.savez(path, inputs=np.asfortranarray(np.arange(12).reshape(6, 2)), labels=np.arange(6))
    with refused(MalformedFile, "path"):
        spool(path, tmp_path / "b")


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("dim", [None, 2])
def test_fingerprints_agree_exactly_where_contexts_do(dim: int | None, ordered: bool) -> None:
    small = random_tokens(300, 3, 3, seed=0, ordered=ordered)
    if dim is not None:
        small = grid_vectors(300, 3, dim, levels=2, seed=0, ordered=ordered)
    prints = context_fingerprints(small.inputs, small.task, small.ordered)
    _, numbers = np.unique(prints, axis=0, return_inverse=True)
    contexts = small.context_ids
    pairs = np.unique(np.stack([numbers.reshape(-1), contexts], axis=1), axis=0)
    assert len(pairs) == len(np.unique(contexts)) == len(np.unique(numbers)) < 300
