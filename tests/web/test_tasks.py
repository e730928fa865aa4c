"""What the tasks of a worker show: weights of any size, the first rows of a file, and questions to start with."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

import byheart as bh
from byheart.process.progress import silent
from byheart.web.context import Context
from byheart.web.examination import PREVIEW_CHARS, preview
from byheart.web.tasks import list_examples
from byheart.web.weights import _as_float


@pytest.mark.parametrize("value", [Fraction(2**2000), Fraction(-(2**2000), 3)])
def test_a_weight_that_is_too_large_for_a_float_is_shown_as_a_large_one(value: Fraction) -> None:
    shown = _as_float(value)
    assert math.isfinite(shown)
    assert (shown > 0) == (value > 0)
    assert abs(shown) > 1e300


def test_a_long_line_is_cut_and_its_rest_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text(f"key,value\n{'x' * 3 * PREVIEW_CHARS},1\nb,2\n")
    assert preview(path)["rows"] == [["x" * PREVIEW_CHARS], ["b", "2"]]


@pytest.mark.parametrize("column", ["key", "question"])
def test_examples_are_taken_from_the_column_of_questions(column: str, tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text(f"value,{column}\n1,aa\n2,bb\n")
    model = bh.compile(path, input=column, label="value", method="retrieval", precision="float64")
    model.save(tmp_path / "model")
    found = list_examples(Context(silent), str(tmp_path / "model"), str(path))
    assert found["questions"] == ["aa", "bb"]
