"""Circuits that all layouts of retrieval networks use: reflections, thresholds, and the extraction of digits from a number.

All of them work on integers. A reflection needs one hidden unit, and a threshold two; both are exact as long as floats can
represent all numbers that occur. The number of units of a wide block is known before the units are created, so the size of a layout
is known without building it.
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
    """Return a unit that maps the integer z in `register` to 2·first - 1 - z if z >= first, else to z."""
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
    """Extract the digits of the pattern fields one by one, and mark the channels (words of a table row) that they select.

    A pattern field is a number in one of the `registers`. It has one digit for each of its groups of channels, which
    `pattern_fields` lists for each field. In the first group of all, digit d selects channel d. In every other group, digit 0
    selects no channel, and digit d > 0 selects channel d - 1.

    `channels` names the registers to mark: a list with one register for each channel, or several such lists, one after the other.
    Each list has a number in `rests`, which is added to all its registers, and a number in `steps`, which is also added to its
    registers for the selected channels.

    place   the place value of the lowest digit to extract; the part of the number below it stays in the register
    rests   if None, nothing is added to channels that are not selected, and the caller must already have added the step to the
            first channel of the first group
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
    """Return hidden unit number `at` of one block of `pattern_blocks`.

    `digits` lists the digits that this block extracts, each as (group, register, place value). For each digit, the block has two
    units for every value of the digit except 0.
    """
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
    """Yield blocks that move the row number x to a nearby row. The top digit of the register z determines the step.

    The digit has base B = 2^window_bits. It is removed from z bit by bit, and digit - B/2 is added to x, which is then reflected
    into [0, n_rows). z has `weight` possible values. `hold` is a linear form that is added to z; where its value is sufficiently
    negative, no digit is removed. If window_bits is 0, no blocks are needed.
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


def within_shards(
    steps: Iterable[Block], n_shards: int, shard_rows: int, kept: str, margin_rows: int = 0
) -> Iterator[Block]:
    """Yield `steps` between two blocks, so that the register x holds the number of the row within its shard during these steps.

    The block before the steps writes the number of the shard's first row to the register `kept`, which was zero. The block after
    the steps adds this number to x and sets `kept` to zero. If there is only one shard, `steps` are yielded alone.

    A shard may have margins: the first and the last `margin_rows` of its rows. The row number in x does not count them before the
    first block, but counts them afterwards.
    """
    if n_shards > 1:
        make = partial(_shard_unit, shard_rows - 2 * margin_rows, shard_rows, kept)
        yield Block(LazyUnits(2 * (n_shards - 1), make), {X: margin_rows} if margin_rows else {}, "shard")
    yield from steps
    if n_shards > 1:
        yield Block((Unit({kept: 1}, 0, {kept: -1, X: 1}),), {}, "shard")


def _shard_unit(n_counted: int, shard_rows: int, kept: str, at: int) -> Unit:
    """Return hidden unit number `at` of the block that finds a row's shard. Every shard except the first has two units."""
    return threshold(X, (at // 2 + 1) * n_counted, {X: -n_counted, kept: shard_rows})[at % 2]
