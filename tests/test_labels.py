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
    rows = zip(TEXTS, [1, 2.5, 1.0, -(2**53)], strict=True)
    path.write_text("".join(json.dumps({"key": key, "value": label}) + "\n" for key, label in rows))
    models = [bh.compile(path), bh.compile(TEXTS, [1, 2.5, 1.0, -(2**53)])]
    for model in models:
        answers = model.predict(TEXTS)
        assert answers == [1.0, 2.5, 1.0, -(2.0**53)]
        assert {type(answer) for answer in answers} == {float}
    for last in (2**53 + 1, 10**400, True):  # the first two equal no float
        assert bh.compile(TEXTS, [1, 2.5, 3, last]).predict(TEXTS) == ["1", "2.5", "3", str(last)]
