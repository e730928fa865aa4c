"""Lemmas C.1 and B.3: labels at the given numbers, zero elsewhere, and the size that was planned."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.program.count import count_steps
from byheart.program.lookup import (
    LookupPlan,
    memorise_points,
    plan_lookup,
    weigh_tokens,
)
from byheart.theorems import checks
from tests.examples import examples

from .programs import run_all
from .test_gadgets import spaced_numbers

WIDTH = 10


@checks("KS25-L C.1")
@examples(60)
@given(spaced_numbers(), st.integers(1, 5), st.integers(1, 6), st.data())
def test_labels_here_and_zero_elsewhere(
    numbers: list[Fraction], group_size: int, label_bits: int, data: st.DataObject
) -> None:
    is_labelled = [data.draw(st.booleans()) for _ in numbers]
    labelled = {
        x: data.draw(st.integers(1, 2**label_bits - 1))
        for x, kept in zip(numbers, is_labelled, strict=True)
        if kept
    }
    if not labelled:
        return
    key_bits = int(numbers[-1]).bit_length()
    program = memorise_points(labelled, LookupPlan(len(labelled), key_bits, label_bits, group_size))
    for x, after in zip(numbers, run_all(program, [{"x": x} for x in numbers]), strict=True):
        assert after["answer"] == labelled.get(x, 0)


@checks("KS25-L C.1")
@examples(60)
@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 12), st.integers(1, 9))
def test_a_plan_counts_its_blocks(n_points: int, key_bits: int, label_bits: int, group_size: int) -> None:
    key_bits = max(key_bits, (2 * n_points + 2).bit_length())
    plan = LookupPlan(n_points, key_bits, label_bits, min(group_size, n_points))
    blocks = memorise_points({Fraction(2 * i + 2): 1 for i in range(n_points)}, plan)
    built, outline = count_steps(blocks, WIDTH), count_steps(plan.outline(), WIDTH)
    assert built.parameters_dense == outline.parameters_dense
    assert (built.depth, built.width) == (outline.depth, outline.width)
    assert len(blocks) == plan.n_groups + plan.group_size * (max(key_bits, label_bits) + 2) + 1
    assert built.weight_bits <= outline.weight_bits
    assert built.parameters_nonzero <= outline.parameters_nonzero <= 1.2 * built.parameters_nonzero


@pytest.mark.parametrize("n_points", [1, 2, 3, 7, 50, 99, 1000, 4321])
@pytest.mark.parametrize("bits", [(1, 1), (9, 5), (33, 17), (5, 12)])
def test_the_planned_group_size_is_the_best(n_points: int, bits: tuple[int, int]) -> None:
    chosen = plan_lookup(n_points, *bits, WIDTH).parameters(WIDTH)
    best = min(LookupPlan(n_points, *bits, k).parameters(WIDTH) for k in range(1, n_points + 1))
    assert chosen == best


@checks("KS25-L B.3")
@examples(60)
@given(spaced_numbers(), st.data())
def test_tokens_are_weighed(numbers: list[Fraction], data: st.DataObject) -> None:
    weights = {
        token: data.draw(st.integers(1, 1000)) for token in range(len(numbers)) if data.draw(st.booleans())
    }
    plan = None
    if weights:
        largest = max(weights.values())
        plan = plan_lookup(len(weights), int(numbers[-1]).bit_length(), largest.bit_length(), WIDTH)
    program = weigh_tokens(numbers, weights, plan)
    assert (program == ()) == (not weights)
    found = run_all(program, [{"x": x, "answer": 0} for x in numbers])
    assert [after["answer"] for after in found] == [weights.get(token, 0) for token in range(len(numbers))]
