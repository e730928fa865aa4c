"""What every construction KS25 is compared with must do: memorise, know its size, refuse with a reason."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from byheart.construct.registry import candidates, get
from byheart.data import Dataset, VectorSequences
from byheart.data.generators import grid_vectors, random_tokens, uniform_vectors
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError
from tests.adversarial import ADVERSARIAL
from tests.refusal import refused

from .rival_data import answers, compiled, flattened

LONG = "huge-and-denormal"
SINGLE = ("vardi-2022", "park-2021", "two-layer-relu")
SEQUENCES = ("kim-2023", "kajitsuka-sato-2023")
ALL = SINGLE + SEQUENCES
JOINED = [
    name
    for name, adversary in ADVERSARIAL.items()
    if not adversary.refused
    and isinstance(adversary(0).inputs, VectorSequences)
    and adversary(0).task == "next-token"
]


def random_data(method: str, n_samples: int, seed: int = 0) -> Dataset:
    if method in SINGLE:
        return uniform_vectors(n_samples, 1, 4, seed=seed)
    return uniform_vectors(n_samples, 4, 4, seed=seed, task="seq-to-seq")


@pytest.mark.parametrize("method", SINGLE)
def test_grids_and_tokens_one_each(method: str) -> None:
    for data in (grid_vectors(400, 1, 3, levels=9, seed=1), random_tokens(300, 1, 2000, seed=2)):
        assert (answers(compiled(method, data), data) == data.labels).all()


@pytest.mark.parametrize("method", SEQUENCES)
def test_grids_and_tokens_in_sequences(method: str) -> None:
    for data in (
        grid_vectors(80, 6, 2, levels=3, seed=1, task="seq-to-seq"),
        random_tokens(100, 6, 20, seed=2, min_len=1, task="seq-to-seq"),
        random_tokens(100, 6, 20, seed=3, min_len=1, task="seq-to-seq", ordered=False),
        random_tokens(150, 6, 20, seed=4),
    ):
        assert (answers(compiled(method, data), data) == data.labels).all()


@pytest.mark.parametrize(
    ("name", "method"),
    [  # numbers 2,000 bits apart take seconds: one method is enough for these
        pytest.param(name, method, marks=pytest.mark.slow if name == LONG and method != SINGLE[-1] else [])
        for name, method in product(JOINED, SINGLE)
    ],
)
def test_adversaries_joined_into_one_vector_are_memorised(method: str, name: str) -> None:
    data = flattened(ADVERSARIAL[name](7))
    assert (answers(compiled(method, data), data) == data.labels).all()


@pytest.mark.parametrize("method", SINGLE)
def test_sequences_are_refused_by_what_sees_one_vector(method: str) -> None:
    data = uniform_vectors(5, 3, 2, seed=0)
    with refused(AssumptionViolated, "method", seq_len=3):
        compiled(method, data)
    with refused(AssumptionViolated, "method", seq_len=3):
        get(method).estimate(DataShape.of(data))


def test_auto_passes_over_what_does_not_apply() -> None:
    several = candidates("auto", "exact", DataShape.of(uniform_vectors(50, 3, 2, seed=0)))
    assert not {method.name for method in several} & set(SINGLE)
    alone = candidates("auto", "exact", DataShape.of(uniform_vectors(50, 1, 2, seed=0)))
    assert alone[0].name in SINGLE


@pytest.mark.parametrize("method", ALL)
def test_another_label_is_noticed(method: str) -> None:
    data = random_data(method, 30)
    changed = data.labels.copy()
    changed[17] = (changed[17] + 1) % data.n_classes
    assert np.flatnonzero(answers(compiled(method, data), data) != changed).tolist() == [17]


@pytest.mark.parametrize("method", ALL)
def test_unknown_options_are_refused(method: str) -> None:
    with refused(UsageError, "problem"):
        compiled(method, random_data(method, 3), colour=1)


@pytest.mark.parametrize("method", ALL)
def test_the_same_seed_gives_the_same_weights(method: str) -> None:
    data = random_data(method, 25, seed=9)
    first, second = (compiled(method, data, seed=4).memoriser.network for _ in range(2))
    for (name, left), (_, right) in zip(first.parameters(), second.parameters(), strict=True):
        assert np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right, name
