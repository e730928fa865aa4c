"""The layout search: find the smallest network that is expected to hold the data.

Chains and dual tables, with every promising number of planes (bit fields of a word), channels (words of a row) and groups of
channels, are ranked by a lower bound on their size. Their sizes are computed in that order until no remaining layout can be
smaller. Only layouts for which a few draws of the hash suffice are accepted (see `constraints`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import ceil, isqrt, log2
from typing import TypeVar

import numpy as np

from byheart.construct.retrieval.chain import Chain
from byheart.construct.retrieval.constraints import (
    LEAST_WINDOW_BITS,
    addresses_needed,
    headroom_bits,
    is_quickly_solved,
    margins_needed,
    rows_needed,
)
from byheart.construct.retrieval.dual_table import DualTable
from byheart.construct.retrieval.label_code import codes_worth_trying
from byheart.construct.retrieval.layout import NARROW_FOLDS, Entrance, RetrievalLayout, split_evenly
from byheart.construct.retrieval.layout_floors import Ranked, rank
from byheart.construct.retrieval.program import describe
from byheart.errors import AssumptionViolated
from byheart.program.count import count_dense

_SEGMENTS = (2, 3, 4, 5)
_DIGITS = (2, 3, 4, 5, 6, 7)
_GROUPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24)
_RATIO = 1.12
_WIDEST = 600
_FEW = (
    500  # up to this many keys, more than three segments and codes of several lengths never save parameters
)
_LEAST_DUAL = 5000  # below this many keys, the dual table has never been the smaller one
_LONG_BITS = 64  # words of more bits than this are longer than those of floats

SomeLayout = TypeVar("SomeLayout", bound=RetrievalLayout)
_Found = tuple[int, RetrievalLayout] | None


@lru_cache(maxsize=64)
def find_layout(
    entrance: Entrance,
    n_keys: int,
    field_bits: int,
    mantissa_bits: int,
    *,
    reject_bits: int = 0,
    n_parts: int = 1,
    n_shards: int = 1,
    label_counts: tuple[int, ...] = (),
    allow_dual: bool = True,
    prune: bool = True,
) -> RetrievalLayout:
    """Return the smallest layout that the search finds for `n_keys` labels of `field_bits` bits each, `reject_bits` of which are
    always zero.

    n_parts: the number of words over which the bits of a label are distributed; dual tables are considered only if it is 1.
    n_shards: the number of ranges of rows that are solved separately.
    label_counts: the number of keys with each label, the most frequent first. If given, labels may have codes of different lengths.

    Layouts are sized in the order of a lower bound on their size. Those whose lower bound is not below the best size so far are
    skipped. The result is the same as that of the full search, which `prune=False` performs.
    """
    part_bits = -(-field_bits // n_parts)
    most_planes = _most_planes(n_keys, part_bits, mantissa_bits)
    starts = [
        replace(start, reject_bits=reject_bits, n_parts=n_parts, n_shards=n_shards)
        for start in _starts(
            entrance, n_keys, part_bits, mantissa_bits, reject_bits, allow_dual and n_parts == 1
        )
    ]
    planes, channels = _plane_counts(most_planes), _channel_counts(entrance, n_keys, reject_bits)
    ranked = [rank(start, planes, channels, _GROUPS) for start in starts]
    if label_counts and n_keys > _FEW and n_parts == 1 and mantissa_bits <= _LONG_BITS:
        for start in starts:
            for coded, n_planes in _coded(start, label_counts):
                ranked.append(rank(coded, [n_planes], channels, _GROUPS))
    found = _smallest(None, ranked, prune)
    if found is None:
        easier = "precision float64, " * (mantissa_bits < 53) + "fewer reject bits, " * (reject_bits > 0)
        raise AssumptionViolated(
            f"no layout fits the labels of {n_keys} contexts into numbers with a mantissa of {mantissa_bits} bits (bits per "
            f"label{', with reject bits' * (reject_bits > 0)}: {field_bits}; tokens per sequence: {entrance.seq_len}).\n"
            f"  Use {easier}{'or ' * bool(easier)}the method kajitsuka-sato-2025.",
            n_keys=n_keys,
            field_bits=field_bits,
        )
    best = found[1]
    near = [p for p in range(best.n_channels * 8 // 9, best.n_channels * 9 // 8 + 2) if p > 0]
    step = max(1, best.n_planes // 16)
    around = [k for k in range(best.n_planes - step, best.n_planes + step + 1) if 0 < k <= most_planes]
    if best.rare_fields:  # rare fields are made for exactly this number of planes
        around = [best.n_planes]
    found = _smallest(found, [rank(best, around, near, _GROUPS)], prune)
    assert found is not None
    return found[1]


def _most_planes(n_keys: int, field_bits: int, mantissa_bits: int) -> int:
    """Return the largest number of planes (bit fields of a word) worth trying. With more planes, each would have too few keys.

    The limit is larger for long words, because fewer of them are needed.
    """
    limit = isqrt(n_keys) if mantissa_bits > _LONG_BITS else isqrt(n_keys) // 4
    return min((mantissa_bits - 2) // field_bits, 2 + limit)


def _coded(start: RetrievalLayout, label_counts: tuple[int, ...]) -> Iterator[tuple[RetrievalLayout, int]]:
    """Yield pairs: a variant of the layout with another code for the labels, and a number of planes (bit fields of a word).

    Codes are chosen for each number of planes, so each code comes with its own number.
    """
    for n_planes in range(1, min(start.mantissa_bits - 2, 2 + isqrt(start.n_keys) // 4)):
        for first_bits, rare_fields in codes_worth_trying(label_counts, n_planes):
            coded = replace(start, field_bits=first_bits + start.reject_bits, rare_fields=rare_fields)
            if replace(coded, n_planes=n_planes).word_bits <= start.mantissa_bits - 2:
                yield coded, n_planes


def _plane_counts(most: int) -> list[int]:
    """Return the numbers of planes (bit fields of a word) up to `most` that are worth trying: all small numbers, and larger ones
    with growing gaps.
    """
    return sorted(
        {*range(1, min(most, 32) + 1), *(int(32 * _RATIO**i) for i in range(200))} & {*range(most + 1)}
    )


def _channel_counts(entrance: Entrance, n_keys: int, reject_bits: int) -> list[int]:
    least = max(1, 2 * reject_bits, 2 * entrance.n_projections)
    widest = min(_WIDEST, max(least, isqrt(n_keys) // 4))
    return sorted({int(_RATIO**i) for i in range(80) if int(_RATIO**i) <= widest})


def _starts(
    entrance: Entrance, n_keys: int, field_bits: int, mantissa_bits: int, reject_bits: int, allow_dual: bool
) -> Iterator[RetrievalLayout]:
    """Yield one layout of each kind (a chain or a dual table, with several numbers of tables or digits), from which the search
    starts. The numbers of planes, channels, groups and rows are placeholders, which `fill` replaces later.
    """
    rest = (n_keys, field_bits, 1, 1, 1)
    may_be_narrow = entrance.kind == "table" and entrance.ordered and entrance.n_folds > 1 and not reject_bits
    for is_narrow in (False, True) if may_be_narrow else (False,):
        entering = replace(entrance, is_narrow=is_narrow, n_folds=entrance.n_folds + NARROW_FOLDS * is_narrow)
        for n_segments in _SEGMENTS[: 2 if n_keys <= _FEW and not reject_bits else None]:
            yield Chain(entering, *rest, n_segments, 1, 0, 0, mantissa_bits)
        if allow_dual and n_keys >= _LEAST_DUAL:
            with_folds = replace(entering, n_folds=max(1, entering.n_folds))
            for n_digits in _DIGITS:
                yield DualTable(with_folds, *rest, 2, 1, 0, 0, mantissa_bits, n_digits=n_digits)


def _smallest(found: _Found, ranked: list[Ranked], prune: bool) -> _Found:
    """Return the smallest layout among `found` and `ranked`, as a pair (number of parameters, layout). Return None if there is no
    layout. Of several equally small ones, return the first.
    """
    least = np.concatenate([each.least for each in ranked])
    kinds = np.concatenate([np.full(len(each.least), kind) for kind, each in enumerate(ranked)])
    shapes = np.concatenate([np.stack([each.planes, each.channels, each.groups], 1) for each in ranked])
    for at in np.argsort(least, kind="stable"):
        if prune and found is not None and least[at] >= found[0]:
            break
        sized = fill(ranked[kinds[at]].start, *map(int, shapes[at]))
        if sized is None:
            continue
        n_dense = count_dense(describe(sized))
        assert n_dense >= least[at], "a layout is smaller than its lower bound"
        if found is None or n_dense < found[0]:
            found = n_dense, sized
    return found


def fill(start: SomeLayout, n_planes: int, n_channels: int, n_groups: int) -> SomeLayout | None:
    """Return a layout like `start` with these numbers of planes (bit fields of a word), channels (words of a table row) and groups
    of channels. All its other numbers are chosen here. Return None if such a layout cannot hold the keys.
    """
    shaped = replace(start, n_planes=n_planes, n_channels=n_channels, n_groups=n_groups)
    sized = _with_rows(replace(shaped, headroom_bits=headroom_bits(shaped)))
    # word registers later hold the numbers of rare labels
    if sized is None or n_channels < len(sized.rare_fields):
        return None
    return sized if sized.is_exact and sized.has_numbers_for_tokens else None


def _with_rows(layout: SomeLayout) -> SomeLayout | None:
    """Return the layout with the number of rows and the windows that it needs. A window is the number of rows among which the
    next row of a key is chosen.

    The windows are the smallest that give enough addresses. If such a layout cannot be used and there are few keys, twice and
    then four times as many rows are tried. Return None if that fails too.
    """
    for stretch in (1, 2, 4) if layout.n_keys <= _FEW else (1,):
        found = _with_windows(layout, stretch)
        if found is not None:
            return found
    return None


def _with_windows(layout: SomeLayout, stretch: int) -> SomeLayout | None:
    wanted = addresses_needed(layout.n_keys, layout.reject_bits, layout.n_shards)
    # even with the most rows that are ever needed and without reflected steps, fewer bits would not suffice
    most = replace(
        layout, n_rows=layout.n_shards * stretch * rows_needed(layout, (0,) * (layout.n_segments - 1))
    )
    first = max(0, ceil(log2(max(1.0, wanted / most.n_addresses))))
    for step_bits in range(first, 14 * (layout.n_segments - 1)):
        windows = split_evenly(step_bits, layout.n_segments - 1)
        rows, margin_rows = _rows_and_margins(layout, windows, stretch)
        if 1 << windows[0] > 2 * rows:
            return None
        if windows[-1] < LEAST_WINDOW_BITS and 1 << (windows[-1] + 1) <= rows:
            continue
        sized = replace(layout, n_rows=layout.n_shards * rows, step_bits=step_bits)
        if margin_rows:
            sized = replace(sized, margin_rows=margin_rows)
        if sized.n_addresses >= wanted:
            return sized if is_quickly_solved(sized) else None
    return None


def _rows_and_margins(layout: RetrievalLayout, windows: tuple[int, ...], stretch: int) -> tuple[int, int]:
    """Return the number of rows of a shard, and how many rows at each edge are margins (no key starts there). Only dual tables
    have margins, and only if margins save rows.

    windows: for each row of a key after the first, the number of bits of the step to it.
    stretch: a factor for the number of rows.
    """
    rows = layout.round_rows(stretch * rows_needed(layout, windows))
    if layout.n_shards == 1 or not isinstance(layout, DualTable):
        return rows, 0
    first_rows = layout.round_rows(stretch * rows_needed(layout, windows, has_margins=True))
    with_margins = layout.round_rows(first_rows + 2 * margins_needed(layout, windows, first_rows))
    return (with_margins, (with_margins - first_rows) // 2) if with_margins < rows else (rows, 0)
