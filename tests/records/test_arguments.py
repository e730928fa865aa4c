"""Numbers of other types become Python's own, and anything else is refused by name."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from byheart import bounds
from byheart.errors import ByheartError, ImpossibleSize
from tests.refusal import refused

NO_WHOLE_NUMBERS = [
    2.5,
    5.0,
    float("nan"),
    True,
    "5",
    None,
    1j,
    [5],
    np.float64(5),
    np.array([5]),
    Fraction(5),
]
NO_NUMBERS = [float("nan"), float("inf"), True, "5", None, 1j, [1], Decimal("NaN")]


def theorem_4_1(**changed: Any) -> bounds.TheoremSize:
    return bounds.theorem_4_1(**{"n_samples": 5000, "seq_len": 8, "n_classes": 4, "dim": 3, **changed})


@pytest.mark.parametrize("value", NO_WHOLE_NUMBERS)
@pytest.mark.parametrize("name", ["n_samples", "seq_len", "n_classes", "dim"])
def test_no_number_comes_of_what_is_no_whole_number(name: str, value: object) -> None:
    with refused(ImpossibleSize, "name"):
        theorem_4_1(**{name: value})


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_no_number_comes_of_what_is_no_number(value: object) -> None:
    with refused(ImpossibleSize, name="radius"):
        theorem_4_1(radius=value)


def test_numbers_of_numpy_count_as_they_are() -> None:
    """Their sixth powers overflow, which was an error at best."""
    assert theorem_4_1(n_samples=np.int64(5000), radius=np.float32(2)) == theorem_4_1(radius=2)
    huge = np.int64(2**62)
    assert bounds.counting_seq_to_seq(huge, np.int64(4), 2).value == 2**64


@pytest.mark.parametrize("n_samples", [0, -1])
def test_sizes_out_of_range_are_errors_of_ours(n_samples: int) -> None:
    with pytest.raises(ByheartError):
        theorem_4_1(n_samples=n_samples)


def test_what_may_be_absent_may_be() -> None:
    assert bounds.theorem_4_3(10, 3, None) == bounds.theorem_4_3(10, 3, 30)
