"""No bound that is shown is false: 200 data sets of every task at random, against each other and against what is built."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from byheart.bounds import BoundTable, Estimate, table
from byheart.construct.estimates import estimates_for_data
from byheart.construct.registry import get, names

from ..random_data import random_data

SEEDS = [seed if seed < 40 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(200)]


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


def below_floor(found: BoundTable, built: Estimate) -> list[str]:
    """Lower bounds that a network has gone below."""
    sizes = {"parameters": built.parameters}
    if built.precision == "exact":
        sizes["bits"] = built.bits
    else:
        sizes[f"parameters of {built.precision.removeprefix('float')} bits"] = built.parameters
    return [
        f"{built.name} has {size} {quantity}, {bound.name} says at least {bound.value}"
        for quantity, size in sizes.items()
        for bound in found.of(quantity, "lower")
        if Fraction(bound.value) > size
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_bound_that_is_shown_is_false(seed: int) -> None:
    rng = Random(1000 + seed)
    data = random_data(rng)
    name = rng.choice([name for name in names() if data.task in get(name).tasks])
    (told,) = estimates_for_data(data, [name])
    found = table(data, [told])
    assert contradictions(found) == []
    if isinstance(told, Estimate):
        assert told.is_planned
        assert below_floor(found, told) == []
    for bound in found.applicable:
        if bound.name == "DPC24 Corollary 1":
            # the parameters leave room for so many heads of size 1; with the skip connection they must reach every context
            n_tokens = max(data.vocab or 0, data.n_classes)
            n_heads = (int(bound.value) // 2 - data.seq_len - 2 * n_tokens) // 4
            last = {int(data.inputs[i][-1]) for i in range(data.n_samples)}
            assert n_heads + min(2, len(last)) >= found.shape.context_count


def test_a_false_bound_would_be_noticed() -> None:
    from dataclasses import replace

    data = random_data(Random(1000))
    found = table(data)
    lower = next(
        bound for bound in found.applicable if bound.kind == "lower" and bound.quantity == "parameters"
    )
    wrong = replace(lower, kind="upper", value=lower.value - 1)
    assert contradictions(replace(found, applicable=(*found.applicable, wrong)))
    tiny = Estimate("tiny", "exact", 0, 0, is_planned=True)
    assert below_floor(found, tiny)
