"""`compile(X, y)` as scikit-learn has it, and labels that come back in their own type, saved and loaded too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch

import byheart as bh
from byheart.errors import CorruptModel, UsageError
from tests.refusal import refused

TEXTS = ["a", "b", "c", "d"]
LABELS: dict[str, list[Any]] = {
    "text": ["x", "y", "10", "x"],
    "integer": [10, 9, -3, 10],
    "number": [0.5, 2.0, 1e300, 0.1],
    "boolean": [True, False, True, True],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_come_back_in_their_own_type(kind: str, tmp_path: Path) -> None:
    labels = LABELS[kind]
    model = bh.compile(TEXTS, labels)
    model.save(tmp_path / "m")
    again = bh.load(tmp_path / "m")
    for each in (model, again):
        answers = each.predict(TEXTS)
        assert answers == labels
        assert [type(answer) for answer in answers] == [type(label) for label in labels]
        assert each.predict(["a", "nowhere"]) == [labels[0], None]
        assert each.decode(each.module(each.encode(TEXTS))) == labels
        assert each.predict_names(TEXTS) == [str(label) for label in labels]
    assert bh.verify(again, bh.Dataset.from_pairs(zip(TEXTS, labels, strict=True))).holds


def test_numpy_pandas_and_torch_hold_the_same_labels() -> None:
    numbers = np.array([10, 9, -3, 10], dtype=np.int16)
    wanted = LABELS["integer"]
    given: list[tuple[Any, Any]] = [
        (TEXTS, numbers),
        (np.array(TEXTS), numbers),
        (pd.Series(TEXTS), pd.Series(numbers)),
        (pd.DataFrame({"key": TEXTS}), numbers.tolist()),
    ]
    for inputs, labels in given:
        answers = bh.compile(inputs, labels, check=False).predict(TEXTS)
        assert answers == wanted
        assert {type(answer) for answer in answers} == {int}
    mixed = bh.compile(TEXTS, [1, "x", 2.5, True], check=False)
    assert mixed.predict(TEXTS) == ["1", "x", "2.5", "True"]


def test_columns_of_pyarrow_are_columns() -> None:
    table = pyarrow.table({"key": TEXTS, "value": ["a", "b", "c", "d"]})
    for given in ((table["key"], ["a", "b", "c", "d"]), (table.select(["key"]), table["value"]), (table,)):
        model = bh.compile(*given, check=False)
        assert model.predict(table["key"]) == model.predict(TEXTS) == ["a", "b", "c", "d"]


def test_features_are_vectors() -> None:
    rng = np.random.default_rng(0)
    features, labels = rng.integers(0, 9, (12, 3)).astype(float), np.arange(12) % 3
    frame = pd.DataFrame(features, columns=["width", "height", "depth"])
    for inputs in (features, frame, features.tolist(), torch.tensor(features)):
        assert bh.compile(inputs, labels, check=False).predict(features) == labels.tolist()
    names = np.array(["red", "green", "blue"], dtype=object)[labels]
    assert bh.compile(features, names, check=False).predict(features) == names.tolist()
    with refused(UsageError, columns=["width", "height", "depth", "note"]):
        bh.compile(frame.assign(note="x"), labels)


def test_a_frame_gets_a_column_of_numbers() -> None:
    model = bh.compile(TEXTS, LABELS["integer"])
    answers = model.predict(pd.Series(TEXTS, index=[4, 3, 2, 1]))
    assert answers.to_dict() == dict(zip([4, 3, 2, 1], LABELS["integer"], strict=True))


def test_labels_of_json_lines_keep_their_type(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        "".join(json.dumps({"key": k, "value": v}) + "\n" for k, v in zip(TEXTS, [1, 2, 3, 2], strict=True))
    )
    assert bh.compile(path).predict(TEXTS) == [1, 2, 3, 2]


def test_what_does_not_go_together_is_refused() -> None:
    with refused(UsageError, n_inputs=4, n_labels=3):
        bh.compile(TEXTS, [1, 2, 3])
    for inputs, labels in (("t.csv", [1]), ({"a": 1}, [1]), (TEXTS, "abcd"), (7, [1])):
        with pytest.raises(UsageError):
            bh.compile(inputs, labels)


def test_a_folder_that_lies_about_its_labels_is_refused(tmp_path: Path) -> None:
    bh.compile(TEXTS, LABELS["text"]).save(tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    document = json.loads(path.read_bytes())
    assert "label_type" not in document  # as in folders of older versions
    for kind in ("integer", "shape", 5):
        path.write_text(json.dumps({**document, "label_type": kind}))
        with pytest.raises(CorruptModel):
            bh.load(tmp_path / "m")
    bh.compile(TEXTS, LABELS["integer"]).save(tmp_path / "m")
    document = json.loads(path.read_bytes())
    for changed in ("number", "text"):
        path.write_text(json.dumps({**document, "label_type": changed}))
        with pytest.raises(CorruptModel):  # by the digest of its certificate
            bh.load(tmp_path / "m")


def test_integers_among_floats_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    labels = [1, 2.5, 3.0, -(2**53)]
    rows = zip(TEXTS, labels, strict=True)
    path.write_text("".join(json.dumps({"key": key, "value": label}) + "\n" for key, label in rows))
    models = [bh.compile(path), bh.compile(TEXTS, labels)]
    for model in models:
        model.save(tmp_path / "m")
        answers = bh.load(tmp_path / "m").predict(TEXTS)
        assert answers == [1.0, 2.5, 3.0, -(2.0**53)]
        assert {type(answer) for answer in answers} == {float}
    # the first two equal no float; 3.0 is another class than 3, but the same number
    for last in (2**53 + 1, 10**400, True, 3.0):
        assert bh.compile(TEXTS, [1, 2.5, 3, last]).predict(TEXTS) == ["1", "2.5", "3", str(last)]


MERGED: dict[str, list[list[str]]] = {
    "integer": [["1", "01"], ["1_000", "1000"], [" 7", "8"], ["+7", "8"], ["1", "١"], ["0", "-0"], ["1.0", "2"]],
    "number": [["0.1", "0.10"], ["1e400", "2.5"], ["nan", "2.5"], ["1", "1.0"], ["1_0.0", "2.5"], ["-0", "2.5"], ["5e0", "2.5"]],
    "boolean": [["True", "true"], ["True", "1"], ["0", "False"], ["yes", "False"]],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "names"), [(kind, names) for kind, each in MERGED.items() for names in each]
)
def test_a_type_that_merges_labels_is_refused(kind: str, names: list[str], tmp_path: Path) -> None:
    """`verify` compares names, so it said "holds" of a model whose answers in Python were one number for two labels."""
    bh.compile(["a", "b"], names, check=False).save(tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "label_type": kind}))
    with refused(CorruptModel, "problem", file=str(path)):
        bh.load(tmp_path / "m")


WRITTEN: list[tuple[Any, list[Any]]] = [
    ([10, 9, -3, 10**30], [10, 9, -3, 10**30]),
    (np.array([10, 9, -3, 10], dtype=np.int8), [10, 9, -3, 10]),
    (np.array([2**63, 0, 1, 2], dtype=np.uint64), [2**63, 0, 1, 2]),
    (np.array([True, False, True, True]), [True, False, True, True]),
    (pd.Series([True, False, True, True]), [True, False, True, True]),
    ([0.1, 1e300, 1e-320, float("inf")], [0.1, 1e300, 1e-320, float("inf")]),
    ([0.0, -0.0, 1.5, 2**1000], [0.0, -0.0, 1.5, 2.0**1000]),
    (pd.Series([0.1, 0.5, 1e16, 3.0], dtype="float32"), [float(np.float32(0.1)), 0.5, float(np.float32(1e16)), 3.0]),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "answers"), WRITTEN)
def test_labels_that_compile_writes_are_loaded(labels: Any, answers: list[Any], tmp_path: Path) -> None:
    bh.compile(TEXTS, labels, check=False).save(tmp_path / "m")
    assert list(map(repr, bh.load(tmp_path / "m").predict(TEXTS))) == list(map(repr, answers))


def test_labels_of_every_type_are_loaded_from_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for labels in ([1, 2, 3, 2], [0.5, 1, 1e22, -7], [True, False, False, True], ["1", "01", "x", ""]):
        rows = zip(TEXTS, labels, strict=True)
        path.write_text("".join(json.dumps({"key": key, "value": label}) + "\n" for key, label in rows))
        bh.compile(path, empty_labels="keep", check=False).save(tmp_path / "m")
        assert bh.load(tmp_path / "m").predict(TEXTS) == labels


def test_other_names_are_of_another_type() -> None:
    """The answers of a model of numbers could not be converted to numbers when its classes were renamed."""
    data = bh.Dataset.from_pairs(zip(TEXTS, [10, 9, 10, 9], strict=True))
    renamed = data.with_labels(data.labels, ["x", "y"])
    assert (data.label_type, renamed.label_type) == ("integer", "text")
    assert bh.compile(renamed, check=False).predict(TEXTS) == ["y", "x", "y", "x"]
    assert data.with_labels(1 - data.labels).label_type == "integer"
    assert data.with_labels(data.labels, ["10", "9"]).label_type == "integer"
    named = bh.Dataset.from_pairs(zip(TEXTS, [10, 9, 10, 9], strict=True), label_names=["x"])
    assert named.label_type == "text"
