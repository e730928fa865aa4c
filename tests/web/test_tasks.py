"""What the tasks of a worker show: weights of any size, the first rows of a file, and questions to start with."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from byheart.web.weights import _as_float


@pytest.mark.parametrize("value", [Fraction(2**2000), Fraction(-(2**2000), 3)])
def test_a_weight_that_is_too_large_for_a_float_is_shown_as_a_large_one(value: Fraction) -> None:
    shown = _as_float(value)
    assert math.isfinite(shown)
    assert (shown > 0) == (value > 0)
    assert abs(shown) > 1e300
