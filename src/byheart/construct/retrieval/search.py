"""The layout search: the smallest network that is expected to hold the data, and why.

Three things can fail a draw of the hash, each with a probability that is known beforehand, so the search only looks at layouts for
which a few draws suffice:
    addresses  two keys with the same address.   E = N²/2 / (number of addresses), kept below `max_duplicates`
    load       more keys in a plane than columns, or an unlucky dependency: columns left over, see `_rows_needed`
    headroom   a sum too far from its mean for the mantissa: deviations z with N·P(|normal| > z) < 5%
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, erfc, exp, isqrt, log, log2, sqrt
from typing import TypeVar

from byheart.construct.retrieval.chain import Chain
from byheart.construct.retrieval.layout import Entrance, Layout
from byheart.construct.retrieval.twin import Twin
from byheart.errors import AssumptionViolated

_SPARE_COLUMNS = 6  # a random square GF(2) system lacks one or two ranks; each spare column halves the risk
_BAND_SECONDS = 1e-12  # measured seconds per key and column² of the window
_SECONDS_PER_KEY = 3e-5  # what the elimination may take, so that compiling stays linear
_SEGMENTS = (2, 3, 4, 5)
_DIGITS = (2, 3, 4, 5, 6, 7)
_GROUPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24)
_RATIO = 1.12
_WIDEST = 600
_FEW = 500  # keys up to which more than three segments never pay
_LEAST_TWIN = 5000  # keys below which the twin has never been the smaller one

SomeLayout = TypeVar("SomeLayout", bound=Layout)
_Found = tuple[int, Layout] | None


def max_duplicates(n_keys: int) -> float:
    """Expected pairs of keys with equal addresses; a draw without any has probability e^-E. Small data are drawn often."""
    return 0.3 if n_keys <= 100 else 0.8 if n_keys <= 20_000 else 0.5


@lru_cache(maxsize=64)
def find_layout(
    entrance: Entrance,
    n_keys: int,
    field_bits: int,
    mantissa_bits: int,
    *,
    reject_bits: int = 0,
    allow_twin: bool = True,
) -> Layout:
    """The smallest layout for `n_keys` labels of `field_bits` bits each, `reject_bits` of which are always zero."""
    found: _Found = None
    least = max(1, 2 * reject_bits, 2 * entrance.n_projections)
    widest = min(_WIDEST, max(least, int(sqrt(n_keys) / 4)))
    channels = sorted({int(_RATIO**i) for i in range(80) if int(_RATIO**i) <= widest})
    # planes with hardly a key in each would be emptier than full
    most_planes = min((mantissa_bits - 2) // field_bits, 2 + isqrt(n_keys) // 4)
    is_easy = n_keys <= _FEW and not reject_bits
    starts = _starts(entrance, n_keys, field_bits, mantissa_bits, allow_twin, is_easy)
    for start in (replace(each, reject_bits=reject_bits) for each in starts):
        for planes in range(most_planes, 0, -1):
            found = _smaller(found, replace(start, n_planes=planes), channels)
    if found is None:
        raise AssumptionViolated(
            f"no layout fits {n_keys} labels of {field_bits} bits into a mantissa of {mantissa_bits} bits for sequences of "
            f"{entrance.seq_len} tokens.\n  Take precision float64, fewer reject bits, or the method kajitsuka-sato-2025.",
            n_keys=n_keys,
            field_bits=field_bits,
        )
    best = found[1]
    near = [p for p in range(best.n_channels * 8 // 9, best.n_channels * 9 // 8 + 2) if p > 0]
    for planes in range(max(1, best.n_planes - 1), min(best.n_planes + 1, most_planes) + 1):
        found = _smaller(found, replace(best, n_planes=planes), near)
    assert found is not None
    return found[1]


def _starts(
    entrance: Entrance, n_keys: int, field_bits: int, mantissa_bits: int, allow_twin: bool, is_easy: bool
) -> Iterator[Layout]:
    """One layout of each kind, to be filled in."""
    rest = (entrance, n_keys, field_bits, 1, 1, 1)
    for n_segments in _SEGMENTS[: 2 if is_easy else None]:
        yield Chain(*rest, n_segments, 1, 0, 0, mantissa_bits)
    if allow_twin and n_keys >= _LEAST_TWIN:
        stirred = replace(entrance, n_folds=max(1, entrance.n_folds))
        for n_digits in _DIGITS:
            yield Twin(stirred, *rest[1:], 2, 1, 0, 0, mantissa_bits, n_digits=n_digits)


def _smaller(found: _Found, start: Layout, channels: Sequence[int]) -> _Found:
    """The smallest of `found` and of the layouts like `start` with some number of channels and groups."""
    for n_channels in channels:
        wide = replace(start, n_channels=n_channels)
        if found is not None and _least_size(wide) >= found[0]:
            continue
        for n_groups in _GROUPS:
            if n_groups > n_channels or (n_groups == 1 and n_channels > 1):
                continue
            layout = replace(wide, n_groups=n_groups)
            headroom = _headroom_bits(layout)
            if layout.word_bits + 2 + headroom > layout.mantissa_bits:
                break
            sized = _with_rows(replace(layout, headroom_bits=headroom))
            if sized is None or not sized.is_exact:
                continue
            n_dense = sized.size(64).parameters_dense
            if found is None or n_dense < found[0]:
                found = n_dense, sized
    return found


def _least_size(layout: Layout) -> int:
    """Fewer parameters than any layout with these planes and channels can have: a full table, and the reading circuit."""
    m = layout.model_width
    is_twin = isinstance(layout, Twin)
    rows = layout.n_keys // (layout.n_planes * layout.n_channels * (2 if is_twin else 1))
    units = rows + (5 if is_twin else 3) * layout.n_channels - 4 + layout.n_planes + layout.word_bits
    return units * (2 * m + 1) + layout.word_bits * m


def _with_rows(layout: SomeLayout) -> SomeLayout | None:
    """Choose rows and window: the smallest window that gives enough addresses, or for few keys more rows than they need."""
    for stretch in (1, 2, 4) if layout.n_keys <= _FEW else (1,):
        found = _with_window(layout, stretch)
        if found is not None:
            return found
    return None


def _with_window(layout: SomeLayout, stretch: int) -> SomeLayout | None:
    for window_bits in range(14):
        rows = stretch * _rows_needed(layout, window_bits)
        if 1 << window_bits > 2 * rows:
            return None
        if window_bits < _LEAST_WINDOW_BITS and 1 << (window_bits + 1) <= rows:
            continue
        sized = replace(layout, n_rows=rows, window_bits=window_bits)
        # an unknown input with the address of a key is answered as that key: rarer than 2^-reject_bits / 16
        is_sparse = not sized.reject_bits or sized.n_addresses >= 16 * sized.n_keys << sized.reject_bits
        if is_sparse and expected_duplicates(sized) <= max_duplicates(sized.n_keys):
            affordable = max(1.0, _SECONDS_PER_KEY * sized.n_keys)
            return sized if _solve_seconds(sized) <= affordable else None
    return None


_LEAST_WINDOW_BITS = 3  # narrower windows need more spare columns than they save


def expected_duplicates(layout: Layout) -> float:
    """E of the pairs of keys with the same address, for uniform independent addresses."""
    return layout.n_keys * (layout.n_keys - 1) / 2 / layout.n_addresses


def _rows_needed(layout: Layout, window_bits: int) -> int:
    """Rows of each segment so that the fullest plane fits.

    A plane gets N/K keys up to a few √(N/K). Sorted by row, equations queue for pivots within a window of A columns; with a
    share ε of the columns left over the queue exceeds A with probability e^(-2εA) at each row. Every segment is
    hit once by each key, so all segments but one waste a row of columns.
    """
    k, n_channels, planes = layout.n_segments, layout.n_channels, layout.n_planes
    mean = layout.n_keys / planes
    fullest = mean if planes == 1 else min(layout.n_keys, mean + sqrt(2 * log(planes) * mean) + 1)
    columns = fullest / _rank_limit(layout) + _SPARE_COLUMNS * (layout.n_keys > 4)
    rows = ceil((columns / n_channels + k - 1) / k)
    window = max(2, min(1 << window_bits, rows)) * (k - 1) * n_channels
    spare = min(0.3, log(max(2.0, k * rows * planes / 0.3)) / (2 * window))
    if 1 << window_bits >= rows:
        spare = 0.0  # every key reaches every row: one queue for all
    return max(1, ceil((columns / (1 - spare) / n_channels + k - 1) / k))


def _rank_limit(layout: Layout) -> float:
    """The load up to which random equations are independent.

    With r words to an equation, a share e^-r of the columns is touched by none. The thresholds of random r-XORSAT are
    0.918, 0.977, 0.992 for r = 3, 4, 5 (Pittel and Sorkin, 2016): 1 - 1.7·e^-r is below each of them. With r = 2 the equations are
    the edges of a graph, which is likely to have no cycle while it is much sparser than one half.
    """
    n_words = _mean_words(layout)
    return 0.35 if n_words < 2.9 else 1 - 1.7 * exp(-n_words)


def _mean_words(layout: Layout) -> float:
    """Words an equation touches, on average."""
    return layout.n_segments * (1.0 + sum(size / (size + 1) for size in layout.groups[1:]))


def _headroom_bits(layout: Layout) -> int:
    """h with |y - centre·2^w| <= 2^(h + w) for every key, almost surely: the worst case, or z deviations."""
    k = layout.n_segments
    sizes = layout.groups[1:]
    spread = k * k * sum(size / (size + 1) ** 2 for size in sizes)
    worst = (k * layout.n_groups + 1) // 2  # between 0 and k·G words, and the centre is half of them, rounded
    deviation = min(worst, _deviations(layout.n_keys) * sqrt(_mean_words(layout) / 12 + spread / 4) + 0.5)
    return max(0, ceil(log2(deviation)))


@lru_cache(maxsize=64)
def _deviations(n_keys: int) -> float:
    """z with N·P(|normal| > z) < 5%."""
    z = 3.0
    while n_keys * erfc(z / sqrt(2)) > 0.05:
        z += 0.1
    return z


def _solve_seconds(layout: Layout) -> float:
    window = min((1 << layout.window_bits) * (layout.n_segments - 1), layout.n_rows) * layout.n_segments
    return layout.n_keys * _BAND_SECONDS * float(window * layout.n_channels) ** 2
