"""The moves of an `Arrangement` as residual blocks on four registers, in whole numbers throughout.

Points are moved in place, from the top of the line downwards: a point that has been moved lies below every
threshold that is still to come, so each threshold sees exactly the points it is meant for, and no copy of the
old place is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from byheart.construct.park_2021.arrangement import Arrangement, Segment
from byheart.network.exact.dyadic import Dyadic, Number
from byheart.program.blocks import (
    Block,
    Blocks,
    Form,
    Numbers,
    Program,
    Repeat,
    Step,
    TokenTable,
    Unit,
    mean_of_ends,
    negate,
    threshold,
    typical,
)
from byheart.program.count import count_steps

PLACE, PACKED, FIELD, ANSWER = "place", "packed", "field", "answer"
REGISTERS = (PLACE, PACKED, FIELD, ANSWER)


def fold_blocks(mirrors: Sequence[int], offset: int) -> Blocks:
    """x ← x + offset, then x ← x - 2·ReLU(x - μ/2) for every mirror μ."""
    if not mirrors:  # nothing to fold: an idle unit beside the offset
        return (Block((Unit({}, 0, {}),), {PLACE: offset}),)
    shifts = [offset, *[0] * (len(mirrors) - 1)]
    return tuple(
        _fold_block(shift - Fraction(mirror, 2), shift) for shift, mirror in zip(shifts, mirrors, strict=True)
    )


def _fold_block(bias: Number, shift: Number = 0) -> Block:
    return Block((Unit({PLACE: 1}, bias, {PLACE: -2}),), {PLACE: shift} if shift else {})


def segment_blocks(segments: Sequence[Segment], extent: int) -> Blocks:
    """From x to x - start + target - extent < 0 in each segment, the highest first."""
    return tuple(
        Block(threshold(PLACE, segment.start, {PLACE: segment.target - segment.start - extent}))
        for segment in reversed(segments)
    )


def bucket_blocks(starts: Sequence[int], packed: Sequence[int], n_fields: int, base: int) -> Blocks:
    """Blocks that subtract the start of the bucket and n_fields from a place, and add the bucket's packed fields; highest first.

    `base` is 0, or -extent after segments. Moved points are below `base`, the least threshold.
    """
    return tuple(
        Block(threshold(PLACE, start + base, {PLACE: -start - n_fields, PACKED: fields}))
        for start, fields in zip(reversed(starts), reversed(packed), strict=True)
    )


def field_blocks(number: int, n_fields: int, field_bits: int, base: int) -> Blocks:
    """Take the bits of field `number` off the packed fields, the highest first, if that is the point's own field.

    Assumes:    place = number + base - n_fields; packed = Σ field_q · 2^(q·field bits), without higher fields.
    Guarantee:  register `field` holds the field's value if its number is the point's, and a negative number
                otherwise, so that ReLU lets the right one through, into the answer, when the next field is opened.
    """
    gate = 1 << field_bits
    # hit: the point's number is `number`, for larger ones have been moved away below all thresholds
    units = list(threshold(PLACE, number + base - n_fields, {PLACE: -n_fields, FIELD: gate}))
    if number < n_fields - 1:
        units.append(Unit({FIELD: 1}, 0, {FIELD: -1, ANSWER: 1}))
        units.append(Unit({FIELD: -1}, 0, {FIELD: 1}))
    blocks = []
    for bit in range(field_bits):
        place = field_bits - 1 - bit
        exponent = number * field_bits + place  # worth 2^exponent in the packed fields, 2^place in its own
        writes: Form = {PACKED: Dyadic(-1, exponent), FIELD: 1 << place}
        units.append(Unit({PACKED: 1}, 1 - (1 << exponent), writes))
        units.append(Unit({PACKED: 1}, Dyadic(-1, exponent), negate(writes)))
        blocks.append(Block(tuple(units), {FIELD: -gate} if bit == 0 else {}))
        units = []
    return tuple(blocks)


CLOSING = Block((Unit({FIELD: 1}, 0, {ANSWER: 1}),), {ANSWER: 1})
"""The last field goes to the answer too, and class numbers start at 1 there."""


def extraction_blocks(n_fields: int, field_bits: int, base: int) -> Blocks:
    """From the packed fields to the value of the point's own, plus one."""
    numbers = reversed(range(n_fields))
    return (
        *(block for number in numbers for block in field_blocks(number, n_fields, field_bits, base)),
        CLOSING,
    )


def lookup_blocks(arrangement: Arrangement, packed: Sequence[int], field_bits: int, offset: int) -> Blocks:
    """All phases, one after the other. The answer is the field's value plus one."""
    base = -arrangement.extent if arrangement.segments else 0
    return (
        *fold_blocks(arrangement.mirrors, offset),
        *segment_blocks(arrangement.segments, arrangement.extent),
        *bucket_blocks(arrangement.starts, packed, arrangement.n_fields, base),
        *extraction_blocks(arrangement.n_fields, field_bits, base),
    )


def line_program(table: TokenTable | None, axes: Numbers, steps: tuple[Step, ...]) -> Program:
    """The program that puts a vector on the line by its axes, and answers with the last register."""
    return Program(REGISTERS, {PLACE: axes}, steps, ANSWER, 1, table)


def costs_of(field_bits: int) -> tuple[int, int]:
    """Dense parameters of a block that moves points, and of a field with all its bits."""
    move, field = [Block(threshold(PLACE, 1, {}))], field_blocks(0, 2, field_bits, 0)
    move_size, field_size = (count_steps(steps, len(REGISTERS)) for steps in (move, field))
    return move_size.parameters_dense, field_size.parameters_dense


@dataclass(frozen=True)
class Parts:
    """How many folds, overlaid segments, buckets, and fields of a bucket."""

    n_folds: int
    n_segments: int
    n_buckets: int
    n_fields: int


def lookup_outline(parts: Parts, field_bits: int, place_bits: int) -> tuple[Step, ...]:
    """The blocks of `lookup_blocks` for counting, with places of that many bits."""
    far, n_fields = (1 << place_bits) - 1, parts.n_fields
    fields: Form = {PLACE: far, PACKED: typical(n_fields * field_bits)}

    def field(number: int) -> Blocks:
        return field_blocks(number, n_fields, field_bits, n_fields - far)

    return (
        _fold_block(far, far),
        Repeat(parts.n_folds - 1, (_fold_block(far),)),
        Repeat(parts.n_segments, (Block(threshold(PLACE, far, {PLACE: far})),)),
        Repeat(parts.n_buckets, (Block(threshold(PLACE, far, fields)),)),
        *field(n_fields - 1),
        *(mean_of_ends(n_fields - 2, 1, field) if n_fields > 2 else ()),
        *(field(0) if n_fields > 1 else ()),
        CLOSING,
    )
