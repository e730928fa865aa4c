"""Rows that cannot be memorised: all kinds are named at once, and each rule leaves out its own kind and nothing else."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from byheart.data import Dataset
from byheart.data.row_rules import FaultyRows
from byheart.errors import ConflictingLabels, DataError, MalformedFile, NonFiniteInput, UsageError
from byheart.process.memory_limit import OverMemoryLimit
from tests.refusal import refused

LONG = "long " * 400
CLEAN = [(f"key {number}", f"{number % 7}") for number in range(40)]
FAULTY = {
    "malformed_rows": ["only one field", "one,two,three"],
    "empty_labels": ["key without label,", '"another, without",'],
    "empty_inputs": [",a", ",b", ",c"],
    "max_tokens": [f"{LONG},a"],
    "on_conflict": ["key 1,other", "key 2,other"],
}
MENDED: dict[str, Any] = {
    "malformed_rows": "drop",
    "empty_labels": "drop",
    "empty_inputs": "drop",
    "max_tokens": 20,
    "on_conflict": "first",
}


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little that 40 rows as long as the longest do not fit, and 40 of usual length do."""
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", "100K")


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """A table in which every kind of fault is scattered between good rows, and the same table without them."""
    good = [",".join(row) for row in CLEAN]
    clean, faulty = tmp_path / "clean.csv", tmp_path / "faulty.csv"
    clean.write_text("\n".join(["key,value", *good]) + "\n", encoding="utf-8")
    bad = [line for lines in FAULTY.values() for line in lines]
    lines = good[:10]
    for place, line in enumerate(bad):
        lines += [line, *good[10 + place : 11 + place]]
    lines += good[10 + len(bad) :]
    faulty.write_text("\n".join(["key,value", *lines]) + "\n", encoding="utf-8")
    return clean, faulty


def rows_of(path: Path, lines: list[str]) -> list[int]:
    """The rows of a table that are these lines."""
    body = path.read_text(encoding="utf-8").splitlines()[1:]
    return [body.index(line) + 1 for line in lines]


@pytest.mark.usefixtures("small_memory")
def test_five_kinds_of_faults_are_refused_once(tables: tuple[Path, Path]) -> None:
    with refused(FaultyRows, path=str(tables[1]), n_rows=10) as raised:
        Dataset.read(tables[1])
    found = {fault["option"]: fault for fault in raised.value.facts["faults"]}
    assert set(found) == set(FAULTY)
    for option, lines in FAULTY.items():
        assert found[option]["n_rows"] == len(lines)
        assert found[option]["rows"] == rows_of(tables[1], lines)
        assert f"--{option.replace('_', '-')}" in str(raised.value)  # what a person types to settle it
        assert found[option]["remedies"]


@pytest.mark.usefixtures("small_memory")
def test_the_rules_leave_the_clean_table(tables: tuple[Path, Path]) -> None:
    mended = Dataset.read(tables[1], **MENDED)
    assert mended.digest == Dataset.read(tables[0]).digest  # no label and no token of a row that was left out
    assert mended.left_out == {f"{option}={MENDED[option]}": len(lines) for option, lines in FAULTY.items()}
    body = tables[1].read_text(encoding="utf-8").splitlines()[1:]
    assert [body[mended.row(i) - 1] for i in range(mended.n_samples)] == [",".join(row) for row in CLEAN]


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("option", FAULTY)
def test_one_rule_short_of_all_names_the_kind_that_is_left(tables: tuple[Path, Path], option: str) -> None:
    own = {
        "malformed_rows": MalformedFile,
        "empty_labels": DataError,
        "empty_inputs": DataError,
        "max_tokens": OverMemoryLimit,
        "on_conflict": ConflictingLabels,
    }
    with pytest.raises(own[option]) as raised:
        Dataset.read(tables[1], **{name: rule for name, rule in MENDED.items() if name != option})
    assert type(raised.value) is own[option]


def test_json_lines_and_frames_are_told_the_same(tmp_path: Path) -> None:
    cells = [("a", "x"), (None, "y"), ("b", None), ("a", "z"), ("c", "w")]
    path = tmp_path / "t.jsonl"
    lines = [json.dumps({"key": key, "value": value}) for key, value in cells]
    path.write_text("\n".join([*lines, '{"key": "d"}', "not JSON"]), encoding="utf-8")
    frame = pd.DataFrame(cells, columns=["key", "value"])
    wanted = {"empty_inputs": [2], "empty_labels": [3], "on_conflict": [4]}
    for read, more in (
        (lambda **rules: Dataset.read(path, **rules), {"malformed_rows": [6, 7]}),
        (lambda **rules: Dataset.from_pandas(frame, **rules), {}),
        (lambda **rules: Dataset.from_pairs(cells, **rules), {}),
    ):
        with refused(FaultyRows) as raised:
            read()
        faults: Any = raised.value.facts["faults"]
        assert {fault["option"]: fault["rows"] for fault in faults} == {**wanted, **more}
        rules = dict.fromkeys([*wanted, *more], "drop")
        assert [read(**rules).row(i) for i in range(1)] == [5]
        rules |= {"empty_labels": "keep", "on_conflict": "first"}
        assert sorted(read(**rules).label_names) == ["", "w", "x"]


