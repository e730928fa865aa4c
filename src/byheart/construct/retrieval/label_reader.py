"""Compute the label from the sum of the words that a key reads, by reflections.

Let y be the sum of the words. The number centre·2^word_bits is about the middle of all such sums. Let
X = 4·(y - centre·2^word_bits) + 1. X is odd, so a reflection X ↦ 2C - X at an even number C never has X as its fixed point. With
C = 2^b it complements the bits 1 to b of X. X ↦ -X complements every bit above bit 0. The bits X_b of X are read from the top.
First |X| is computed, and then reflected at one power of two 2^b after the other, the highest first. Before the reflection at 2^b,
the comparison of the current value with 2^b gives X_b xor X_{b+1}, the Gray bit. X_{b+2} = y_b for b below word_bits, and X_1 = 0,
so
    (bit seen at 2^(b+1)) = y_b xor y_{b-1},  y_{-1} = 0.
A key in plane p (the p-th bit field of the words) needs the bits b = p·field_bits + i for i = field_bits - 1, …, 0. They are read
by reflections at t·2^r with t = 2^(p·field_bits + 1). For r >= field_bits the reflections remove the bits above the field; after
that, each reflection reads one label bit. The fields of rare labels are at higher bits. They are read first, in the same way, each
into its own register. At the end, every label whose code continues in such a field is completed with the number from this register
(see `label_code`).

In floats: X is an integer with |X| < 2^(word_bits + 2 + headroom_bits) <= 2^mantissa. If t·2^r is above |X|, the subtraction
may be rounded. But x - t·2^r stays negative under any rounding and in any order, and ReLU makes it exactly zero.

Parts: a field that is too long for a word is split into several parts, each in a word of its own. The first part has the lowest
bits, and the highest part is read first. For a key, all bits above the label are zero. For other inputs, each non-zero bit there
adds 2^label_bits, so the answer is not a label, but still fits into the mantissa.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial

from byheart.construct.retrieval.label_code import LabelField, RareField
from byheart.construct.retrieval.layout import LABEL, RetrievalLayout, T, X, Z
from byheart.network.exact.dyadic import Number
from byheart.program.blocks import Block, Repeat, Step, Unit, threshold, typical
from byheart.program.lazy_units import Joined, LazyUnits

WORD_SCALE = 4
"""The tables store each word multiplied by 4, because reading the lowest bit of the words' sum takes two more bits below it."""


def label_steps(layout: RetrievalLayout, centres: Sequence[int] | None) -> Iterator[Step]:
    """Yield the circuit that computes label + 1. At the start, the register x holds 1, the register z holds the number of the key's
    plane (bit field of a word), and the word registers hold the words.

    centres: for each part of the label, the number c such that c·2^word_bits is about the middle of the sums of its words. Without
    them, the circuit can be counted but not built.
    """
    for part in reversed(range(layout.n_parts)):
        yield from _part_steps(layout, part, None if centres is None else centres[part])


def _part_steps(layout: RetrievalLayout, part: int, centre: int | None) -> Iterator[Step]:
    """Yield the steps that read one part of the label.

    They add up the words that hold this part, remove the bits of the sum above the fields of the label, and add the bits of
    these fields to the label.
    """
    is_first = part == layout.n_parts - 1
    # the storage of short weights depends on their values, so typical numbers are not enough
    is_typical = centre is None and layout.stored is None
    if not is_first:
        # the previous part leaves a positive number
        yield Block((Unit({X: 1}, 0, {X: -1}),), {X: 1}, "clear")
    yield _sum_block(layout, part, centre, is_first)
    yield Block((Unit({X: -1}, 0, {X: 2}),), {}, "absolute")
    rare = _rare_registers(layout)
    # where codes continue, a field that holds no label is multiplied, so its value must be bounded
    is_bounded = layout.n_parts > 1 or bool(rare)
    for kind in reversed(range(1, len(layout.label_fields))):
        yield from _silent_steps(layout, kind, is_typical)
        for i in reversed(range(layout.label_fields[kind].n_bits)):
            yield Block(_bit_units(i, rare[kind - 1], Fraction(2**i, 2)), {}, "rare label")
        clear = Unit({T: 1}, 0, {T: -1})
        yield Block([clear, *_place_units(layout, kind - 1)], {T: _lowest_place(layout, kind - 1)}, "place")
    yield from _silent_steps(layout, 0, is_typical)
    for i in reversed(range(layout.field_bits)):
        bit = part * layout.field_bits + i
        half = Fraction(2 ** (min(bit, layout.label_bits) if is_bounded else bit), 2)
        adds: dict[str, Number] = {LABEL: 1} if bit == 0 and not rare else {}
        yield Block(_bit_units(i, LABEL, half), adds, "label" if part == 0 else "fingerprint")
    for register, field in zip(rare, layout.rare_fields, strict=True):
        yield from _rare_steps(register, field, is_last=register == rare[-1])


