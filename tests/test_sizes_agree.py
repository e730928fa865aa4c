"""`bounds --data`, `compare` and `compile` name one size for the same data and method: 50 data sets at random."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from byheart.bounds import Estimate, table
from byheart.compare import compare
from byheart.construct.estimates import MOST_PLANNED, estimates_for_data, estimates_for_shape
from byheart.construct.registry import get, names
from byheart.data.dataset import Dataset, Task
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.errors import ByheartError
from byheart.pipeline import compile

TASKS: tuple[Task, ...] = ("next-token", "seq-to-seq", "set", "distribution")
METHODS_EACH = 2


def random_data(rng: Random) -> Dataset:
    """A small data set of any task: token ids of one or several lengths, vectors on a grid, or documents."""
    task = rng.choice(TASKS)
    n_samples, n_classes, vocab = rng.randint(2, 8), rng.randint(2, 4), rng.randint(3, 9)
    if task == "distribution":
        lengths = [rng.randint(2, 4) for _ in range(n_samples)]
        return Dataset.from_documents([" ".join(rng.choice("abcde") for _ in range(n)) for n in lengths])
    if rng.random() < 0.3:
        size = (n_samples, rng.choice((1, 3)), rng.choice((1, 4)))
        values = np.array([rng.randint(-50, 50) for _ in range(size[0] * size[1] * size[2])], dtype=float)
        shape = (n_samples, size[1]) if task == "seq-to-seq" else (n_samples,)
        labels = np.array([rng.randrange(n_classes) for _ in range(int(np.prod(shape)))]).reshape(shape)
        data = Dataset.from_arrays(values.reshape(size), labels, task=task, on_conflict="keep")
        return data.resolved("first")
    longest = 1 if rng.random() < 0.3 else rng.randint(2, 5)
    is_ragged = rng.random() < 0.5
    pairs = []
    for _ in range(n_samples):
        length = rng.randint(1, longest) if is_ragged else longest
        tokens = [rng.randrange(vocab) for _ in range(length)]
        many = [rng.randrange(n_classes) for _ in range(length)]
        pairs.append((tokens, many if task == "seq-to-seq" else many[0]))
    ordered = None if task == "set" else rng.random() < 0.7
    return Dataset.from_pairs(pairs, task=task, ordered=ordered, on_conflict="first")


@pytest.mark.parametrize("seed", range(50))
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
            assert told.bits == row.size.total_bits == model.size.total_bits
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
