"""Circuits both layouts are made of: reflections, thresholds, and digits taken off a number.

All act on whole numbers. A reflection is one unit, a threshold two; both are exact in floats as long as the numbers are.
Wide blocks say how many units they have before the units are made, so that a layout is sized without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import prod

import numpy as np

from byheart.construct.retrieval.layout import X, Z
from byheart.network.exact.dyadic import Number
from byheart.program.blocks import Block, Unit, threshold
from byheart.program.lazy_units import LazyUnits

HALF = Fraction(1, 2)


def reflect_above(register: str, first: int) -> Unit:
    """z ↦ 2·first - 1 - z for whole z >= first, else z: a fold between first - 1 and first."""
    return Unit({register: 1}, HALF - first, {register: -2})


def pattern_blocks(
    groups: Sequence[int],
    choices: Sequence[int],
    pattern_fields: Sequence[Sequence[int]],
    registers: Sequence[str],
    place: int,
    channels: Sequence[str],
    rests: Sequence[int] | None,
    steps: Sequence[int],
) -> Iterator[Block]:
    """Take the digits off the pattern fields one by one: every channel gets the rest of its part, and a chosen one gets the step
    of its part more.

    There may be several parts of Σ groups channels each; they are treated in the same way, with different rests and steps.
    The digits of a pattern field count from `place` up; what lies below stays in its register.
    Digit 0 of the first group names its first channel; digit 0 of a later group names none. Without rests nothing is
    added to any channel at the start, and the first group's first channel must have been given its step already.
    """
    first_channel = np.concatenate([[0], np.cumsum(groups)])
    parts = [channels[start : start + sum(groups)] for start in range(0, len(channels), sum(groups))]
    weights = [place * prod(choices[g] for g in field) for field in pattern_fields]
    for turn in range(max(len(field) for field in pattern_fields)):
        adds: dict[str, Number] = {}
        if turn == 0 and rests is not None:
            adds = {name: rest for part, rest in zip(parts, rests, strict=True) for name in part}
        digits: list[tuple[int, str, int]] = []
        for number, field in enumerate(pattern_fields):
            if turn < len(field):
                weights[number] //= choices[field[turn]]
                digits.append((field[turn], registers[number], weights[number]))
                if field[turn] == 0 and rests is not None:
                    firsts = zip(parts, rests, steps, strict=True)
                    adds.update({part[0]: rest + step for part, rest, step in firsts})

        n_units = sum(2 * (choices[group] - 1) for group, _, _ in digits)
        make = partial(_pattern_unit, digits, choices, first_channel, parts, steps)
        yield Block(LazyUnits(n_units, make), adds, "pattern")


def _pattern_unit(
    digits: Sequence[tuple[int, str, int]],
    choices: Sequence[int],
    first_channel: np.ndarray,
    parts: Sequence[Sequence[str]],
    steps: Sequence[int],
    at: int,
) -> Unit:
    """Two units for each digit but 0 of each (group, register, weight of the digit)."""
    number = 0
    while at >= 2 * (choices[digits[number][0]] - 1):
        at -= 2 * (choices[digits[number][0]] - 1)
        number += 1
    group, register, weight = digits[number]
    digit = at // 2 + 1
    chosen = int(first_channel[group]) + digit - (group > 0)
    writes: dict[str, Number] = {register: -weight}
    for channels, step in zip(parts, steps, strict=True):
        writes[channels[chosen]] = step
        if digit > 1 or group == 0:
            writes[channels[chosen - 1]] = -step
    return threshold(register, digit * weight, writes)[at % 2]


def window_blocks(weight: int, window_bits: int, n_rows: int, hold: Mapping[str, Number]) -> Iterator[Block]:
    """Take the top digit of base 2^window_bits off z, bit by bit, step x by it, and turn x back into [0, n_rows).

    `weight` is the base of z; `hold` as in `threshold`. A window of one row needs nothing.
    """
    if not window_bits:
        return
    for bit in reversed(range(window_bits)):
        weight >>= 1
        step = threshold(Z, weight, {Z: -weight, X: 2**bit}, hold)
        is_first = bit == window_bits - 1
        yield Block(step, {X: -(2 ** (window_bits - 1))} if is_first else {}, "window")
    back = Unit({X: -1}, -HALF, {X: 2})
    yield Block((back, reflect_above(X, n_rows)), {}, "reflect")


def within_shards(steps: Iterable[Block], n_shards: int, shard_rows: int, kept: str) -> Iterator[Block]:
    """Make `steps` work on the row within its shard: meanwhile the shard's first row is in the register `kept`, which is zero
    before and after.
    """
    if n_shards > 1:
        yield Block(LazyUnits(2 * (n_shards - 1), partial(_shard_unit, shard_rows, kept)), {}, "shard")
    yield from steps
    if n_shards > 1:
        yield Block((Unit({kept: 1}, 0, {kept: -1, X: 1}),), {}, "shard")


def _shard_unit(shard_rows: int, kept: str, at: int) -> Unit:
    """Two units for each shard but the first."""
    return threshold(X, (at // 2 + 1) * shard_rows, {X: -shard_rows, kept: shard_rows})[at % 2]