def _silent_steps(layout: RetrievalLayout, kind: int, is_counted: bool) -> Iterator[Step]:
    first, n_folds = layout.label_fields[kind].n_bits, layout.reading_folds[kind]
    if is_counted:
        yield Repeat(n_folds, (_silent_block(typical(first + n_folds // 2 + 1)),))
    else:
        for r in reversed(range(first, first + n_folds)):
            yield _silent_block(-(2**r))


def _silent_block(place: Number) -> Block:
    return Block((Unit({X: 1, T: place}, 0, {X: -2}),), {}, "silent")


def _bit_units(i: int, register: str, half: Fraction) -> tuple[Unit, Unit]:
    """Return units that reflect x at t·2^i, and add 2·half to `register` if x was above t·2^i. The register T holds t.

    The units compute ReLU(x - t·2^i + 1) and ReLU(x - t·2^i - 1). As x - t·2^i is odd, their difference is 2 or 0, and their sum
    is 2·ReLU(x - t·2^i).
    """
    reads: dict[str, Number] = {X: 1, T: -(2**i)}
    return Unit(reads, 1, {X: -1, register: half}), Unit(reads, -1, {X: -1, register: -half})


def _rare_registers(layout: RetrievalLayout) -> tuple[str, ...]:
    """Return one register for each kind of field for rare labels. These registers held words, and are free once the words are
    summed.
    """
    return layout.channels[: len(layout.rare_fields)]


def _rare_steps(register: str, field: RareField, is_last: bool) -> Iterator[Block]:
    """Yield blocks that append the n_bits bits of a rare label to its first part.

    `field` gives the numbers first and n_bits, and `register` holds the number v < 2^n_bits that was read from this field. A
    label of at least first becomes first + (label - first)·2^n_bits + v. For smaller labels, `register` becomes negative, so the
    last ReLU adds nothing. With `is_last`, 1 is added to every label.
    """
    goes_on = Unit({LABEL: 1}, 1 - field.first, {register: 2**field.n_bits})
    beyond = Unit({LABEL: 1}, -field.first, {register: -(2**field.n_bits), LABEL: 2**field.n_bits - 1})
    yield Block((goes_on, beyond), {register: -(2**field.n_bits)}, "rare label")
    yield Block((Unit({register: 1}, 0, {LABEL: 1}),), {LABEL: 1} if is_last else {}, "rare label")


def _sum_block(layout: RetrievalLayout, part: int, centre: int | None, is_first: bool) -> Block:
    """Return the block that adds up the words of one part of the label. Masked words are left out. The block also subtracts
    centre·2^word_bits, which is about the middle of such sums.

    For the first part that is read, the block also computes t for the highest kind of field: the power of two at which the key's
    plane (a range of bits of each word) is read.

    The result in register x is 4·(sum - centre·2^word_bits) + 1. At the start x is 1, so all terms that are added are multiples
    of 4.
    """
    if centre is None:
        constant: Number = typical(layout.word_bits + 2 + layout.headroom_bits)
    else:
        constant = -WORD_SCALE * centre * 2**layout.word_bits - layout.sum_offset
    rare, highest = _rare_registers(layout), len(layout.rare_fields)
    registers = layout.part_registers(part)
    words = LazyUnits(len(registers), partial(_word_unit, registers, rare))
    wide = ("b1", "b2")  # the centre depends on the words
    if not is_first:
        return Block(words, {X: constant}, "sum", wide)
    others = [Unit({register: -1}, 0, {register: 1}) for register in rare]
    if layout.stored:  # clear the square that the table left
        others.append(Unit({T: 1}, 0, {T: -1}))
    units = Joined(words, others, _place_units(layout, highest))
    return Block(units, {X: constant, T: _lowest_place(layout, highest)}, "sum", wide)


def _word_unit(channels: Sequence[str], rare: Sequence[str], at: int) -> Unit:
    """Return the hidden unit that adds word number `at`, which is in the register `channels[at]`, to the register x.

    If this register is one of `rare`, the unit also clears it, because a field of a rare label is read into it later.
    """
    register = channels[at]
    return Unit({register: 1}, 0, {X: 1, register: -1} if register in rare else {X: 1})


def _lowest_place(layout: RetrievalLayout, kind: int) -> int:
    """Return the power of two t for the lowest plane (range of bits) of this kind of field.

    A plane is read by reflections at t·2^r for several r, as described at the top of this module. Each plane has its own t.
    """
    return int(2 ** (layout.label_fields[kind].start + 1))


def _place_units(layout: RetrievalLayout, kind: int) -> Sequence[Unit]:
    """Return units that set t, the power of two at which a plane is read, to 2^(start + p·n_bits + 1) for plane p.

    The planes (bit fields) of this `kind` begin at bit `start` and have `n_bits` bits each. The block's constant sets t to the
    value for plane 0, and these units add the rest. The plane number p is the highest digit of the register z. t is convex in p, so
    it equals t(0) + Σ_i (second difference at i) · ReLU(p - i). Every term is positive, so no partial sum exceeds t itself. If z
    has lower digits, thresholds extract p from z.
    """
    field = layout.label_fields[kind]
    if field.below > 1:
        return [unit for p in range(1, field.n_planes) for unit in _plane_threshold(field, p)]
    return LazyUnits(field.n_planes - 1, partial(_plane_unit, field))


def _plane_unit(field: LabelField, p: int) -> Unit:
    rise = _rise(field, p)
    return Unit({Z: 1}, -p, {T: rise - (rise >> field.n_bits if p else 0)})


def _plane_threshold(field: LabelField, p: int) -> tuple[Unit, Unit]:
    return threshold(Z, p * field.below, {Z: -field.below, T: _rise(field, p - 1)})


def _rise(field: LabelField, p: int) -> int:
    """Return t(p + 1) - t(p), where t(p) is the power of two at which plane (bit field) p is read."""
    return int(2 ** (field.start + p * field.n_bits + 1) * (2**field.n_bits - 1))
