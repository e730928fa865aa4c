"""`bounds --data`, `compare` and `compile` name one size for the same data and method: 50 data sets at random."""

from __future__ import annotations

from random import Random

import pytest

from byheart.bounds import Estimate, table
from byheart.compare import compare
from byheart.construct.estimates import MOST_PLANNED, estimates_for_data, estimates_for_shape
from byheart.construct.registry import get, names
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.errors import ByheartError
from byheart.pipeline import compile

from .random_data import random_data

METHODS_EACH = 2
SEEDS = [seed if seed < 15 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(50)]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_command_names_the_size_that_is_built(seed: int) -> None:
    rng = Random(seed)
    data = random_data(rng)
    offering = [name for name in names() if data.task in get(name).tasks]
    for name in rng.sample(offering, METHODS_EACH):
        (told,) = estimates_for_data(data, [name])
        (row,) = compare(data, [name]).rows
        if isinstance(told, Estimate):
            assert row.size is not None, (name, row.reason)
            model = compile(data, method=name, check=False)
            assert told.is_planned
            assert told.parameters == row.size.parameters_dense == model.size.parameters_dense
            assert told.bits == row.size.stored_bits == model.size.stored_bits
            assert told.precision == row.precision == model.precision
        else:
            assert row.state == "refused"
            with pytest.raises(ByheartError):
                compile(data, method=name)


def test_many_samples_are_estimated_and_called_so() -> None:
    data = random_tokens(MOST_PLANNED + 1, 3, 1000, 4, seed=0)
    told = [each for each in estimates_for_data(data) if isinstance(each, Estimate)]
    assert told == [each for each in estimates_for_shape(DataShape.of(data)) if isinstance(each, Estimate)]
    assert told
    assert not any(each.is_planned for each in told)
    assert table(data, told).estimates == tuple(told)
