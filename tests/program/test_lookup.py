"""Lemmas C.1 and B.3: labels at the given numbers, zero elsewhere, and the size that was planned."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byheart.program.emit import emit_layers
from byheart.program.lookup import (
    LookupPlan,
    LookupRegisters,
    memorise_points,
    plan_lookup,
    weigh_words,
)
from byheart.theorems import checks

from .programs import run
from .test_gadgets import spaced_numbers

WIDTH = 10


@checks("KS25-L C.1")
@settings(max_examples=200, deadline=None)
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
    for x in numbers:
        assert run(program, {"x": x})["answer"] == labelled.get(x, 0)


@checks("KS25-L C.1")
@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 12), st.integers(1, 9))
def test_a_plan_counts_its_blocks(n_points: int, key_bits: int, label_bits: int, group_size: int) -> None:
    key_bits = max(key_bits, (2 * n_points + 2).bit_length())
    plan = LookupPlan(n_points, key_bits, label_bits, min(group_size, n_points))
    registers = LookupRegisters()
    names = (registers.x, *registers.words, "key", "value", "hit", registers.into, "sum")
    program = memorise_points({Fraction(2 * i + 2): 1 for i in range(n_points)}, plan, registers)
    blocks = emit_layers(program, names)
    assert len(blocks) == plan.depth
    widths = sorted(block.hidden_width for block in blocks)
    assert widths == sorted(width for count, width in plan.blocks() for _ in range(count))
    n_parameters = sum(np.prod(weights.shape) for block in blocks for _, weights in block.parameters())
    assert n_parameters == plan.parameters(WIDTH)


@pytest.mark.parametrize("n_points", [1, 2, 3, 7, 50, 99, 1000, 4321])
@pytest.mark.parametrize("bits", [(1, 1), (9, 5), (33, 17), (5, 12)])
def test_the_planned_group_size_is_the_best(n_points: int, bits: tuple[int, int]) -> None:
    chosen = plan_lookup(n_points, *bits, WIDTH).parameters(WIDTH)
    best = min(LookupPlan(n_points, *bits, k).parameters(WIDTH) for k in range(1, n_points + 1))
    assert chosen == best


@checks("KS25-L B.3")
@settings(max_examples=200, deadline=None)
@given(spaced_numbers(), st.data())
def test_words_are_weighed(numbers: list[Fraction], data: st.DataObject) -> None:
    weights = {
        word: data.draw(st.integers(1, 1000)) for word in range(len(numbers)) if data.draw(st.booleans())
    }
    program, plan = weigh_words(numbers, weights, int(numbers[-1]).bit_length(), WIDTH)
    assert (plan is None) == (not weights)
    for word, x in enumerate(numbers):
        assert run(program, {"x": x, "answer": 0})["answer"] == weights.get(word, 0)
