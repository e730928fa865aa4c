"""The moves of an `Arrangement` as residual blocks on four registers, in whole numbers throughout.

Points are moved in place, from the top of the line downwards: a point that has been moved lies below every
threshold that is still to come, so each threshold sees exactly the points it is meant for, and no copy of the
old place is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from byheart.construct.park_2021.arrangement import Arrangement, Segment
from byheart.network.exact.dyadic import Number
from byheart.program.blocks import Block, Blocks, Unit

PLACE, WORD, FIELD, ANSWER = "place", "word", "field", "answer"
REGISTERS = (PLACE, WORD, FIELD, ANSWER)

FOLD_UNITS, MOVE_UNITS, BIT_UNITS, FIELD_UNITS, FIRST_FIELD_UNITS = 1, 2, 2, 6, 4
"""Hidden units of a fold, of a move to a segment or bucket, of a bit, and of the block that opens a field."""


def at_least(register: str, threshold: int, writes: Mapping[str, int]) -> tuple[Unit, Unit]:
    """Add `writes` if the integer in `register` is at least `threshold`: ReLU(x - t + 1) - ReLU(x - t)."""
    return (
        Unit({register: 1}, 1 - threshold, dict(writes)),
        Unit({register: 1}, -threshold, {name: -value for name, value in writes.items()}),
    )


def fold_steps(mirrors: Sequence[int], offset: Number) -> Blocks:
    """x ← x + offset, then x ← x - 2·ReLU(x - μ/2) for every mirror μ."""
    steps = []
    for number, mirror in enumerate(mirrors):
        shift: Number = offset if number == 0 else 0
        assert isinstance(shift, (int, Fraction))
        unit = Unit({PLACE: 1}, shift - Fraction(mirror, 2), {PLACE: -2})
        steps.append(Block((unit,), {PLACE: shift} if shift else {}))
    if not steps:  # nothing to fold: an idle unit beside the offset
        steps.append(Block((Unit({}, 0, {}),), {PLACE: offset}))
    return tuple(steps)


def segment_steps(segments: Sequence[Segment], extent: int) -> Blocks:
    """From x to x - start + target - extent < 0 in each segment, the highest first."""
    return tuple(
        Block(at_least(PLACE, segment.start, {PLACE: segment.target - segment.start - extent}))
        for segment in reversed(segments)
    )


def bucket_steps(
    starts: Sequence[int], words: Sequence[int], n_fields: int, extent: int, base: int
) -> Blocks:
    """From place + base to (place - start) + base - n_fields, adding the bucket's word, the highest first.

    `base` is 0, or -extent after segments. Moved points are below `base`, the least threshold.
    """
    return tuple(
        Block(at_least(PLACE, start + base, {PLACE: -start - n_fields, WORD: word}))
        for start, word in zip(reversed(starts), reversed(words), strict=True)
    )


def extraction_steps(n_fields: int, field_bits: int, base: int) -> Blocks:
    """Read the fields of the word from the top, and add the one whose number is in `place` to the answer.

    Assumes:    place = number + base - n_fields; word = Σ field_q · 2^(q·field bits).
    Guarantee:  exact. Register `field` holds the field's value if its number is the point's, and a negative
                number otherwise, so that ReLU lets the right one through.
    """
    steps = []
    gate = 1 << field_bits
    for number in reversed(range(n_fields)):
        # hit: the point's number is `number`, for larger ones have been moved away below all thresholds
        units = list(at_least(PLACE, number + base - n_fields, {PLACE: -n_fields, FIELD: gate}))
        if number < n_fields - 1:
            units.append(Unit({FIELD: 1}, 0, {FIELD: -1, ANSWER: 1}))
            units.append(Unit({FIELD: -1}, 0, {FIELD: 1}))
        for bit in range(field_bits):
            worth = 1 << (field_bits - 1 - bit)
            place_value = worth << (number * field_bits)
            units += at_least(WORD, place_value, {WORD: -place_value, FIELD: worth})
            steps.append(Block(tuple(units), {FIELD: -gate} if bit == 0 else {}))
            units = []
    steps.append(Block((Unit({FIELD: 1}, 0, {ANSWER: 1}),), {ANSWER: 1}))
    return tuple(steps)


def lookup_program(arrangement: Arrangement, words: Sequence[int], field_bits: int, offset: Number) -> Blocks:
    """All phases, one after the other. The answer is the field's value plus one."""
    base = -arrangement.extent if arrangement.segments else 0
    return (
        *fold_steps(arrangement.mirrors, offset),
        *segment_steps(arrangement.segments, arrangement.extent),
        *bucket_steps(arrangement.starts, words, arrangement.n_fields, arrangement.extent, base),
        *extraction_steps(arrangement.n_fields, field_bits, base),
    )