def test_vectors_that_are_not_finite_join_the_report(tmp_path: Path) -> None:
    vectors = np.arange(12.0).reshape(6, 2)
    vectors[3] = vectors[1]
    vectors[4, 1] = np.nan
    labels = np.array([0, 1, 2, 3, 4, 5])
    with refused(FaultyRows) as raised:
        Dataset.from_arrays(vectors, labels)
    faults: Any = raised.value.facts["faults"]
    assert {fault["option"]: fault["rows"] for fault in faults} == {"on_conflict": [4], "non_finite": [5]}
    np.savez(tmp_path / "v.npz", inputs=vectors, labels=labels)
    kept = Dataset.read(tmp_path / "v.npz", on_conflict="drop", non_finite="drop")
    assert [kept.row(i) for i in range(kept.n_samples)] == [1, 3, 6]
    assert kept.label_names == ("0", "2", "5")
    held = Dataset.from_arrays(vectors, labels, on_conflict="first")  # as before: for `check` to report
    with pytest.raises(NonFiniteInput):
        held.require_finite()


def test_rules_are_checked_and_may_leave_nothing() -> None:
    for rules in ({"empty_inputs": "keep"}, {"empty_labels": "first"}, {"max_tokens": 0}):
        with pytest.raises(UsageError):
            Dataset.from_pairs([("a", "x")], **rules)
    with pytest.raises(DataError):
        Dataset.from_pairs([("abc", "x")], max_tokens=2)


def test_known_names_stay_where_rows_are_left_out() -> None:
    pairs = [("a", 3), ("b", 4), ("b", 5)]
    assert Dataset.from_pairs(pairs, on_conflict="first").label_names == ("3", "4")
    known = Dataset.from_pairs(pairs, on_conflict="drop", label_names=("4", "9"))
    assert (known.label_names, known.labels.tolist()) == (("4", "9", "3"), [2])


def test_one_long_key_among_two_hundred_thousand_is_refused_at_once(tmp_path: Path) -> None:
    n_rows, row, n_tokens = 200_000, 123_457, 20_031
    path = tmp_path / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("key", "value"))
        writer.writerows((f"key {k}" if k != row else "x" * n_tokens, k % 100) for k in range(1, n_rows + 1))
    n_bytes = 8 * n_rows * n_tokens
    with refused(OverMemoryLimit, row=row, n_tokens=n_tokens, n_bytes=n_bytes, path=str(path)) as raised:
        Dataset.read(path)
    assert "--max-tokens 10" in str(raised.value)  # as many as the longest of the others has
    assert Dataset.read(path, max_tokens=10).left_out == {"max_tokens=10": 1}


def test_no_table_is_filled_up_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Dataset.from_arrays([[1]] * 50 + [[1] * 400], [0] * 51)
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", "1K")
    with pytest.raises(OverMemoryLimit):
        data.inputs.pad(2)


def test_a_row_with_two_faults_is_one_row() -> None:
    nan = float("nan")
    with refused(FaultyRows, n_rows=2) as raised:
        Dataset.from_arrays([[nan, 1.0], [nan, 1.0]], [0, 1])
    faults: Any = raised.value.facts["faults"]
    assert [fault["rows"] for fault in faults] == [[2], [1, 2]]


def test_the_row_of_a_value_that_is_not_finite_is_that_of_the_source() -> None:
    values, labels = [[1.0, 2.0], [1.0, 2.0], [float("nan"), 1.0]], [0, 1, 1]
    data = Dataset.from_arrays(values, labels, on_conflict="first")
    with refused(NonFiniteInput, row=3, sample=1, position=0, coordinate=0):
        data.require_finite()
    with refused(NonFiniteInput, row=3):
        Dataset.from_arrays(values, [0, 0, 1]).subset([2, 1]).require_finite()


def test_every_count_of_conflicts_is_that_of_the_rows_that_first_leaves_out() -> None:
    pairs = [("a", 1), ("b", 2), ("a", 3), ("a", 1), ("a", 3)]
    with refused(ConflictingLabels, "labels", rows=(1, 3), n_conflicts=2) as raised:
        Dataset.from_pairs(pairs)
    faults: Any = raised.value.facts["faults"]
    assert [(fault["n_rows"], fault["rows"]) for fault in faults] == [(2, [3, 5])]
    assert Dataset.from_pairs(pairs, on_conflict="first").left_out == {"on_conflict=first": 2}
    assert Dataset.from_pairs(pairs, on_conflict="keep").n_conflicting == 2
    assert Dataset.from_pairs(pairs[:2]).n_conflicting == 0
