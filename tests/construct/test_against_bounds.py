"""What is built is never smaller than what theory says is necessary, for every construction."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from byheart.bounds import table
from byheart.construct.registry import get, names
from byheart.data import Dataset
from byheart.data.generators import grid_vectors, random_tokens, uniform_vectors
from byheart.errors import AssumptionViolated, UsageError
from byheart.network import Size, size_of_network
from byheart.theorems import checks

PROBLEMS = {
    "single vectors": lambda: uniform_vectors(300, 1, 4, seed=0),
    "grid": lambda: grid_vectors(300, seed=1),
    "tokens": lambda: random_tokens(300, seed=2),
    "seq-to-seq": lambda: uniform_vectors(60, seed=3, task="seq-to-seq"),
    "sets": lambda: uniform_vectors(150, seed=4, task="set"),
}


def built_size(name: str, data: Dataset) -> Size | None:
    method = get(name)
    if data.task not in method.tasks:
        return None
    try:
        construction = method.build(data, {}, np.random.default_rng(0), None)
    except (AssumptionViolated, UsageError):
        return None
    return size_of_network(construction.memoriser.network)


@checks("KS25-T4.2", "KS25-T B.2", "KS25-R4.4", "KS25-R4.6", "KS25-T4.3", "KS25-T B.3")
@pytest.mark.parametrize("problem", sorted(PROBLEMS))
def test_nothing_built_is_below_a_lower_bound(problem: str) -> None:
    data = PROBLEMS[problem]()
    bounds = table(data)
    n_built = 0
    for name in names():
        size = built_size(name, data)
        if size is None:
            continue
        n_built += 1
        for bound in bounds.of("parameters", "lower"):
            assert size.parameters_dense >= Fraction(bound.value), (name, bound)
        if size.weight_bits not in (32, 64):  # an exact network: its bits are counted one by one
            for bound in bounds.of("bits", "lower"):
                assert size.stored_bits >= Fraction(bound.value), (name, bound)
    assert n_built >= {"single vectors": 5, "sets": 2}.get(problem, 2)


def test_there_is_something_to_compare_with() -> None:
    bounds = table(PROBLEMS["single vectors"]())
    assert [bound.value for bound in bounds.of("bits", "lower")] == [1200]  # 300 labels of 4 bits
    assert max(bound.value for bound in bounds.of("parameters", "lower")) > 10
