"""Circuits both layouts are made of: reflections, thresholds, and digits taken off a word.

All act on whole numbers. A reflection is one unit, a threshold two; both are exact in floats as long as the numbers are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod

import numpy as np

from byheart.construct.retrieval.layout import SLOT_X, SLOT_Z
from byheart.construct.retrieval.units import Block, Shape, Unit, Weight

HALF = Fraction(1, 2)


def reflect_above(slot: int, first: int) -> Unit:
    """z ↦ 2·first - 1 - z for whole z >= first, else z: a fold between first - 1 and first."""
    return Unit({slot: 1}, HALF - first, {slot: -2})


def threshold(
    slot: int, least: int, writes: Mapping[int, Weight], hold: Mapping[int, Weight] | None = None
) -> tuple[Unit, Unit]:
    """Add `writes` if the whole number in `slot` is at least `least`: ReLU(z - least + 1) - ReLU(z - least) is 0 or 1.

    `hold` adds to what is read, to hold the threshold back where another slot says so.
    """
    reads = {slot: 1, **(hold or {})}
    return (
        Unit(reads, 1 - least, dict(writes)),
        Unit(reads, -least, {target: -weight for target, weight in writes.items()}),
    )


def pattern_shapes(choices: Sequence[int], pattern_words: Sequence[Sequence[int]]) -> tuple[Shape, ...]:
    """The blocks of `pattern_blocks`."""
    shapes = []
    for step in range(max(len(groups) for groups in pattern_words)):
        taken = [groups[step] for groups in pattern_words if step < len(groups)]
        shapes.append(Shape("pattern", sum(2 * (choices[g] - 1) for g in taken)))
    return tuple(shapes)


def pattern_blocks(
    groups: Sequence[int],
    choices: Sequence[int],
    pattern_words: Sequence[Sequence[int]],
    slots: Sequence[int],
    place: int,
    first_slot: int,
    rest: int,
    step: int,
) -> Iterator[Block]:
    """Take one digit after the other off the pattern words: every channel gets `rest`, a chosen one `step` more.

    The digits of a pattern word count from `place` up; what lies below stays in its slot.
    Digit 0 of the first group names its first channel; digit 0 of a later group names none. With rest = 0 nothing is
    added to any channel at the start, and the first group's first channel must have been given its `step` already.
    """
    first_channel = np.concatenate([[0], np.cumsum(groups)]) + first_slot
    weights = [place * prod(choices[g] for g in word) for word in pattern_words]
    for turn in range(max(len(word) for word in pattern_words)):
        units: list[Unit] = []
        adds: dict[int, Weight] = (
            {first_slot + o: rest for o in range(sum(groups))} if turn == 0 and rest else {}
        )
        for number, word in enumerate(pattern_words):
            if turn >= len(word):
                continue
            group, slot = word[turn], slots[number]
            weights[number] //= choices[group]
            weight, first = weights[number], int(first_channel[group])
            if group == 0 and rest:
                adds[first] = rest + step
            for digit in range(1, choices[group]):
                chosen = first + digit - (group > 0)
                writes: dict[int, Weight] = {slot: -weight, chosen: step}
                if digit > 1 or group == 0:
                    writes[chosen - 1] = -step
                units += threshold(slot, digit * weight, writes)
        yield Block("pattern", units, adds)


def window_blocks(weight: int, window_bits: int, n_rows: int, hold: Mapping[int, Weight]) -> Iterator[Block]:
    """Take the top digit of base 2^window_bits off z, bit by bit, step x by it, and turn x back into [0, n_rows).

    `weight` is the base of z; `hold` as in `threshold`.
    """
    for bit in reversed(range(window_bits)):
        weight >>= 1
        step = threshold(SLOT_Z, weight, {SLOT_Z: -weight, SLOT_X: 2**bit}, hold)
        is_first = bit == window_bits - 1
        yield Block("window", step, {SLOT_X: -(2 ** (window_bits - 1))} if is_first else {})
    back = Unit({SLOT_X: -1}, -HALF, {SLOT_X: 2})
    yield Block("reflect", (back, reflect_above(SLOT_X, n_rows)))


def window_shapes(window_bits: int) -> tuple[Shape, ...]:
    """The blocks of `window_blocks`; a window of one row needs none."""
    return (*[Shape("window", 2)] * window_bits, Shape("reflect", 2)) if window_bits else ()
