"""Data made to break constructions: each is memorised to the last label, or refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from byheart.construct.registry import get
from byheart.data import ADVERSARIAL, Dataset
from byheart.data.dataset import Task
from byheart.data.generators import random_labels
from byheart.errors import AssumptionViolated, ConflictingLabels, DataError, NonFiniteInput

from .rival_data import answers, compiled

METHODS = (
    "kajitsuka-sato-2025",
    "kajitsuka-sato-2025-bits",
    "kajitsuka-sato-2025-sparse",
    "kim-2023",
    "kajitsuka-sato-2023",
    "vardi-2022",
    "park-2021",
    "two-layer-relu",
)
SINGLE = ("vardi-2022", "park-2021", "two-layer-relu")
UNMEMORISABLE = {
    "conflicting-labels": ConflictingLabels,
    "not-a-number": NonFiniteInput,
    "infinite": NonFiniteInput,
}


@cache
def adversary(name: str, task: Task) -> Dataset:
    """The adversary, its inputs labelled anew where the task is not its own."""
    data = ADVERSARIAL[name](7)
    if data.task == task:
        return data
    if ADVERSARIAL[name].refused:  # the fault lies in its own labels or values: one label more often
        per_sample = data.seq_len if task == "seq-to-seq" else 1
        return Dataset(
            data.inputs, np.repeat(data.labels, per_sample), task, data.label_names, None, ordered=False
        )
    ordered = data.ordered and task != "set"
    relabelled = random_labels(data.inputs, data.n_classes, np.random.default_rng(7), task, ordered)
    return replace(relabelled, tokenizer=data.tokenizer)


def is_quick(method: str, precision: str, name: str, task: Task) -> bool:
    """Whether a case belongs to the default run: each method in its first precision, on its first task that fits."""
    if name == "sparse-vocabulary":  # a table of a million tokens takes seconds to make
        return False
    first = "seq-to-seq" if method == "kajitsuka-sato-2025-sparse" else "next-token"
    return precision == get(method).precisions[0] and task == first


CASES = [
    pytest.param(
        method,
        precision,
        task,
        name,
        marks=[] if is_quick(method, precision, name, task) else [pytest.mark.slow],
    )
    for method in METHODS
    for precision, task, name in product(get(method).precisions, get(method).tasks, ADVERSARIAL)
]


@pytest.mark.parametrize(("method", "precision", "task", "name"), CASES)
def test_memorised_or_refused_with_the_reason(method: str, precision: str, task: Task, name: str) -> None:
    data = adversary(name, task)
    options = {} if precision == get(method).precisions[0] else {"precision": precision}
    try:
        construction = compiled(method, data, **options)
    except DataError as refusal:
        assert_the_reason_is_given(refusal, method, precision, name, data)
    else:
        assert name not in UNMEMORISABLE
        assert construction.memory.network.precision == precision
        assert (answers(construction, data) == data.labels).all()


def assert_the_reason_is_given(
    refusal: DataError, method: str, precision: str, name: str, data: Dataset
) -> None:
    """What nothing memorises is refused as such; all else is refused for one token a sample, or for floats alone."""
    if method in SINGLE and data.seq_len > 1:
        assert isinstance(refusal, AssumptionViolated)
        assert f"up to {data.seq_len} tokens" in str(refusal)
    elif name in UNMEMORISABLE:
        assert isinstance(refusal, UNMEMORISABLE[name])
        assert "row" in str(refusal)
    else:
        assert precision != "exact"
        assert isinstance(refusal, AssumptionViolated)
        assert precision in str(refusal)
        assert "  " in str(refusal)  # what to do instead, on a line of its own


def test_floats_do_not_refuse_everything() -> None:
    """Exact constructions refuse nothing that can be memorised, by the test above; floats refuse the few that need more bits."""
    taken = 0
    for name in ADVERSARIAL:
        if name != "sparse-vocabulary" and name not in UNMEMORISABLE:
            try:
                compiled("kajitsuka-sato-2023", adversary(name, ADVERSARIAL[name](7).task))
            except AssumptionViolated:
                continue
            taken += 1
    assert taken > 15
