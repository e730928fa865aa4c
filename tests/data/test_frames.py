"""One table in several containers: missing cells, numbers as inputs, and labels of narrow float types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import byheart as bh
from byheart.data import Dataset
from byheart.data.frames import is_missing
from byheart.errors import DataError, UsageError
from tests.refusal import refused

KEYS = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("dtype", "label"), [("Int64", 1), ("boolean", True), ("string", "x"), ("Float64", 2.5)]
)
def test_na_is_a_missing_label(dtype: Any, label: object) -> None:
    frame = pd.DataFrame({"key": ["a", "b"], "value": pd.array([label, None], dtype=dtype)})
    with refused(DataError, row=2):
        bh.compile(frame)
    assert bh.compile(frame, empty_labels="drop").predict(["a", "b"]) == [label, None]


def test_na_is_a_missing_input() -> None:
    keys = pd.array(["a", None, "b"], dtype="string")
    frame = pd.DataFrame({"key": keys, "value": ["x", "y", "z"]})
    with refused(DataError, row=2):
        bh.compile(frame)
    model = bh.compile(frame, empty_inputs="drop")
    for asked in (pd.Series(keys), frame, ["a", None, "b"], ["a", float("nan"), "b"], ["a", pd.NA, "b"]):
        assert list(model.predict(asked)) == ["x", None, "z"]


def test_cells_that_are_missing() -> None:
    missing = [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT")]
    assert all(map(is_missing, missing))
    assert not any(map(is_missing, ["", 0, False, [], [None], np.array([np.nan, 1.0]), np.array([])]))


@pytest.mark.parametrize("column", [[101, 102, 7], [0.1, 2.0, 1e20], pd.array([101, 102, 7], dtype="Int64")])
def test_a_model_answers_the_frame_that_it_was_compiled_from(column: Any) -> None:
    frame = pd.DataFrame({"id": column, "name": ["x", "y", "z"]}, index=[5, 3, 1])
    model = bh.compile(frame, input="id", label="name")
    for asked in (frame, frame["id"]):
        assert model.predict(asked).to_dict() == {5: "x", 3: "y", 1: "z"}
    listed = frame["id"].tolist()
    for many in (listed, tuple(listed), frame["id"].to_numpy(), [str(one) for one in listed]):
        assert model.predict(many) == ["x", "y", "z"]
    assert model.predict([*listed, 999, None]) == ["x", "y", "z", None, None]
    assert model.decode(model.module(model.encode(listed))) == ["x", "y", "z"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_numbers_are_converted_as_in_a_file(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"key": [101, 102, 7], "value": ["x", "y", "z"]})
    path = tmp_path / f"table.{suffix}"
    if suffix == "csv":
        frame.to_csv(path, index=False)
        again = pd.read_csv(path)
    else:
        frame.to_parquet(path)
        again = pd.read_parquet(path)
    assert list(bh.compile(path).predict(again)) == ["x", "y", "z"]


def test_rows_of_ids_are_still_token_ids() -> None:
    model = bh.compile({"ab": "x", "ba": "y"})
    assert model.predict([[0, 1], [1, 0]]) == ["x", "y"]
    assert model.predict([0, 1]) == [None, None]  # the texts "0" and "1"


def test_views_and_generators_are_lists_of_inputs() -> None:
    facts = {"a": 1, "b": 2}
    model = bh.compile(facts)
    assert model.predict(facts.keys()) == model.predict(iter(facts)) == [1, 2]
    assert model.predict({"x": "b", "y": "a"}.values()) == [2, 1]
    with refused(UsageError, inputs={"a"}):  # its order is not defined
        model.predict({"a"})


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_narrow_floats_are_the_same_numbers_in_every_container(dtype: type[np.floating]) -> None:
    labels = np.array([0.1, 0.2, 0.3], dtype=dtype)
    given: list[Any] = [
        list(zip(KEYS, labels, strict=True)),
        dict(zip(KEYS, labels, strict=True)),
        pd.DataFrame({"key": KEYS, "value": labels}),
        pd.DataFrame({"key": KEYS, "value": list(labels)}, dtype=object),
    ]
    models = [*map(bh.compile, given), bh.compile(KEYS, labels), bh.compile(KEYS, list(labels))]
    assert all(model.predict(KEYS) == [float(label) for label in labels] for model in models)
    assert len({model.record["dataset"]["digest"] for model in models}) == 1


def test_narrow_floats_as_inputs_too() -> None:
    keys = np.array([0.1, 0.2], dtype=np.float32)
    frame = pd.DataFrame({"key": keys, "value": [1, 2]})
    for model in (bh.compile(frame), bh.compile(list(zip(keys, [1, 2], strict=True)))):
        for asked in (frame, keys, list(keys), keys.tolist()):
            assert list(model.predict(asked)) == [1, 2]


def test_labels_of_every_token_too() -> None:
    labels = np.array([[0.1, 0.2], [0.3, 0.1]], dtype=np.float32)
    model = bh.compile(list(zip(["ab", "cd"], labels, strict=True)))
    assert model.predict(["ab", "cd"]) == labels.astype(float).tolist()


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({}, ("a", "b")),
        ({"input": "b"}, ("b", "a")),
        ({"label": "a"}, ("b", "a")),
        ({"input": "a"}, ("a", "b")),
        ({"input": "b", "label": "a"}, ("b", "a")),
    ],
)
def test_of_two_columns_the_other_one_is_the_default(columns: dict[str, str], found: tuple[str, str]) -> None:
    source = Dataset.from_pandas(pd.DataFrame({"a": ["x", "y"], "b": ["1", "2"]}), **columns).source
    assert source is not None
    assert (source.input, source.label) == found


def test_one_column_of_a_frame_cannot_be_input_and_label() -> None:
    for names, columns in (
        (["a", "b"], {"input": "b", "label": "b"}),
        (["key", "value"], {"input": "value"}),
    ):
        with refused(UsageError, column=columns["input"]):
            Dataset.from_pandas(pd.DataFrame([["x", "1"], ["y", "2"]], columns=names), **columns)


@pytest.mark.parametrize("names", [[0], [0, 1], ["a", 1], [(0, 0), (0, 1)]])
def test_names_of_columns_need_not_be_texts(names: list[Any]) -> None:
    values = np.array([[1.0, 5.0], [2.0, 4.0], [3.0, 9.0]])[:, : len(names)]
    frame = pd.DataFrame(dict(zip(names, values.T, strict=True)))
    model = bh.compile(frame, ["x", "y", "z"])
    assert model.predict(values) == ["x", "y", "z"]


def test_an_index_is_answered_by_a_list() -> None:
    model = bh.compile([("a", 1), ("b", 2)])
    for asked in (pd.Index(["b", "c", "a"]), pd.CategoricalIndex(["b", "c", "a"])):
        assert model.predict(asked) == [2, None, 1]


@pytest.mark.parametrize(
    ("inputs", "row"),
    [
        ([[], [1, 2]], 1),
        ([[1, 2], []], 2),
        ([[[1, 2], [3]], [[1, 2], [3, 4]]], 1),
        ([[[1, 2], [3, 4]], [[1, 2], [3]]], 2),
        ([[[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]], 2),
        ([[1.0], [1.0, 2.0]], 2),
        ([1.0, [2.0]], 2),
    ],
)
def test_inputs_of_different_shapes_are_refused_by_their_row(inputs: list[Any], row: int) -> None:
    with refused(DataError, row=row):
        bh.compile(inputs, [0, 1])
    if isinstance(inputs[0], list):
        with refused(DataError, "row"):
            Dataset.from_arrays(inputs, [0, 1])
