"""What a layout needs so that a few draws of the hash suffice: rows, headroom, addresses, and time to solve.

Three things can fail a draw, each with a probability that is known beforehand:
    addresses  two keys with the same address.   E = N²/2 / (number of addresses), kept below `max_duplicates`
    load       more keys in a plane than columns, or an unlucky dependency: columns left over, see `rows_needed`
    headroom   a sum too far from its mean for the mantissa: deviations z with N·P(|normal| > z) < 5%
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, erfc, exp, log, log2, prod, sqrt
from typing import TypeVar

import numpy as np

from byheart.construct.retrieval.dual_table import DualTable
from byheart.construct.retrieval.label_code import fullest
from byheart.construct.retrieval.layout import RetrievalLayout

SPARE_COLUMNS = 6  # a random square GF(2) system lacks one or two ranks; each spare column halves the risk
MOST_SPARE = 0.3  # of the columns
LEAST_WINDOW_BITS = 3  # narrower windows need more spare columns than they save
_BAND_SECONDS = 1e-12  # measured seconds per key and column² of the window
_SECONDS_PER_KEY = 3e-5  # what the elimination may take, so that compiling stays linear


SomeNumber = TypeVar("SomeNumber", float, np.ndarray)


def max_duplicates(n_keys: int) -> float:
    """Expected pairs of keys with equal addresses; a draw without any has probability e^-E. Small data are drawn often."""
    return 0.3 if n_keys <= 100 else 0.8 if n_keys <= 20_000 else 0.5


def addresses_needed(n_keys: int, reject_bits: int, n_shards: int = 1) -> float:
    """The number of addresses for which few pairs of keys collide, and an unknown input meets a key more rarely than
    2^-reject_bits / 16.
    """
    for_keys = n_keys * (n_keys - 1) / 2 / max_duplicates(n_keys) * _care(n_shards)
    return max(for_keys, 16.0 * n_keys * 2**reject_bits) if reject_bits else for_keys


def rows_needed(layout: RetrievalLayout, windows: tuple[int, ...]) -> int:
    """Rows of each segment so that the fullest plane fits; of one shard, and the fullest of all shards.

    Sorted by row, equations queue for pivots within a window of A columns; with a share ε of the columns left over the queue
    exceeds A with probability e^(-2εA) at each row. Every segment is hit once by each key, so all segments but one waste a row
    of columns. At the two edges of a shard the queue may be no longer than what leaves the rows up to the edge: where ten million
    facts in 8 shards had windows of 8 rows, each of 88 systems failed there with a probability of 2%, and so most draws did.
    """
    k, n_channels = layout.n_segments, layout.n_channels
    columns = max(_columns_for_all(layout), _columns_for_lonely(layout))
    rows = ceil((columns / n_channels + k - 1) / k)
    window = sum(max(2, min(1 << w, rows)) for w in windows) * n_channels
    n_systems = layout.n_planes * layout.n_shards * _care(layout.n_shards)
    spare = log(max(2.0, k * rows * n_systems / 0.3)) / (2 * window)
    if layout.n_shards > 1:
        spare = max(spare, log(2 * n_systems / 0.3) / (2 * _columns_at_an_edge(layout, max(windows))))
    spare = min(MOST_SPARE, spare)
    if 1 << windows[-1] >= rows:
        spare = 0.0  # every key reaches every row: one queue for all
    return max(1, ceil((columns / (1 - spare) / n_channels + k - 1) / k))


def _columns_at_an_edge(layout: RetrievalLayout, window_bits: int) -> float:
    """Columns that keys can take beyond a row: of those in the rows below it, as many as step over it; steps go both ways."""
    window = 1 << window_bits
    n_rows = sum(range(1, window // 2)) / window
    return max(1.0, n_rows * layout.n_segments * layout.n_channels)


def _care(n_shards: int) -> int:
    """How many times more rarely than usual a draw may fail: with shards a failure loses the work of all of them."""
    return 10 if n_shards > 1 else 1


def _fullest_system(layout: RetrievalLayout, n_patterns: int = 1) -> float:
    """Expected keys in the fullest plane of a shard, or with the same pattern: the mean plus a few deviations."""
    n_systems = layout.n_planes * layout.n_shards * n_patterns
    return fullest(layout.n_keys, n_systems, _care(layout.n_shards))


def _columns_for_all(layout: RetrievalLayout) -> float:
    spare = SPARE_COLUMNS * (layout.n_keys > 4)
    return _fullest_system(layout) / rank_limit(mean_words(layout)) + spare


def _columns_for_lonely(layout: RetrievalLayout) -> float:
    """Keys that touch one channel of the first group and no other must fit the columns of that channel alone."""
    n_patterns = prod(layout.choices) ** (2 if isinstance(layout, DualTable) else 1)
    lonely = _fullest_system(layout, n_patterns)
    spare = SPARE_COLUMNS * (layout.n_keys > 4)
    return layout.n_channels * (lonely / rank_limit(float(layout.n_segments)) + spare)


def rank_limit(n_words: float) -> float:
    """The load up to which random equations of that many words are independent.

    With r words to an equation, a share e^-r of the columns is touched by none. The thresholds of random r-XORSAT are
    0.918, 0.977, 0.992 for r = 3, 4, 5 (Pittel and Sorkin, 2016): 1 - 1.7·e^-r is below each of them. With r = 2 the equations are
    the edges of a graph, which is likely to have no cycle while it is much sparser than one half.
    """
    return 0.35 if n_words < 2.9 else 1 - 1.7 * exp(-n_words)


def mean_words(layout: RetrievalLayout) -> float:
    """Words an equation touches, on average."""
    return layout.n_segments * (1.0 + sum(size / (size + 1) for size in layout.groups[1:]))


def headroom_bits(layout: RetrievalLayout) -> int:
    """h with |y - centre·2^w| <= 2^(h + w) for every key, almost surely: the worst case, or z deviations."""
    k = layout.n_segments
    sizes = layout.groups[1:]
    spread = k * k * sum(size / (size + 1) ** 2 for size in sizes)
    worst = (k * layout.n_groups + 1) // 2  # between 0 and k·G words, and the centre is half of them, rounded
    deviation = min(worst, deviations(layout.n_keys) * sqrt(mean_words(layout) / 12 + spread / 4) + 0.5)
    return max(0, ceil(log2(deviation)))


@lru_cache(maxsize=64)
def deviations(n_keys: int) -> float:
    """z with N·P(|normal| > z) < 5%."""
    z = 3.0
    while n_keys * erfc(z / sqrt(2)) > 0.05:
        z += 0.1
    return z


def solve_seconds(n_keys: int, columns: SomeNumber) -> SomeNumber:
    """Seconds that elimination takes with a window of that many columns."""
    return n_keys * _BAND_SECONDS * columns**2


def seconds_allowed(n_keys: int) -> float:
    """The time allowed for elimination: one second, or time proportional to the number of keys."""
    return max(1.0, _SECONDS_PER_KEY * n_keys)


def is_quickly_solved(layout: RetrievalLayout) -> bool:
    """Whether elimination takes no longer than it may."""
    window = min(sum(1 << w for w in layout.windows), layout.shard_rows) * layout.n_segments
    return solve_seconds(layout.n_keys, float(window * layout.n_channels)) <= seconds_allowed(layout.n_keys)
