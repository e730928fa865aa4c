"""Requirements that a layout must meet so that a few draws of the hash are enough: rows, headroom, addresses and solving time.

A draw of the random hash for N keys can fail for three reasons. The probability of each is known in advance:
    addresses  two keys have the same address. The expected number of such pairs, E = N²/2 / (number of addresses), is kept below
               `max_duplicates`
    load       a plane (bit field of the words) has more keys than columns (words), or equations depend on each other; spare
               columns help, see `rows_needed`
    headroom   a sum is so far from its mean that the mantissa cannot hold it; there is room for z standard deviations, where z is
               so large that N normal variables all stay within that distance with a probability of at least 95%
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, erfc, exp, log, log2, prod, sqrt
from typing import TypeVar

import numpy as np

from byheart.construct.retrieval.dual_table import DualTable
from byheart.construct.retrieval.label_code import fullest
from byheart.construct.retrieval.layout import RetrievalLayout

SPARE_COLUMNS = 6  # a random square GF(2) system usually lacks one or two ranks; each spare column halves the risk that it does
MOST_SPARE = 0.3  # the largest share of spare columns
LEAST_WINDOW_BITS = 3  # narrower windows need more spare columns than they save
_BAND_SECONDS = 1e-12  # measured seconds per key and column² of the window
_SECONDS_PER_KEY = 3e-5  # time allowed for elimination, so that compilation time stays linear
_SECONDS_PER_KEY_IN_SHARDS = 5e-6  # the same for so many keys that they are solved in shards


SomeNumber = TypeVar("SomeNumber", float, np.ndarray)


def max_duplicates(n_keys: int) -> float:
    """Return the limit on E, the expected number of pairs of keys with equal addresses.

    With probability about e^-E, a random hash gives all keys different addresses. The limit is 0.3 for up to 100 keys, 0.8 for up
    to 20,000 keys and 0.5 for more. It is lower again above 20,000 keys, because another draw of the hash then takes long.
    """
    return 0.3 if n_keys <= 100 else 0.8 if n_keys <= 20_000 else 0.5


def addresses_needed(n_keys: int, reject_bits: int, n_shards: int = 1) -> float:
    """Return the number of addresses that a layout needs.

    An address is where a key finds its label: rows, channels and a field of bits. With that many addresses, few pairs of keys share
    one. If there are reject bits, the number is also so large that an unknown input has the address of some key with a probability
    of at most 2^-reject_bits / 16.
    """
    for_keys = n_keys * (n_keys - 1) / 2 / max_duplicates(n_keys) * _care(n_shards)
    return max(for_keys, 16.0 * n_keys * 2**reject_bits) if reject_bits else for_keys


def rows_needed(layout: RetrievalLayout, windows: tuple[int, ...], has_margins: bool = False) -> int:
    """Return the number of rows per table that the fullest plane (bit field) of the fullest shard needs.

    There is one equation for each key and one unknown, or column, for each word. Equations are sorted by row, and each takes its
    pivot within a window of A columns. If a share ε of the columns is spare, the number of equations that wait for a pivot (the
    queue) exceeds A with probability e^(-2εA) at each row. Every key reads one row of every table, so the columns of different
    tables are not independent, and all tables but one need an extra row of columns. At the two edges of a shard, fewer rows remain,
    so the queue must be shorter. For this, there are either more columns everywhere, or margins: rows at the edges in which no key
    starts (`margins_needed`). Margins are not counted here.
    """
    k, n_channels = layout.n_segments, layout.n_channels
    columns = max(_columns_for_all(layout), _columns_for_single_channels(layout))
    rows = ceil((columns / n_channels + k - 1) / k)
    window = sum(max(2, min(1 << w, rows)) for w in windows) * n_channels
    spare = log(max(2.0, k * rows * _n_systems(layout) / 0.3)) / (2 * window)
    if layout.n_shards > 1:
        in_margins = has_margins * k * n_channels * (1 << max(windows)) / 2
        spare = max(
            spare, _queue_at_an_edge(layout) / (_columns_at_an_edge(layout, max(windows)) + in_margins)
        )
    spare = min(MOST_SPARE, spare)
    if 1 << windows[-1] >= rows:
        spare = 0.0  # every key can reach every row, so there is one queue
    return max(1, ceil((columns / (1 - spare) / n_channels + k - 1) / k))


def margins_needed(layout: RetrievalLayout, windows: tuple[int, ...], rows: int) -> int:
    """Return the number of margin rows at each edge of a shard (a range of table rows that is solved by itself).

    No key starts in a margin row. `rows` is the number of the other rows. For each w in `windows`, a key steps to one of 2^w rows.

    An example without margins: with ten million facts in 8 shards and steps of up to 8 rows, each of 88 systems of equations failed
    at an edge with a probability of about 2.7% (4 of 150 random systems), so most draws failed.
    """
    n_columns = layout.n_segments * layout.n_channels
    spare = 1 - _fullest_system(layout) / (rows * n_columns)
    missing = _queue_at_an_edge(layout) / spare - _columns_at_an_edge(layout, max(windows))
    return min(max(1, ceil(missing / n_columns)), (1 << max(windows)) // 2)


def _queue_at_an_edge(layout: RetrievalLayout) -> float:
    """Return the product A·ε that is needed at an edge of a shard (a range of rows), where equations queue for a pivot.

    ε is the share of spare columns, and A is the longest queue for which there is room. At each row, the queue is longer than A
    with a probability of e^(-2εA). The product is so large that this almost never happens.
    """
    return log(2 * _n_systems(layout) / 0.3) / 2


def _n_systems(layout: RetrievalLayout) -> int:
    """Return the number of systems of equations, all of which must have full rank: one for each plane (bit field of the words) of
    each shard (range of table rows).

    With shards, this number is multiplied by `_care`, because a failure is then more expensive.
    """
    return layout.n_planes * layout.n_shards * _care(layout.n_shards)


def _columns_at_an_edge(layout: RetrievalLayout, window_bits: int) -> float:
    """Estimate how many words in later rows can be used by the keys whose first row is just before an edge. Each word is a column
    of the equations to solve. A key steps from its first row to one of 2^window_bits rows around it; later rows are half of them.
    """
    window = 1 << window_bits
    n_rows = sum(range(1, window // 2)) / window
    return max(1.0, n_rows * layout.n_segments * layout.n_channels)


def _care(n_shards: int) -> int:
    """Return the factor by which the accepted risk of failure is divided. It is above 1 if there are several shards (ranges of
    table rows), because a failure in one of them makes the work on all others useless.
    """
    return 10 if n_shards > 1 else 1


def _fullest_system(layout: RetrievalLayout, n_patterns: int = 1) -> float:
    """Return an estimate for the largest number of keys in one system of equations: the mean plus some standard deviations.

    There is a system for each plane (bit field of the words) of each shard (range of table rows).

    n_patterns: the number of different choices of channels. If it is given, only keys with the same choice are counted.
    """
    n_systems = layout.n_planes * layout.n_shards * n_patterns
    return fullest(layout.n_keys, n_systems, _care(layout.n_shards))


def _columns_for_all(layout: RetrievalLayout) -> float:
    spare = SPARE_COLUMNS * (layout.n_keys > 4)
    return _fullest_system(layout) / rank_limit(mean_words(layout)) + spare


def _columns_for_single_channels(layout: RetrievalLayout) -> float:
    """Return the number of columns (words) that a table needs because of the keys that use only one channel.

    The keys that use a given channel and no other must all fit into the words of this channel. The result is the number of words
    that this takes, times the number of channels. (A channel that is used alone is always in the first group.)
    """
    n_patterns = prod(layout.choices) ** (2 if isinstance(layout, DualTable) else 1)
    n_single = _fullest_system(layout, n_patterns)
    spare = SPARE_COLUMNS * (layout.n_keys > 4)
    return layout.n_channels * (n_single / rank_limit(float(layout.n_segments)) + spare)


def rank_limit(n_words: float) -> float:
    """Return a load (equations per column) at which random equations with `n_words` words each are independent.

    This holds nearly always for three or more words, and probably for two. For r words, r >= 3, the load is 1 - 1.7·e^-r. This is
    below the thresholds of random r-XORSAT, which are 0.918, 0.977 and 0.992 for r = 3, 4 and 5 (Pittel and Sorkin, 2016). The form
    follows from the columns that occur in no equation: their share is e^-r if there are as many equations as columns. For fewer
    than 2.9 words on average it is 0.35, as for r = 2: the equations are then the edges of a random graph, which probably has no
    cycle if the load is well below one half.
    """
    return 0.35 if n_words < 2.9 else 1 - 1.7 * exp(-n_words)


def mean_words(layout: RetrievalLayout) -> float:
    """Return the average number of words in an equation."""
    return layout.n_segments * (1.0 + sum(size / (size + 1) for size in layout.groups[1:]))


def headroom_bits(layout: RetrievalLayout) -> int:
    """Return h such that |y - centre·2^w| <= 2^(h + w) for every key, with a probability of about 95% or more. Here y is the sum of
    the words that the key reads, w is the number of bits of a word, and centre·2^w is about the middle of all such sums.

    h is computed from the largest possible distance of y from centre·2^w or, if that is less, from `deviations(n_keys)` standard
    deviations of y.
    """
    k = layout.n_segments
    sizes = layout.groups[1:]
    spread = k * k * sum(size / (size + 1) ** 2 for size in sizes)
    # the sum has 0 to k·G words, and the centre is half of that, rounded; signed words lower both by half of theirs
    worst = (k * layout.n_groups + 1) // 2 + (layout.n_signed_segments * layout.n_groups) % 2 / 2
    deviation = min(worst, deviations(layout.n_keys) * sqrt(mean_words(layout) / 12 + spread / 4) + 0.5)
    return max(0, ceil(log2(deviation)))


@lru_cache(maxsize=64)
def deviations(n_keys: int) -> float:
    """Return z such that `n_keys` normal variables all stay within z standard deviations with a probability of at least 95%."""
    z = 3.0
    while n_keys * erfc(z / sqrt(2)) > 0.05:
        z += 0.1
    return z


def solve_seconds(n_keys: int, columns: SomeNumber) -> SomeNumber:
    """Return the estimated time, in seconds, to solve the equations by elimination with a window of `columns` columns."""
    return n_keys * _BAND_SECONDS * columns**2


def seconds_allowed(n_keys: int, n_shards: int) -> float:
    """Return the seconds allowed for solving the equations.

    This is one second or a time proportional to the number of keys, whichever is longer.
    """
    return max(1.0, (_SECONDS_PER_KEY if n_shards == 1 else _SECONDS_PER_KEY_IN_SHARDS) * n_keys)


def is_quickly_solved(layout: RetrievalLayout) -> bool:
    """Whether the equations of the table can, by the estimate of `solve_seconds`, be solved within `seconds_allowed`."""
    window = min(sum(1 << w for w in layout.windows), layout.shard_rows) * layout.n_segments
    return solve_seconds(layout.n_keys, float(window * layout.n_channels)) <= seconds_allowed(
        layout.n_keys, layout.n_shards
    )
