"""Lower bounds on the numbers of parameters of many layouts at once. The search ranks layouts by these bounds without building the
layouts.

The formula is separate from the code that counts parameters, so the two could diverge. Therefore `search` asserts, for each
layout that it builds, that the bound is not above the size, and `test_search` compares the result with a search that does not
prune. The formula ignores some details: most spare columns, the rounding of digits, and most reflections of words.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import numpy as np
from jaxtyping import Float, Int

from byheart.construct.retrieval.constraints import (
    LEAST_WINDOW_BITS,
    MOST_SPARE,
    SPARE_COLUMNS,
    addresses_needed,
    deviations,
    seconds_allowed,
    solve_seconds,
)
from byheart.construct.retrieval.dual_table import DualTable
from byheart.construct.retrieval.label_code import fullest
from byheart.construct.retrieval.layout import RetrievalLayout

_MOST_STRETCH = 4  # when keys are few, at most this many times the rows that they need


@dataclass(frozen=True, eq=False)
class Ranked:
    """Candidates of one kind of layout. The arrays have one entry per candidate: its number of planes (bit fields of a word), of
    channels (words of a row) and of groups of channels, and a lower bound on its size. The kind is given by `start`, a layout
    whose own numbers of planes, channels, groups and rows are placeholders.
    """

    start: RetrievalLayout
    planes: Int[np.ndarray, " n_candidates"]
    channels: Int[np.ndarray, " n_candidates"]
    groups: Int[np.ndarray, " n_candidates"]
    least: Float[np.ndarray, " n_candidates"]


def rank(start: RetrievalLayout, planes: list[int], channels: list[int], groups: tuple[int, ...]) -> Ranked:
    """Return the combinations of `planes`, `channels` and `groups`, each with a lower bound on its size. Combinations are left out
    if they have more groups than channels or one group of several channels, if their sums certainly do not fit into the mantissa,
    or if solving certainly takes too long.
    """
    grid = np.array(np.meshgrid(planes, channels, groups, indexing="ij"), dtype=np.int64).reshape(3, -1)
    n_channels, n_groups = grid[1], grid[2]
    grid = grid[:, (n_groups <= n_channels) & ((n_groups > 1) | (n_channels == 1))]
    least, fits = _least_sizes(start, grid[0], grid[1], grid[2])
    kept = grid[:, fits]
    return Ranked(start, kept[0], kept[1], kept[2], least[fits])


def _least_sizes(
    start: RetrievalLayout,
    planes: Int[np.ndarray, " n_candidates"],
    channels: Int[np.ndarray, " n_candidates"],
    groups: Int[np.ndarray, " n_candidates"],
) -> tuple[np.ndarray, np.ndarray]:
    n, k, c, n_parts = start.n_keys, start.n_segments, start.field_bits, start.n_parts
    small, extra = channels // groups, channels % groups
    larger = np.maximum(0, extra - 1)  # groups after the first that have one more channel
    others = groups - 1 - larger
    n_words = k * (1 + larger * (small + 1) / (small + 2) + others * small / (small + 1))
    load = np.where(n_words < 2.9, 0.35, 1 - 1.7 * np.exp(-n_words))
    of_plane = np.array([fullest(n, int(p)) for p in np.unique(planes)])[
        np.unique(planes, return_inverse=True)[1]
    ]
    columns = of_plane / load + SPARE_COLUMNS * (n > 4)
    rows = np.maximum(1, np.ceil((columns / channels + k - 1) / k * (1 - 1e-12)))
    headroom = _headroom(start, groups, n_words, larger, others, small)
    rare = start.rare_fields
    word_bits = c * planes + sum(field.n_bits * field.n_planes for field in rare)
    patterns = np.log2(small + (extra > 0)) + larger * np.log2(small + 2) + others * np.log2(small + 1)
    step_bits = _least_step_bits(start, planes, patterns, columns, channels)
    cost = _Cost(start, channels)
    cost.blocks(
        2 * n_parts + start.entrance.n_folds + c * n_parts,
        n_parts * (channels + 2 * c) + planes + cost.n_fields * start.entrance.n_folds,
    )
    silent = n_parts * (word_bits + headroom - c + 1)
    cost.blocks(silent, silent)
    rare_bits = sum(field.n_bits for field in rare)
    cost.blocks(rare_bits + 3 * len(rare), 2 * rare_bits + 5 * len(rare))
    cost.blocks(step_bits + np.minimum(step_bits, k - 1), 2 * (step_bits + np.minimum(step_bits, k - 1)))
    for_words = _least_folds(start, np.log2(rows) if cost.is_dual else np.log2(rows) + patterns)
    cost.blocks(for_words, for_words)
    cost.blocks(groups * (1 + cost.is_dual), 2 * (channels - 1) * (1 + cost.is_dual))
    if isinstance(start, DualTable):
        d = start.n_digits
        # the average number of values per digit is at least this; the last digit takes half as many units
        root = rows ** (1 / d) * (1 - 1e-12)
        cost.blocks(d + 3, np.floor(2 * d * (root - 1) - root) + rows + cost.n_fields + 2)
    else:
        squares = k * np.maximum(0, np.ceil(np.log2(rows) - 1e-9) - 1)
        cost.blocks(squares + k, squares + k * rows)
    n_projections, n_bits = start.entrance.n_projections, start.entrance.n_bits
    cost.blocks((2 * n_bits + 1) * (n_projections > 0), n_projections * (3 * n_bits + 1))
    fits = word_bits + 2 + headroom <= start.mantissa_bits
    fits &= _row_bits(start, rows, word_bits - 1 + np.ceil(np.log2(groups))) <= start.mantissa_bits
    return cost.total, fits & _may_be_solved(start, rows, channels, step_bits)


def _row_bits(start: RetrievalLayout, rows: np.ndarray, gate_bits: np.ndarray) -> np.ndarray:
    """Return a lower bound on the bits of the sums that select one of `rows` rows. `gate_bits` is the number of bits of the
    constant that keeps the units of other rows at zero.
    """
    if not isinstance(start, DualTable):
        return np.asarray(np.floor(3 + 2 * np.log2(rows)))
    half = np.ceil(rows ** (1 / start.n_digits) * (1 - 1e-12)) // 2
    return np.asarray(np.floor(np.log2(8 * (start.n_digits - 1) * half**2 + 2) + gate_bits))


def _may_be_solved(
    start: RetrievalLayout, rows: np.ndarray, channels: np.ndarray, step_bits: np.ndarray
) -> np.ndarray:
    """Return, for each layout, whether its equations may be solvable within the allowed time.

    An equation takes its pivot from a window (range) of columns; the narrower the window, the faster the solution. Here every
    window is assumed to be as narrow as is allowed, so the estimate of the time is never too long.
    """
    n_steps = start.n_segments - 1
    window_bits = np.maximum(
        step_bits // n_steps, np.where(rows >= 2**LEAST_WINDOW_BITS, LEAST_WINDOW_BITS, 0)
    )
    window = np.minimum(n_steps * 2.0**window_bits, rows) * start.n_segments
    return np.asarray(
        solve_seconds(start.n_keys, window * channels) <= seconds_allowed(start.n_keys, start.n_shards)
    )


class _Cost:
    """A running count of parameters. It starts with the parameters of the embedding and the attention. Each call of `blocks` adds
    the parameters of some feed-forward blocks.
    """

    def __init__(self, start: RetrievalLayout, channels: np.ndarray) -> None:
        self.is_dual = isinstance(start, DualTable)
        self.n_fields = 3 if self.is_dual else 2
        entrance = start.entrance
        slots = start.n_slots - (isinstance(start, DualTable) and not start.shares_window)
        self.m = slots + start.n_parts * channels
        is_table = entrance.kind == "table"
        dim = entrance.dim
        if is_table:
            dim = 1 if entrance.is_narrow else self.n_fields
        table = dim * (entrance.n_rows + entrance.seq_len * entrance.ordered) if is_table else 0
        pools = entrance.pooling == "attention" and entrance.seq_len > 1
        heads = self.n_fields + 1 if self.is_dual else self.n_fields * pools
        self.total = table + self.m * (dim + 1 + 2 * heads)

    def blocks(self, n_blocks: object, n_units: object) -> None:
        self.total = self.total + np.asarray(n_units) * (2 * self.m + 1) + np.asarray(n_blocks) * self.m


def _headroom(
    start: RetrievalLayout,
    groups: np.ndarray,
    n_words: np.ndarray,
    larger: np.ndarray,
    others: np.ndarray,
    small: np.ndarray,
) -> np.ndarray:
    """Return a lower bound on `constraints.headroom_bits`.

    A tiny number is subtracted before rounding up, so that an error in the last digit of a float cannot raise the result.
    """
    k = start.n_segments
    spread = k * k * (larger * (small + 1) / (small + 2) ** 2 + others * small / (small + 1) ** 2)
    worst = (k * groups + 1) // 2
    deviation = np.minimum(worst, deviations(start.n_keys) * np.sqrt(n_words / 12 + spread / 4) + 0.5)
    return np.asarray(np.maximum(0, np.ceil(np.log2(deviation) - 1e-9)))


def _least_step_bits(
    start: RetrievalLayout,
    planes: np.ndarray,
    patterns: np.ndarray,
    columns: np.ndarray,
    channels: np.ndarray,
) -> np.ndarray:
    """Return a lower bound on the bits that must choose the steps from row to row of a key, all steps together, so that there are
    enough addresses.

    The bound assumes as many rows as possible, and that no step is reflected at the edge of a shard.
    """
    k = start.n_segments
    rows = _MOST_STRETCH * np.ceil((columns / (1 - MOST_SPARE) / channels + k - 1) / k)
    n_patterns = 2 * patterns if isinstance(start, DualTable) else patterns
    wanted = log2(max(1.0, addresses_needed(start.n_keys, start.reject_bits, start.n_shards)))
    return np.asarray(np.maximum(0, np.ceil(wanted - np.log2(rows * planes) - n_patterns - 1e-9)))


def _least_folds(start: RetrievalLayout, base_bits: np.ndarray) -> np.ndarray:
    """Return a lower bound on the number of reflections that bring a hashed field into its range [0, B), where B has at least
    `base_bits` bits (see `RetrievalLayout.make_field`).
    """
    n = start.entrance.n_varied
    ratio = 6.0 if n == 1 else max(4.95 / (start.sum_factor * n**0.5), 0.5)
    largest = ratio * start.sum_width - start.sum_width * 2.0**-base_bits
    return np.asarray(np.maximum(0, np.ceil(np.log2(np.maximum(1.0, largest)) - 1e-9)))
