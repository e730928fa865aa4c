"""Changed weights: one bit, one value, and what differs between two models."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import byheart as bh
from byheart.errors import UsageError
from byheart.inspect import changes
from byheart.model import Model

DYADIC = st.builds(
    lambda m, e: Fraction(m) * Fraction(2) ** e, st.integers(-(2**60), 2**60), st.integers(-80, 80)
)


@given(DYADIC, st.integers(-100, 100))
def test_turning_a_bit_over_twice_changes_nothing(value: Fraction, power: int) -> None:
    once = changes.flip(value, power)
    assert abs(abs(once) - abs(value)) == Fraction(2) ** power
    if value and once:
        assert changes.flip(once, power) == value


@given(st.integers(1, 2**80), st.integers(1024, 3000), st.booleans())
def test_a_number_too_large_for_a_float_is_shown_as_the_nearest_power_of_two(
    odd: int, power: int, is_negative: bool
) -> None:
    value = odd * Fraction(2) ** (power - odd.bit_length() + 1) + Fraction(1, 2)
    sign, shown = changes.show(-value if is_negative else value).removeprefix("about ").split("2^", 1)
    assert sign == ("-" if is_negative else "")
    nearest = min((abs(Fraction(2) ** n - value), n) for n in (power - 1, power, power + 1))
    assert int(shown) == nearest[1]


@given(DYADIC)
def test_the_bits_shown_add_up_to_the_number(value: Fraction) -> None:
    found = changes.bits_of(value)
    total = sum((Fraction(2) ** power for power in found["powers"]), Fraction(0))
    assert (-total if found["negative"] else total) == value


@pytest.fixture(
    scope="module", params=["retrieval", "kajitsuka-sato-2025", "dana-2024", "madden-2024", "llama"]
)
def model(request: pytest.FixtureRequest) -> Model:
    data = bh.Dataset.from_pairs([("ab", "x"), ("ba", "y"), ("aa", "z")])
    return bh.compile(data, method=request.param)


def test_every_matrix_can_be_changed_and_only_there(model: Model) -> None:
    for name, weights in model.network.parameters():
        n_rows, n_columns = changes.shape_of(weights)
        if n_rows * n_columns == 0:
            continue
        where = {"matrix": name, "row": n_rows - 1, "column": n_columns - 1}
        other, done = changes.change_weights(model.memoriser, [{**where, "value": "12345"}])
        assert done[0]["after"] == "12,345"
        found = changes.compare_weights(model.network, other.network)
        assert found.n_changed == 1
        (listed,) = found.listed(10)
        assert (listed["matrix"], listed["row"], listed["column"]) == (name, n_rows - 1, n_columns - 1)
        assert listed["after"] == "12,345"


def test_changes_add_up_and_the_model_itself_stays(model: Model) -> None:
    (name, weights), *_ = model.network.parameters()
    before = changes.value_at(weights, 0, 0)
    where = {"matrix": name, "row": 0, "column": 0}
    other, _ = changes.change_weights(
        model.memoriser, [{**where, "value": "0.5"}, {**where, "power": -2}, {**where, "power": 3}]
    )
    assert changes.value_at(changes.find_matrix(other.network, name), 0, 0) == Fraction(35, 4)
    assert changes.value_at(changes.find_matrix(model.network, name), 0, 0) == before


@pytest.mark.parametrize(
    "change",
    [
        {"matrix": "nothing", "row": 0, "column": 0, "power": 1},
        {"row": 10**6, "column": 0, "power": 1},
        {"row": 0, "column": 0, "value": "five"},
        {"row": 0, "column": 0, "value": "1/0"},
        {"row": 0, "column": 0, "power": 10**9},
        {"row": 0, "column": 0, "value": "1e99999999"},
        {"row": 0, "column": 0, "value": "-2.5E-99_999_999"},
        {"row": 0, "column": 0, "value": "1e٩٩٩٩٩٩٩٩"},
        {"row": 0, "column": 0, "value": f"1e{'9' * 5000}"},
    ],
)
def test_what_cannot_be_changed_is_refused(model: Model, change: dict[str, object]) -> None:
    (first, _), *_ = model.network.parameters()
    with pytest.raises(UsageError):
        changes.change_weights(model.memoriser, [{"matrix": first, **change}])


def test_a_float_that_cannot_hold_the_change_is_refused() -> None:
    model = bh.compile(
        bh.Dataset.from_pairs([("a", "x"), ("b", "y")]), method="retrieval", precision="float64"
    )
    name = next(name for name, weights in model.network.parameters() if np.any(weights))
    weights = changes.find_matrix(model.network, name)
    assert isinstance(weights, np.ndarray)
    row, column = (int(at[0]) for at in np.nonzero(weights.reshape(changes.shape_of(weights))))
    for power in (-2000, 2000):
        with pytest.raises(UsageError):
            changes.change_weights(
                model.memoriser, [{"matrix": name, "row": row, "column": column, "power": power}]
            )


def test_a_number_beyond_every_float_is_refused(model: Model) -> None:
    name = next(name for name, _ in model.network.parameters())
    edit = {"matrix": name, "row": 0, "column": 0, "value": f"1{'0' * 400}.1"}
    with pytest.raises(UsageError, match="too large"):
        changes.change_weights(model.memoriser, [edit])
