"""Arrange the points as distinct integers on a line. The line is folded, cut into segments that are laid over one another, and
divided into buckets.

This module computes only with integers; `program` turns each move into a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import isqrt
from operator import or_

import numpy as np

from byheart.errors import AssumptionViolated
from byheart.program.projection import IntegerPoints

_DIRECTIONS_PER_SIZE = 16
_LONGEST_DIRECTION_BITS = 4096
_FOLD_COMPARISONS = 1_000_000  # about the most comparisons for one fold of up to 125,000 points
_MOST_FOLD_TRIALS = 2_000
_WINDOW = 4096
_INT64 = 1 << 62


def short_direction(
    points: IntegerPoints, rng: np.random.Generator
) -> tuple[tuple[int, ...], list[int], int]:
    """Find a direction with short entries along which all points are distinct. Returns (direction, positions, unit bits).

    Position i is the inner product of `direction` and the integers in row i of `points.coordinates`, divided by 2^(unit bits). This
    power of two is the largest that divides all the inner products. Positions are distinct, and may be negative.

    Source:     the projection of Park et al. (2021), which is KS25 Lemma G.1. Only distinctness is required. Folds of the line
                reduce the range later.
    """
    dim = points.coordinates.shape[1]
    for n_bits in range(_LONGEST_DIRECTION_BITS):
        largest = 1 << n_bits
        candidates = (
            [tuple(int(axis == at) for axis in range(dim)) for at in range(dim)] if n_bits == 0 else []
        )
        for _ in range(_DIRECTIONS_PER_SIZE if dim > 1 else 0):
            high: list[int] = rng.integers(0, 2**30, size=(dim,)).tolist()
            entries = (number * largest // 2**29 - largest for number in high)
            candidates.append(tuple(entry or 1 for entry in entries))
        best: tuple[int, tuple[int, ...], list[int]] | None = None
        for direction in candidates:
            places = points.along(direction)
            if len(set(places)) == len(places):
                extent = max(places) - min(places)
                if best is None or extent < best[0]:
                    best = (extent, direction, places)
        if best is not None:
            # all positions, and so their differences, are multiples of the lowest bit of this number
            together = reduce(or_, best[2], 0)
            unit = (together & -together).bit_length() - 1 if together else 0
            return best[1], [place >> unit for place in best[2]], unit
    raise AssumptionViolated(
        f"no direction separates the {points.n_points} points. Are two of them equal?",
        n_points=points.n_points,
    )


def fold(places: Sequence[int], rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Fold the line until the largest position is below the number of points, or until no suitable mirror is found. Returns
    (mirrors, new positions).

    A fold with mirror μ leaves every point x <= μ/2 in place and moves every point x > μ/2 to μ - x. This about halves the range.
    A mirror is not suitable if it moves two points x and y to the same position, which happens if x + y = μ. N points have fewer
    than N²/2 such sums. So as long as the largest position is much larger than N², almost every μ near that position is suitable.

    Assumes:    distinct positions, not negative.
    Guarantee:  new positions are distinct and not negative; usually below about N²/8.
    Departs:    Park et al. (2021) shift the upper half of the line down. Here the upper half is reflected, because a reflection
                takes one ReLU and a shift takes two.
    """
    mirrors: list[int] = []
    current = list(places)
    trials = min(_MOST_FOLD_TRIALS, max(8, _FOLD_COMPARISONS // len(current)))
    while (largest := max(current)) >= len(current):
        mirror = _free_mirror(current, largest, trials, rng)
        if mirror is None:
            break
        mirrors.append(mirror)
        current = [x if 2 * x <= mirror else mirror - x for x in current]
    return mirrors, current


def _free_mirror(places: Sequence[int], largest: int, trials: int, rng: np.random.Generator) -> int | None:
    """Return an integer μ such that no two points coincide after those above μ/2 are reflected at μ/2. It is in
    [largest, 1.4 · largest] or is largest + 1.

    Return None if none of the numbers that are tried has this property.
    """
    slack = 2 * largest // 5
    fractions: list[int] = rng.integers(0, 1 << 40, size=min(trials, slack + 1)).tolist()
    drawn = [0, 1, *(fraction * (slack + 1) >> 40 for fraction in fractions)]
    if largest < _INT64 // 2:
        ordered = np.sort(np.array(places, dtype=np.int64))
        for offset in drawn:
            mirror = largest + offset
            cut = int(np.searchsorted(ordered, mirror // 2, side="right"))
            images = mirror - ordered[cut:]
            where = np.searchsorted(ordered[:cut], images)
            if not (np.append(ordered[:cut], -1)[where] == images).any():
                return mirror
        return None
    present = set(places)
    for offset in drawn[:8]:
        mirror = largest + offset
        if not any(2 * x > mirror and mirror - x in present for x in places):
            return mirror
    return None


@dataclass(frozen=True)
class Segment:
    """The points from `start` up to the next segment, moved so that they begin at `target`."""

    start: int
    target: int


def overlay(places: Sequence[int], per_segment: int) -> tuple[list[Segment], list[int]]:
    """Cut the line into segments and move them into a short range, where they may overlap. No two points coincide there. Returns
    (segments, new positions).

    For N points, a segment contains at most g = `per_segment` points over a length of at most g·N. One segment after the other
    moves to the least position at which none of its points coincides with a point of a segment that was moved before. At most g·N
    positions are excluded in this way, so all new positions are below 2gN.

    Assumes:    distinct positions, not negative.
    Guarantee:  new positions are distinct and start at 0; segments are in ascending order of `start`.
    """
    order = np.argsort(np.array(places, dtype=np.int64))
    sorted_places = np.array(places, dtype=np.int64)[order]
    n_points, length = len(sorted_places), per_segment * len(sorted_places)
    cuts = [0]
    while cuts[-1] < n_points:
        at = cuts[-1]
        reach = int(np.searchsorted(sorted_places, sorted_places[at] + length))
        cuts.append(min(at + per_segment, reach))
    longest = max(int(sorted_places[b - 1] - sorted_places[a]) for a, b in pairwise(cuts))
    taken = np.zeros(2 * length + longest + 2 * _WINDOW, dtype=bool)
    targets = np.zeros(len(cuts) - 1, dtype=np.int64)
    moved = np.empty(n_points, dtype=np.int64)
    by_size = sorted(range(len(cuts) - 1), key=lambda j: (cuts[j] - cuts[j + 1], j))
    for number in by_size:
        inside = sorted_places[cuts[number] : cuts[number + 1]] - sorted_places[cuts[number]]
        target = _first_fit(taken, inside)
        targets[number] = target
        moved[cuts[number] : cuts[number + 1]] = inside + target
        taken[inside + target] = True
    segments = [
        Segment(int(sorted_places[cut]), int(target)) for cut, target in zip(cuts[:-1], targets, strict=True)
    ]
    new_places = np.empty(n_points, dtype=np.int64)
    new_places[order] = moved
    return segments, [int(place) for place in new_places]


def _first_fit(taken: np.ndarray, inside: np.ndarray) -> int:
    for begin in range(0, len(taken), _WINDOW):
        blocked = np.zeros(_WINDOW, dtype=bool)
        for offset in inside.tolist():
            blocked |= taken[begin + offset : begin + offset + _WINDOW]
        free = np.flatnonzero(~blocked)
        if free.size:
            return begin + int(free[0])
    raise AssertionError("no free position was found for a segment, although there must be one")


def bucket_starts(places: Sequence[int], width: int) -> list[int]:
    """Return the starts of buckets [start, start + width) that cover all positions. Each bucket begins at one of the positions."""
    ordered = np.sort(np.array(places, dtype=np.int64))
    starts, at = [], 0
    while at < len(ordered):
        starts.append(int(ordered[at]))
        at = int(np.searchsorted(ordered, ordered[at] + width))
    return starts


@dataclass(frozen=True, eq=False)
class Arrangement:
    """All moves of the points, and the final place of each point.

    A bucket is a range of `n_fields` positions, with one field (the room for one label) for each position. So the place of a point
    determines its bucket and its field. `starts` lists the least position of each bucket.

    `mirrors` are the folds of the line (see `fold`). `segments` is empty if laying segments over one another would not save
    parameters. The positions that are divided into buckets are below `extent`.
    """

    mirrors: list[int]
    segments: list[Segment]
    extent: int
    starts: list[int]
    n_fields: int
    places: list[int]


def arrange(
    places: Sequence[int], rng: np.random.Generator, move_cost: int, bucket_cost: int, field_cost: int
) -> Arrangement:
    """Return the arrangement with the least cost among those that are tried. One segment costs `move_cost`, one bucket
    `bucket_cost`, and one field (the same place in every bucket) `field_cost`.

    For N points, Park et al. (2021) put N^(1/3) points into each segment. This function also tries no segments at all and, for up
    to 3,000 points, a few other numbers near N^(1/3).
    """
    mirrors, folded = fold(places, rng)
    n_points = len(folded)
    root = round(n_points ** (1 / 3))
    sizes = {root} if n_points > 3000 else {max(1, round(root * f)) for f in (0.5, 0.7, 1.0, 1.4, 2.0)}
    options: list[tuple[int, Arrangement]] = []
    for per_segment in (0, *sorted(sizes)):
        segments, ends = overlay(folded, per_segment) if per_segment else ([], list(folded))
        extent = max(ends) + 1
        width, starts = _best_width(ends, extent, bucket_cost, field_cost)
        cost = len(segments) * move_cost + len(starts) * bucket_cost + width * field_cost
        options.append((cost, Arrangement(mirrors, segments, extent, starts, width, ends)))
    return min(options, key=lambda option: option[0])[1]


def _best_width(
    places: Sequence[int], extent: int, bucket_cost: int, field_cost: int
) -> tuple[int, list[int]]:
    """Return the width with the least cost among at most 21 bucket widths, and the starts of the buckets.

    If there were no gaps between points, the best width would be √(extent · bucket_cost / field_cost).
    """
    centre = max(1, isqrt(extent * bucket_cost // field_cost))
    widths = sorted({max(1, min(extent, centre * step // 16)) for step in range(4, 25)})
    found = [(width, bucket_starts(places, width)) for width in widths]
    return min(found, key=lambda pair: pair[0] * field_cost + len(pair[1]) * bucket_cost)
