"""Residual blocks that move points to the places on a line that an `Arrangement` gives them, and then read the points' labels.

All positions and labels are integers. Points are moved in place, starting at the upper end of the line. A point that has been
moved is below all later thresholds, so each threshold acts on exactly the points it is meant for, and no copy of the old position
is needed.
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
    """Return blocks that add `offset` to the position x of a point, and then replace x by x - 2·ReLU(x - μ/2) for each μ in
    `mirrors`.
    """
    if not mirrors:  # nothing to fold: a unit without effect carries the offset
        return (Block((Unit({}, 0, {}),), {PLACE: offset}),)
    shifts = [offset, *[0] * (len(mirrors) - 1)]
    return tuple(
        _fold_block(shift - Fraction(mirror, 2), shift) for shift, mirror in zip(shifts, mirrors, strict=True)
    )


def _fold_block(bias: Number, shift: Number = 0) -> Block:
    return Block((Unit({PLACE: 1}, bias, {PLACE: -2}),), {PLACE: shift} if shift else {})


def segment_blocks(segments: Sequence[Segment], extent: int) -> Blocks:
    """Return blocks that move the points of each segment, the highest segment first.

    A point at position x of a segment s moves to x - s.start + s.target - extent. This is negative, so the blocks that follow,
    which move positions from the start of a lower segment on, leave the point where it is.
    """
    return tuple(
        Block(threshold(PLACE, segment.start, {PLACE: segment.target - segment.start - extent}))
        for segment in reversed(segments)
    )


def bucket_blocks(starts: Sequence[int], packed: Sequence[int], n_fields: int, base: int) -> Blocks:
    """Return blocks that find the bucket of a point, the highest bucket first.

    `starts` and `packed` have one entry for each bucket: s, where it starts, and the number that packs its labels. The bucket
    begins at position s + base. `base` is 0, or -extent if the points have been moved by `segment_blocks`.

    For a point in the bucket, the blocks subtract s + n_fields from its position, and add the packed number to the register
    `packed`. The point is then below `base`, so the blocks of lower buckets do not change it.
    """
    return tuple(
        Block(threshold(PLACE, start + base, {PLACE: -start - n_fields, PACKED: fields}))
        for start, fields in zip(reversed(starts), reversed(packed), strict=True)
    )


def field_blocks(number: int, n_fields: int, field_bits: int, base: int) -> Blocks:
    """Return blocks that move the bits of field `number` from the register `packed` to the register `field`, the highest bit first.

    A field is the room for one label in the number that packs all labels of a bucket.

    Assumes:    the points whose label is in this field are at position number + base - n_fields, and no point is at a higher
                position; register `packed` holds Σ field_q · 2^(q·field_bits) for all fields q <= number.
    Guarantee:  for a point whose label is in this field, register `field` then holds the value of the field. For all other
    points,
                it holds a negative number. The blocks of the next field add ReLU(field) to the answer, so the answer changes only
                for the points whose label is in this field.
    """
    gate = 1 << field_bits
    # hit: the point's number is `number`, because points with larger numbers have been moved below all thresholds
    units = list(threshold(PLACE, number + base - n_fields, {PLACE: -n_fields, FIELD: gate}))
    if number < n_fields - 1:
        units.append(Unit({FIELD: 1}, 0, {FIELD: -1, ANSWER: 1}))
        units.append(Unit({FIELD: -1}, 0, {FIELD: 1}))
    blocks = []
    for bit in range(field_bits):
        place = field_bits - 1 - bit
        # worth 2^exponent in the packed fields, and 2^place in its own field
        exponent = number * field_bits + place
        writes: Form = {PACKED: Dyadic(-1, exponent), FIELD: 1 << place}
        units.append(Unit({PACKED: 1}, 1 - (1 << exponent), writes))
        units.append(Unit({PACKED: 1}, Dyadic(-1, exponent), negate(writes)))
        blocks.append(Block(tuple(units), {FIELD: -gate} if bit == 0 else {}))
        units = []
    return tuple(blocks)


CLOSING = Block((Unit({FIELD: 1}, 0, {ANSWER: 1}),), {ANSWER: 1})
"""The block that runs after all fields have been read. It adds ReLU of the register `field` to the answer, and it adds 1 because
fields number the labels from 0, but the network returns label + 1.
"""


def extraction_blocks(n_fields: int, field_bits: int, base: int) -> Blocks:
    """Return blocks that extract the point's own field (its label) from the number that packs all labels of its bucket.

    The answer is the value of this field plus one.
    """
    numbers = reversed(range(n_fields))
    return (
        *(block for number in numbers for block in field_blocks(number, n_fields, field_bits, base)),
        CLOSING,
    )


def lookup_blocks(arrangement: Arrangement, packed: Sequence[int], field_bits: int, offset: int) -> Blocks:
    """Return the blocks that look up a point's label: they fold the line, move segments, find the bucket and read the field.

    A field is the room for one label in the number that packs all labels of a bucket. The answer is the value of the field plus
    one.
    """
    base = -arrangement.extent if arrangement.segments else 0
    return (
        *fold_blocks(arrangement.mirrors, offset),
        *segment_blocks(arrangement.segments, arrangement.extent),
        *bucket_blocks(arrangement.starts, packed, arrangement.n_fields, base),
        *extraction_blocks(arrangement.n_fields, field_bits, base),
    )


def line_program(table: TokenTable | None, axes: Numbers, steps: tuple[Step, ...]) -> Program:
    """Return the program that projects a vector to a line with the coefficients `axes` and then runs `steps`. The last register is
    the answer.
    """
    return Program(REGISTERS, {PLACE: axes}, steps, ANSWER, 1, table)


def costs_of(field_bits: int) -> tuple[int, int]:
    """Return two numbers: the parameters of one block that moves points, and the parameters of all blocks that read one field.

    Parameters that are zero are counted too. A field is the room for one label in a packed number.
    """
    move, field = [Block(threshold(PLACE, 1, {}))], field_blocks(0, 2, field_bits, 0)
    move_size, field_size = (count_steps(steps, len(REGISTERS)) for steps in (move, field))
    return move_size.parameters_dense, field_size.parameters_dense


@dataclass(frozen=True)
class Parts:
    """How often each part of an arrangement occurs.

    n_folds     reflections of the line
    n_segments  pieces of the line that are laid over one another
    n_buckets   ranges of positions, each with the labels of its points packed in one number
    n_fields    labels that such a packed number has room for
    """

    n_folds: int
    n_segments: int
    n_buckets: int
    n_fields: int


def lookup_outline(parts: Parts, field_bits: int, place_bits: int) -> tuple[Step, ...]:
    """Return placeholders for the blocks of `lookup_blocks`, to count their parameters. Positions have `place_bits` bits."""
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
