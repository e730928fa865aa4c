"""One hidden layer: a line through all points, bent once between two neighbours by powers of two."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.two_layer_relu.theorem import interpolating_knots
from byheart.data import Dataset
from byheart.data.generators import grid_vectors, random_tokens, uniform_vectors
from byheart.errors import AssumptionViolated, UsageError
from byheart.network import size_of_network
from tests.examples import examples
from tests.refusal import refused

from .rival_data import answers, compiled, single_vectors

METHOD = "two-layer-relu"

dyadics = st.builds(
    lambda mantissa, exponent: Fraction(mantissa) * Fraction(2) ** exponent,
    st.integers(-(2**60), 2**60),
    st.integers(-60, 10),
)


@examples(100)
@given(st.dictionaries(dyadics, st.integers(1, 50), min_size=1, max_size=12), st.integers(-2, 2))
def test_knots_lead_through_every_point(labels: dict[Fraction, int], slope: int) -> None:
    points = sorted(labels.items())
    knots = interpolating_knots(points, Fraction(slope))
    first, first_label = points[0]
    for x, label in points:
        bends = sum((knot.weight * max(Fraction(0), x - knot.at) for knot in knots), Fraction(0))
        assert first_label + slope * (x - first) + bends == label
    for knot, ((x, _), (x_next, _)) in zip(knots, pairwise(points), strict=True):
        assert x <= knot.at < x_next
        power = abs(knot.weight)
        assert power == 0 or power.numerator == 1 or power.denominator == 1
        assert (power.numerator & (power.numerator - 1)) == 0


@examples(60)
@given(single_vectors(), st.integers(0, 2**32))
def test_every_label_is_memorised(data: Dataset, seed: int) -> None:
    construction = compiled(METHOD, data, seed)
    assert (answers(construction, data) == data.labels).all()
    n_distinct = construction.notes["distinct_samples"]
    size = size_of_network(construction.memoriser.network)
    assert size.depth == 1
    assert size.width == max(1, int(str(n_distinct)) - 1)


@examples(50)
@given(single_vectors())
def test_the_interpreter_agrees(data: Dataset) -> None:
    assert (answers(compiled(METHOD, data), data, "interpreter") == data.labels).all()


@pytest.mark.parametrize(
    ("data", "precision"),
    [
        (random_tokens(1000, 1, 5000, seed=0), "float64"),
        (grid_vectors(1000, 1, 4, seed=0), "float64"),
        (random_tokens(40, 1, 60, 4, seed=0), "float32"),
    ],
)
def test_grids_and_tokens_run_natively(data: Dataset, precision: str) -> None:
    construction = compiled(METHOD, data, precision=precision)
    assert construction.memoriser.network.precision == precision
    assert (answers(construction, data) == data.labels).all()


def test_what_floats_would_round_is_refused() -> None:
    with refused(AssumptionViolated, "reason", method="two-layer-relu", precision="float32"):
        compiled(METHOD, grid_vectors(1000, 1, 4, seed=0), precision="float32")
    with refused(AssumptionViolated, "reason", method="two-layer-relu", precision="float64"):
        compiled(METHOD, uniform_vectors(100, 1, 4, seed=0), precision="float64")
    with refused(UsageError, "problem"):
        compiled(METHOD, grid_vectors(5, 1, 4, seed=0), precision="float16")
