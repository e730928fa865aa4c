"""From the sum of the touched words to the label, by reflections.

Let y = Σ words, X = 4·(y - centre·2^word_bits) + 1. X is odd, so reflecting it at a multiple of 2 never meets it, and X ↦ 2C - X
complements every bit of X above bit 0 (and -X likewise). Bits of X from the top: after |X| and the reflections at 2^e, 2^(e-1), …,
whether |…| exceeds 2^b says X_b xor X_{b+1}: the Gray bit. X_{b+2} = y_b below word_bits and X_1 = 0, so
    (bit seen at 2^(b+1)) = y_b xor y_{b-1},  y_{-1} = 0.
A key in plane p wants b = p·field_bits + i for i = field_bits - 1, …, 0: reflections at t·2^r with t = 2^(p·field_bits + 1).
For r >= field_bits they change nothing; after that each reflection reads one label bit. The fields of rare labels lie above and are
read first, in the same way, each into its own register; they are added to labels whose codes continue there (see `label_code`).

In floats: |X| < 2^(word_bits + 2 + headroom_bits) <= 2^mantissa, all whole. A reflection whose place t·2^r lies above |X| may be
rounded, but x - t·2^r stays negative under any rounding and in any order, and ReLU makes it exactly zero.

Parts: a field too long for a word lies in several, of which the first has its lowest bits. The highest part is read first. All bits
above the label are zero for a key; each that is not adds 2^label_bits, so the answer is not a label but still fits the mantissa.
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
"""Words enter the tables times 4: two bits below them are needed to read y_0."""


def label_steps(layout: RetrievalLayout, centres: Sequence[int] | None) -> Iterator[Step]:
    """The circuit that starts with x at 1, words in their registers, the plane in z, and ends with label + 1.

    centres: of each part. Without them the circuit is only counted.
    """
    for part in reversed(range(layout.n_parts)):
        yield from _part_steps(layout, part, None if centres is None else centres[part])


def _part_steps(layout: RetrievalLayout, part: int, centre: int | None) -> Iterator[Step]:
    """One part: add up its words, remove what lies above its fields, and add their bits to the label."""
    is_first = part == layout.n_parts - 1
    is_typical = (
        centre is None and layout.stored is None
    )  # how short weights are stored, typical ones cannot tell
    if not is_first:
        yield Block((Unit({X: 1}, 0, {X: -1}),), {X: 1}, "clear")  # what is left of the last part is positive
    yield _sum_block(layout, part, centre, is_first)
    yield Block((Unit({X: -1}, 0, {X: 2}),), {}, "absolute")
    rare = _rare_registers(layout)
    is_bounded = layout.n_parts > 1 or bool(
        rare
    )  # what a field holds that is no label's is multiplied where labels go on
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
    """Reflect x at t·2^i, and add 2·half to the register if it was above.

    x - t·2^i is odd, so ReLU(x - t·2^i + 1) - ReLU(x - t·2^i - 1) is 2 or 0, and their sum is 2·ReLU(x - t·2^i).
    """
    reads: dict[str, Number] = {X: 1, T: -(2**i)}
    return Unit(reads, 1, {X: -1, register: half}), Unit(reads, -1, {X: -1, register: -half})


def _rare_registers(layout: RetrievalLayout) -> tuple[str, ...]:
    """Registers for the numbers of rare labels, kind after kind: those of words, which are free once the words are summed."""
    return layout.channels[: len(layout.rare_fields)]


def _rare_steps(register: str, field: RareField, is_last: bool) -> Iterator[Block]:
    """label + (label - first)·(2^n_bits - 1) + v for a label from `first` on; v, which is below 2^n_bits, is negative elsewhere."""
    goes_on = Unit({LABEL: 1}, 1 - field.first, {register: 2**field.n_bits})
    beyond = Unit({LABEL: 1}, -field.first, {register: -(2**field.n_bits), LABEL: 2**field.n_bits - 1})
    yield Block((goes_on, beyond), {register: -(2**field.n_bits)}, "rare label")
    yield Block((Unit({register: 1}, 0, {LABEL: 1}),), {LABEL: 1} if is_last else {}, "rare label")


def _sum_block(layout: RetrievalLayout, part: int, centre: int | None, is_first: bool) -> Block:
    """Add up the unmasked words, subtract the centre and, for the first part, turn the highest kind's plane into the place t of
    its field.

    The constant of X is a multiple of 4 here and the 1 is already in place, so partial sums are multiples of 4.
    """
    if centre is None:
        constant: Number = typical(layout.word_bits + 2 + layout.headroom_bits)
    else:
        constant = -WORD_SCALE * centre * 2**layout.word_bits
    rare, highest = _rare_registers(layout), len(layout.rare_fields)
    registers = layout.part_registers(part)
    words = LazyUnits(len(registers), partial(_word_unit, registers, rare))
    wide = ("b1", "b2")  # the centre is known when the words are
    if not is_first:
        return Block(words, {X: constant}, "sum", wide)
    others = [Unit({register: -1}, 0, {register: 1}) for register in rare]
    if layout.stored:  # the square that the table left
        others.append(Unit({T: 1}, 0, {T: -1}))
    units = Joined(words, others, _place_units(layout, highest))
    return Block(units, {X: constant, T: _lowest_place(layout, highest)}, "sum", wide)


def _word_unit(channels: Sequence[str], rare: Sequence[str], at: int) -> Unit:
    """Add a word; where its register is needed for something else, clear it."""
    register = channels[at]
    return Unit({register: 1}, 0, {X: 1, register: -1} if register in rare else {X: 1})


def _lowest_place(layout: RetrievalLayout, kind: int) -> int:
    """t of plane 0 of this kind."""
    return int(2 ** (layout.label_fields[kind].start + 1))


def _place_units(layout: RetrievalLayout, kind: int) -> Sequence[Unit]:
    """Units that bring t from that of plane 0 to 2^(start + p·n_bits + 1), with p the highest digit of z.

    t is convex in p: t(0) + Σ_i (second difference) · ReLU(p - i), every term positive, so no partial sum exceeds t itself.
    Where lower digits follow, p is taken off z by thresholds.
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
    """t(p + 1) - t(p)."""
    return int(2 ** (field.start + p * field.n_bits + 1) * (2**field.n_bits - 1))
