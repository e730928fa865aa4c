"""Numbers of other types become Python's own, and anything else is refused by name."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from byheart import bounds
from byheart.errors import ByheartError, ImpossibleSize
from byheart.records.arguments import real_number, takes_numbers, whole_number
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


@takes_numbers
def echo(
    n: int, m: int | None = None, x: float = 1.5, either: Fraction | float | None = None, text: str = ""
) -> Any:
    return n, m, x, either, text


def test_each_parameter_is_read_by_its_annotation() -> None:
    assert echo(3) == (3, None, 1.5, None, "")
    found = echo(np.int32(3), np.uint8(4), np.float32(0.25), Fraction(1, 3), "text")
    assert found == (3, 4, 0.25, Fraction(1, 3), "text")
    assert [type(each) for each in found] == [int, int, float, Fraction, str]
    assert echo(3, None, 2, text="5") == (3, None, 2, None, "5")
    assert echo(10**30, x=10**400)[2] == 10**400
    odd = {"n": (None, 2.0), "m": ("4", True), "x": (None, "1", True, np.inf), "either": (True, None)}
    for name, value in ((name, value) for name, values in odd.items() for value in values):
        with refused(ImpossibleSize, name=name):
            echo(**{"n": 1, name: value})


def test_numbers_of_other_types_become_pythons_own() -> None:
    assert type(whole_number("n", np.int64(5))) is int
    assert type(real_number("x", np.float64(5))) is float
    assert type(real_number("x", np.int64(5))) in (int, float)
    for value in (5, Fraction(5, 3)):
        assert real_number("x", value) is value
