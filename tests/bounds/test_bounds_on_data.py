"""No bound that is shown is false: 250 data sets of every task, against each other and against what is built.

Every second one is far easier than others of its shape. What some data of this shape need is therefore no bound on these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from random import Random

import numpy as np
import pytest

from byheart import compile
from byheart.bounds import BoundTable, DataShape, Estimate, NotApplicable, for_shape, plan, table
from byheart.construct.estimates import estimates_for_data
from byheart.construct.registry import get, names
from byheart.data.dataset import Dataset, Task
from byheart.errors import ByheartError, UsageError
from byheart.model import Model
from byheart.network.size import Size

from ..random_data import TASKS, random_data, structured_data

# a stock architecture, padded to its own sizes
CONSTRUCTIONS = tuple(name for name in names() if name != "llama")
SEEDS = [seed if seed < 10 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(250)]


def contradictions(found: BoundTable) -> list[str]:
    """Pairs of bounds on one quantity of which one must be false."""
    problems = []
    for above in found.applicable:
        if above.kind == "lower":
            continue
        for below in found.of(above.quantity, "lower"):
            if above.value < below.value:
                problems.append(f"{above.name} {above.value} < {below.name} {below.value}")
    return problems


def below_floor(found: BoundTable, size: Size, precision: str) -> list[str]:
    """Lower bounds for these data that a network has gone below."""
    sizes = {"parameters": size.parameters_dense}
    if precision == "exact":
        sizes["bits"] = size.stored_bits
    else:
        sizes[f"parameters of {precision.removeprefix('float')} bits"] = size.parameters_dense
    return [
        f"{size} {quantity} were built, {bound.name} says at least {bound.value}"
        for quantity, size in sizes.items()
        for bound in found.of(quantity, "lower", "these data")
        if Fraction(bound.value) > size
    ]


def built(data: Dataset, name: str) -> Model | None:
    """The model of this construction, verified on every sample; None where it refuses the data."""
    try:
        model = compile(data, method=name, precision=get(name).precisions[0])
    except ByheartError:
        return None
    assert model.certificate is not None
    assert model.certificate.holds
    return model


def problems_of(task: Task, seed: int, table: Callable[..., BoundTable]) -> list[str]:
    """What the bounds of a random data set contradict: one another, and a network that was built and verified."""
    rng = Random(1000 * (1 + TASKS.index(task)) + seed)
    data = structured_data(rng, task) if seed % 2 else random_data(rng, task)
    name = rng.choice([name for name in CONSTRUCTIONS if data.task in get(name).tasks])
    (told,) = estimates_for_data(data, [name])
    found = table(data, [told])
    problems = contradictions(found)
    model = built(data, name)
    if model is not None:
        problems += below_floor(found, model.size, model.memoriser.network.precision)
    for bound in found.applicable:
        if bound.name == "DPC24 Corollary 1":
            # the parameters leave room for so many heads of size 1; with the skip connection they must reach every context
            n_tokens = max(data.vocab or 0, data.n_classes)
            n_heads = (int(bound.value) // 2 - data.seq_len - 2 * n_tokens) // 4
            last = {int(data.inputs[i][-1]) for i in range(data.n_samples)}
            if n_heads + min(2, len(last)) < found.shape.sequence_count:
                problems.append(f"{bound.name}: {n_heads} heads do not reach every context")
    return problems


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("task", TASKS)
def test_no_bound_that_is_shown_is_false(task: Task, seed: int) -> None:
    assert problems_of(task, seed, table) == []


def test_a_false_bound_would_be_noticed() -> None:
    data = random_data(Random(1000))
    found = table(data)
    lower = next(
        bound for bound in found.applicable if bound.kind == "lower" and bound.quantity == "parameters"
    )
    wrong = replace(lower, kind="upper", value=lower.value - 1)
    assert contradictions(replace(found, applicable=(*found.applicable, wrong)))
    of_these = replace(lower, speaks_of="these data")
    assert below_floor(replace(found, applicable=(of_these,)), Size(0, 0, 0, 0, 0, 0), "exact")


def large_floors(data: Dataset, told: Sequence[Estimate | NotApplicable] = ()) -> BoundTable:
    """The table with every "at least" ten thousand times too large, said of these data, and without any "enough"."""
    found = table(data, told)
    wrong = [
        replace(each, value=10_000 * each.value + 10_000, speaks_of="these data")
        for each in found.applicable
        if each.kind == "lower"
    ]
    return replace(found, applicable=tuple(wrong))


def small_ceilings(data: Dataset, told: Sequence[Estimate | NotApplicable] = ()) -> BoundTable:
    """The table with every "enough" at nothing."""
    found = table(data, told)
    wrong = [replace(each, value=0) if each.kind == "upper" else each for each in found.applicable]
    return replace(found, applicable=tuple(wrong))


@pytest.mark.parametrize("sabotage", [large_floors, small_ceilings])
@pytest.mark.parametrize("task", TASKS)
def test_a_sabotaged_bound_is_noticed_on_data_of_every_task(
    task: Task, sabotage: Callable[..., BoundTable]
) -> None:
    assert any(problems_of(task, seed, sabotage) for seed in range(5))


def worst_case_of_these(data: Dataset, told: Sequence[Estimate | NotApplicable] = ()) -> BoundTable:
    """The table in which what some data need is said of these."""
    found = table(data, told)
    wrong = [replace(each, speaks_of="these data") for each in found.applicable if each.kind == "lower"]
    return replace(found, applicable=tuple(wrong))


def test_the_worst_case_is_no_bound_on_these_data() -> None:
    """A threshold over 3,000 points, by 11 weights that are not zero, where some labels of them take 3,000 bits."""
    values = np.arange(3000.0).reshape(-1, 1, 1)
    data = Dataset.from_arrays(values, (values[:, 0, 0] > 1500).astype(int))
    size = compile(data, method="two-layer-relu").size
    assert below_floor(table(data), size, "exact") == []
    assert below_floor(worst_case_of_these(data), size, "exact")


def test_more_samples_than_sequences_are_refused() -> None:
    for shape in (
        DataShape(1000, 3, 8, vocab=2, ordered=True),
        DataShape(5, 3, 2, vocab=2, task="set"),
        DataShape(9, 3, 2, vocab=2, ordered=True, task="seq-to-seq"),
    ):
        with pytest.raises(UsageError) as refused:
            for_shape(shape)
        assert refused.value.facts["possible"] < refused.value.facts["wanted"]
    for_shape(DataShape(8, 3, 8, vocab=2, ordered=True))
    for_shape(DataShape(4, 3, 2, vocab=2, task="set"))
    for_shape(DataShape(1000, 3, 8, vocab=2, ordered=True, n_contexts=8))  # repeated samples
    with pytest.raises(UsageError):
        plan(1000, 3, vocab=2, seq_len=3)


def test_theorems_about_sequences_count_sequences() -> None:
    """All orders of three sets of letters are three contexts where order is ignored, and 72 sequences."""
    words = ["".join(order) + "z" for letters in ("abcd", "abce", "abde") for order in permutations(letters)]
    data = Dataset.from_pairs([(word, sorted(word)[-2]) for word in words], ordered=False, on_conflict="keep")
    assert (data.n_contexts, table(data).shape.sequence_count) == (3, 72)
    by_name = {bound.name: bound.value for bound in table(data).of("parameters", "upper")}
    model = compile(data, method="madden-2024")
    assert by_name["MFT24 Theorem 5"] == model.record["theorem_size"]["parameters"]
