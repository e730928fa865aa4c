"""Values as JSON has them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from byheart.records.json_record import JsonRecord, plain
from byheart.records.json_values import json_default


@dataclass(frozen=True)
class Pair(JsonRecord):
    left: int
    right: str


@dataclass(frozen=True)
class Bare:
    value: int


def test_a_record_is_an_object_by_its_fields() -> None:
    assert Pair(1, "a").to_json() == {"left": 1, "right": "a"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({1: (2, 3.5), "a": [None, True]}, {"1": [2, 3.5], "a": [None, True]}),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (np.float64("nan"), "nan"),
        ([float("-inf"), 1.0], ["-inf", 1.0]),
        ("text", "text"),
        (None, None),
        (False, False),
        (Path("a"), "a"),
        (Fraction(1, 3), "1/3"),
    ],
)
def test_what_json_lacks_is_said_in_words(value: Any, expected: Any) -> None:
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Pair(1, "a"), {"left": 1, "right": "a"}),
        (Bare(2), {"value": 2}),
        (Bare, str(Bare)),
        (np.arange(3), [0, 1, 2]),
        (np.float64(0.5), 0.5),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset("ba"), ["a", "b"]),
        (Fraction(1, 3), "1/3"),
    ],
)
def test_a_document_may_hold_records_arrays_and_sets(value: Any, expected: Any) -> None:
    assert json_default(value) == expected
