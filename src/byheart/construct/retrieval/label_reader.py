"""From the sum of the touched words to the label, by reflections.

Let y = Σ words, X = 4·(y - centre·2^word_bits) + 1. X is odd, so reflecting it at a multiple of 2 never meets it, and X ↦ 2C - X
complements every bit of X above bit 0 (and -X likewise). Bits of X from the top: after |X| and the reflections at 2^e, 2^(e-1), …,
whether |…| exceeds 2^b says X_b xor X_{b+1}: the Gray bit. X_{b+2} = y_b below word_bits and X_1 = 0, so
    (bit seen at 2^(b+1)) = y_b xor y_{b-1},  y_{-1} = 0.
A key in plane p wants b = p·field_bits + i for i = field_bits - 1, …, 0: reflections at t·2^r with t = 2^(p·field_bits + 1).
For r >= field_bits they are silent, then each label bit is read where it is reflected.

In floats: |X| < 2^(word_bits + 2 + headroom_bits) <= 2^mantissa, all whole. A reflection whose place t·2^r lies above |X| may be
rounded, but x - t·2^r stays negative under any rounding and in any order, and ReLU makes it exactly zero.

Parts: a field too long for a word lies in several, of which the first has its lowest bits. The highest part is read first. All bits
above the label are zero for a key; each that is not adds 2^label_bits, so the answer is no label and yet fits the mantissa.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial

from byheart.construct.retrieval.gadgets import LazyUnits
from byheart.construct.retrieval.layout import LABEL, RetrievalLayout, T, X, Z
from byheart.network.exact.dyadic import Number
from byheart.program.blocks import Block, Repeat, Step, Unit, typical

WORD_SCALE = 4
"""Words enter the tables times 4: two bits below them are needed to read y_0."""


def label_steps(layout: RetrievalLayout, centres: Sequence[int] | None) -> Iterator[Step]:
    """The circuit that starts with x at 1, words in their registers, the plane in z, and ends with label + 1.

    centres: of each part. Without them it stands for those of any draw, and is only counted.
    """
    for part in reversed(range(layout.n_parts)):
        yield from _part_steps(layout, part, None if centres is None else centres[part])


def _part_steps(layout: RetrievalLayout, part: int, centre: int | None) -> Iterator[Step]:
    """One part: add up its words, remove what lies above its field, and add its bits to the label."""
    is_first = part == layout.n_parts - 1
    if not is_first:
        yield Block((Unit({X: 1}, 0, {X: -1}),), {X: 1}, "clear")  # what is left of the last part is positive
    yield _sum_block(layout, part, centre, is_first)
    yield Block((Unit({X: -1}, 0, {X: 2}),), {}, "absolute")
    first = layout.field_bits
    if centre is None:
        middle = typical(first + layout.n_reading_folds // 2 + 1)
        yield Repeat(layout.n_reading_folds, (_silent_block(middle),))
    else:
        for r in reversed(range(first, first + layout.n_reading_folds)):
            yield _silent_block(-(2**r))
    for i in reversed(range(layout.field_bits)):
        # x - t·2^i is odd, so ReLU(x - t·2^i + 1) - ReLU(x - t·2^i - 1) is 2 or 0, and their sum is 2·ReLU(x - t·2^i)
        reads: dict[str, Number] = {X: 1, T: -(2**i)}
        bit = part * layout.field_bits + i
        half = Fraction(2**bit if layout.n_parts == 1 else 2 ** min(bit, layout.label_bits), 2)
        above = Unit(reads, 1, {X: -1, LABEL: half})
        below = Unit(reads, -1, {X: -1, LABEL: -half})
        yield Block((above, below), {LABEL: 1} if bit == 0 else {}, "label" if part == 0 else "fingerprint")


def _silent_block(place: Number) -> Block:
    return Block((Unit({X: 1, T: place}, 0, {X: -2}),), {}, "silent")


def _sum_block(layout: RetrievalLayout, part: int, centre: int | None, is_first: bool) -> Block:
    """Add up the unmasked words, take off the centre, and at first turn the plane p into t = 2^(p·field_bits + 1).

    t is convex in p: t(0) + Σ_i (second difference) · ReLU(p - i), every term positive, so no partial sum exceeds t itself.
    The constant of X is a multiple of 4 here and the 1 is already in place, so partial sums are multiples of 4.
    """
    if centre is None:
        constant: Number = typical(layout.word_bits + 2 + layout.headroom_bits)
    else:
        constant = -WORD_SCALE * centre * 2**layout.word_bits
    n_units = layout.n_channels + (layout.n_planes - 1 if is_first else 0)
    units = LazyUnits(n_units, partial(_sum_unit, layout, layout.part_registers(part)))
    return Block(units, {X: constant, T: 2} if is_first else {X: constant}, "sum")


def _sum_unit(layout: RetrievalLayout, channels: Sequence[str], at: int) -> Unit:
    """First a unit for each channel, then one for each plane but the last."""
    if at < layout.n_channels:
        return Unit({channels[at]: 1}, 0, {X: 1})
    p, bits = at - layout.n_channels, layout.field_bits
    rise = 2 ** (p * bits + 1) * (2**bits - 1)  # t(p + 1) - t(p)
    return Unit({Z: 1}, -p, {T: rise - (rise >> bits if p else 0)})
