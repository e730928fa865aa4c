"""Pass `read`: from the sum of the touched words to the label, by reflections.

Let y = Σ words, X = 4·(y - centre·2^word_bits) + 1. X is odd, so reflecting it at a multiple of 2 never meets it, and X ↦ 2C - X
complements every bit of X above bit 0 (and -X likewise). Bits of X from the top: after |X| and the reflections at 2^e, 2^(e-1), …,
whether |…| exceeds 2^b says X_b xor X_{b+1}: the Gray bit. X_{b+2} = y_b below word_bits and X_1 = 0, so
    (bit seen at 2^(b+1)) = y_b xor y_{b-1},  y_{-1} = 0.
A key in plane p wants b = p·field_bits + i for i = field_bits - 1, …, 0: reflections at t·2^r with t = 2^(p·field_bits + 1).
For r >= field_bits they are silent, then each label bit is read where it is reflected.

In floats: |X| < 2^(word_bits + 2 + headroom_bits) <= 2^mantissa, all whole. A reflection whose place t·2^r lies above |X| may be
rounded, but x - t·2^r stays negative under any rounding and in any order, and ReLU makes it exactly zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from byheart.construct.retrieval.layout import SLOT_LABEL, SLOT_T, SLOT_X, SLOT_Z, Layout
from byheart.construct.retrieval.units import Block, Unit, Weight

WORD_SCALE = 4
"""Words enter the tables times 4: two bits below them are needed to read y_0."""


def reading_blocks(layout: Layout, centre: int) -> Iterator[Block]:
    """The circuit that starts with X's slot at 1, words in their slots, the plane in the last word, and ends with label + 1."""
    yield _sum_block(layout, centre)
    yield Block("absolute", (Unit({SLOT_X: -1}, 0, {SLOT_X: 2}),))
    for r in reversed(range(layout.field_bits, layout.field_bits + layout.n_reading_folds)):
        yield Block("silent", (Unit({SLOT_X: 1, SLOT_T: -(2**r)}, 0, {SLOT_X: -2}),))
    for i in reversed(range(layout.field_bits)):
        # x - t·2^i is odd, so ReLU(x - t·2^i + 1) - ReLU(x - t·2^i - 1) is 2 or 0, and their sum is 2·ReLU(x - t·2^i)
        reads: dict[int, Weight] = {SLOT_X: 1, SLOT_T: -(2**i)}
        half = Fraction(2**i, 2)
        above = Unit(reads, 1, {SLOT_X: -1, SLOT_LABEL: half})
        below = Unit(reads, -1, {SLOT_X: -1, SLOT_LABEL: -half})
        yield Block("label", (above, below), {SLOT_LABEL: 1} if i == 0 else {})


def _sum_block(layout: Layout, centre: int) -> Block:
    """Add up the unmasked words, take off the centre, and turn the plane p into t = 2^(p·field_bits + 1).

    t is convex in p: t(0) + Σ_i (second difference) · ReLU(p - i), every term positive, so no partial sum exceeds t itself.
    The constant of X is a multiple of 4 here and the 1 is already in place, so partial sums are multiples of 4.
    """
    units = [Unit({layout.n_slots + o: 1}, 0, {SLOT_X: 1}) for o in range(layout.n_channels)]
    places = [2 ** (p * layout.field_bits + 1) for p in range(layout.n_planes)]
    slope = 0
    for p in range(layout.n_planes - 1):
        next_slope = places[p + 1] - places[p]
        units.append(Unit({SLOT_Z: 1}, -p, {SLOT_T: next_slope - slope}))
        slope = next_slope
    constant = -WORD_SCALE * centre * 2**layout.word_bits
    return Block("sum", tuple(units), {SLOT_X: constant, SLOT_T: places[0]})
