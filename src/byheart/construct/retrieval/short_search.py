"""The layout search for weights stored as int8 or bfloat16: find a dual table with few stored bits.

A dual table is a feed-forward layer whose two weight matrices hold the words (table entries); see `dual_table`. A weight holds 8
bits of a word, whatever the precision of the computation, so a row of the table may have many words, one in each of its channels.
The search chooses the number of channels in each group, the number of digits of a row number, and the number of weights that form
a word. The number of choices that a key (a distinct context) has in each group must be a power of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import isqrt

from byheart.construct.retrieval.dual_table import DualTable
from byheart.construct.retrieval.label_code import RareFields, codes_worth_trying
from byheart.construct.retrieval.layout import LIMB_BITS, NARROW_FOLDS, Entrance, ShortWeights
from byheart.construct.retrieval.part_tables import PartTables
from byheart.construct.retrieval.program import describe
from byheart.construct.retrieval.search import fill
from byheart.errors import AssumptionViolated
from byheart.network.protocol import COMPUTED_IN
from byheart.network.transformer.float_exactness import MANTISSA_BITS
from byheart.program.count import count_dense, stored_bits

_MOST_LIMBS = 2
_LEAST_PART = 4  # the smallest number of bits of a part of a label
_MOST_GROUPS = 5
_GROUP_BITS = range(1, 8)
_DIGITS = range(2, 9)
_FEW_CHANNELS = 12  # a row may have this many words, however few the keys are
_FEW_IN_PARTS = 32  # the same if a label is divided into parts: reject bits then need many addresses, and so long patterns
_LOOKED_AT = 8  # stored bits are counted for this many layouts, those with the fewest weights
_CLOSE = 0.98  # a layout is counted while its lower bound is at most this share of the smallest size so far


@lru_cache(maxsize=64)
def find_short_layout(
    entrance: Entrance,
    n_keys: int,
    field_bits: int,
    stored: ShortWeights,
    *,
    reject_bits: int = 0,
    n_shards: int = 1,
    label_counts: tuple[int, ...] = (),
    in_parts: bool = False,
) -> DualTable:
    """Return the layout with the fewest stored bits that the search finds for `n_keys` labels. Each label has `field_bits` bits,
    `reject_bits` of which are always zero.

    Stored bits are counted only for the few layouts with the fewest weights. Raise `AssumptionViolated` if no layout fits.

    n_shards: the number of ranges of rows that are solved separately.
    label_counts: the number of keys with each label, the most frequent first. If given, labels may have codes of different
        lengths, unless `in_parts` is true.
    in_parts: whether the bits of a label are divided into parts, each in a table of its own.
    """
    candidates = []
    for entering in _entrances(entrance, reject_bits):
        for n_parts in _part_counts(field_bits) if in_parts else [1]:
            start = (PartTables if in_parts else DualTable)(
                entering,
                n_keys,
                -(-field_bits // n_parts),
                *(1, 1, 1, 2, 1, 0, 0),
                MANTISSA_BITS[COMPUTED_IN[stored]],
                reject_bits,
                n_parts,
                n_shards,
                stored=stored,
            )
            for shaped in _shapes(start, () if in_parts else label_counts):
                candidates += [(_least_size(sized), sized) for sized in _with_digits(shaped)]
    if not candidates:
        raise AssumptionViolated(
            f"no layout with weights stored as {stored} can hold these data (number of labels: {n_keys:,}; bits per label, "
            f"with reject bits: {field_bits}; tokens per sequence: {entrance.seq_len}).\n"
            f"  Use precision float32 or float64{', or fewer reject bits' * (reject_bits > 0)}.",
            n_keys=n_keys,
            field_bits=field_bits,
        )
    candidates.sort(key=lambda each: each[0])
    best, found = float("inf"), []
    for least, layout in candidates:
        if least > _CLOSE * best:
            break
        found.append((count_dense(describe(layout)), layout))
        best = min(best, found[-1][0])
    found.sort(key=lambda each: each[0])
    return min(
        (layout for _, layout in found[:_LOOKED_AT]),
        key=lambda layout: stored_bits(describe(layout), stored),
    )


def _part_counts(field_bits: int) -> list[int]:
    """Return the numbers of parts into which a label may be divided so that each part fits into one weight.

    The list is empty if the whole label fits into one weight.
    """
    if field_bits <= LIMB_BITS:
        return []
    return sorted({-(-field_bits // bits) for bits in range(_LEAST_PART, LIMB_BITS + 1)})


def _with_digits(shaped: DualTable) -> Iterator[DualTable]:
    """Choose the number of rows, and yield layouts that have this number of rows.

    In each layout, the numbers of the rows are written with another number of digits.
    """
    sized = None
    for n_digits in _DIGITS:
        if sized is None:
            sized = fill(
                replace(shaped, n_digits=n_digits), shaped.n_planes, shaped.n_channels, shaped.n_groups
            )
            named = sized
        else:
            named = replace(sized, n_digits=n_digits)
        if named is not None and named.is_exact:
            yield named
            if max(named.radices) <= 2:  # further digits would have only one value
                return


def _least_size(layout: DualTable) -> int:
    """Return a lower bound on the number of weights of the network.

    It counts only the weights of some hidden units: those for the rows of the table, for the channels that tokens select, and for
    the digits of row numbers. If labels are not divided into parts, it also counts the units for the sum of the words.
    """
    n_registers = len(layout.word_registers)
    n_units = layout.n_rows + 4 * layout.n_channels + n_registers
    if isinstance(layout, PartTables):
        n_units = layout.n_parts * (layout.n_rows + 4 * layout.n_channels)
    n_units += 2 * sum(layout.radices)
    return (2 * layout.model_width + 1) * n_units


def _entrances(entrance: Entrance, reject_bits: int) -> Iterator[Entrance]:
    folded = replace(entrance, n_folds=max(1, entrance.n_folds))
    yield folded
    if entrance.kind == "table" and entrance.ordered and entrance.n_folds > 1 and not reject_bits:
        yield replace(folded, is_narrow=True, n_folds=entrance.n_folds + NARROW_FOLDS)


def _shapes(start: DualTable, label_counts: tuple[int, ...]) -> Iterator[DualTable]:
    """Yield layouts like `start`, one for each combination to be tried: the number of limbs of a word (its 8-bit pieces), the
    division of a word into bit fields, and the groups of channels (the words of a row).

    The number of rows is not chosen yet.
    """
    for n_limbs in range(1, 1 + (_MOST_LIMBS if start.n_parts == 1 else 1)):
        most_bits = n_limbs * LIMB_BITS
        for field_bits, n_planes, rare in _words(start, most_bits, label_counts):
            words = replace(
                start, n_limbs=n_limbs, field_bits=field_bits, n_planes=n_planes, rare_fields=rare
            )
            for group_bits in _groups(start):
                yield replace(
                    words,
                    group_bits=group_bits,
                    n_groups=len(group_bits),
                    n_channels=sum(1 << bits for bits in group_bits) - len(group_bits) + 1,
                )


def _words(
    start: DualTable, most_bits: int, label_counts: tuple[int, ...]
) -> Iterator[tuple[int, int, RareFields]]:
    """Yield ways to divide a word (table entry) of at most `most_bits` bits into fields. Each way is a tuple: the number of bits
    of a common field, the number of common fields, and the additional fields for rare labels. Every label uses one common field.

    The ways without additional fields come first.
    """
    most_planes = 2 + isqrt(start.n_keys) // 4
    fullest = min(most_bits // start.field_bits, most_planes)
    for n_planes in range(fullest, max(0, fullest - 2), -1):
        yield start.field_bits, n_planes, ()
    if label_counts:
        for n_planes in range(1, min(most_bits, most_planes) + 1):
            for first_bits, rare in codes_worth_trying(label_counts, n_planes):
                n_bits = (first_bits + start.reject_bits) * n_planes + sum(
                    each.n_bits * each.n_planes for each in rare
                )
                if n_bits <= most_bits:
                    yield first_bits + start.reject_bits, n_planes, rare


def _groups(start: DualTable) -> Iterator[tuple[int, ...]]:
    """Yield candidates for the channel groups: for each group, the number of bits that select one of its channels.

    The number of channels of a candidate is limited to √n_keys or to a constant, whichever is larger.
    """
    most_channels = max(_FEW_IN_PARTS if start.n_parts > 1 else _FEW_CHANNELS, isqrt(start.n_keys))
    for n_groups in range(1, _MOST_GROUPS + 1):
        for bits in _GROUP_BITS:
            for n_larger in range(1, n_groups + 1):
                found = (bits,) * n_larger + (bits - 1,) * (n_groups - n_larger)
                if found[-1] > 0 and sum(1 << each for each in found) <= most_channels:
                    yield found
