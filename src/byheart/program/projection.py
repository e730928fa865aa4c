"""Lemmas G.1 and C.2 of KS25: map points in space to numbers on a line that have a guaranteed distance from each other.

The direction of the line is found by a search, which usually does better than the worst case of the lemmas. The lemmas guarantee
that a suitable direction exists. All decisions use integer arithmetic; floats only rank the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, prod

import numpy as np

from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.exact.dyadic import Number
from byheart.program.blocks import Unit, typical
from byheart.theorems import realises

_DIRECTION_BITS = (4, 10, 20, 40)
_TRIES_PER_SIZE = 8
_FINALISTS = 3
_ROUNDS_TO_SETTLE = 3  # axes and digits first, then random directions of three sizes
_LONGEST_DIRECTION_BITS = 1 << 16
_EXTRA_BITS = 16  # coefficients may be longer by this than the projected values; beyond it, they decide which direction is taken


@dataclass(frozen=True, eq=False)
class IntegerPoints:
    """Distinct points with dyadic coordinates `coordinates` · 2^-frac_bits.

    `coordinates` holds Python integers, (n_points, dim).
    """

    coordinates: np.ndarray
    frac_bits: int

    @staticmethod
    def from_floats(points: np.ndarray) -> IntegerPoints:
        """Convert float points without rounding."""
        ratios = [[value.as_integer_ratio() for value in row] for row in points.tolist()]
        frac_bits = max((den.bit_length() - 1 for row in ratios for _, den in row), default=0)
        scaled = [[num << (frac_bits - den.bit_length() + 1) for num, den in row] for row in ratios]
        return IntegerPoints(_object_table(scaled, points.shape[1]), frac_bits)

    @staticmethod
    def from_fractions(points: Sequence[Sequence[Fraction]], dim: int) -> IntegerPoints:
        """Convert points with dyadic rational coordinates without rounding."""
        frac_bits = max((v.denominator.bit_length() - 1 for point in points for v in point), default=0)
        return IntegerPoints(
            _object_table([[int(v * (1 << frac_bits)) for v in point] for point in points], dim), frac_bits
        )

    @property
    def n_points(self) -> int:
        return len(self.coordinates)

    def along(self, direction: Sequence[int]) -> list[int]:
        """Return the integer inner products with `direction`, in units of 2^-frac_bits."""
        return [int(value) for value in self.coordinates @ np.array(direction, dtype=object)]


def _object_table(rows: Sequence[Sequence[int]], dim: int) -> np.ndarray:
    table = np.empty((len(rows), dim), dtype=object)
    for at, row in enumerate(rows):
        table[at] = row
    return table


@dataclass(frozen=True, eq=False)
class LineMap:
    """The affine map x ↦ coefficients · x + offset."""

    coefficients: tuple[Number, ...]
    offset: Number

    def unit(self, coordinates: Sequence[str], into: str) -> Unit:
        """Return a unit that maps the point in the registers `coordinates` and adds the result to the register `into`.

        The result must not be negative, because the unit applies ReLU to it. The values of a `Projection` are at least 2.
        """
        line = zip(coordinates, self.coefficients, strict=True)
        return Unit({name: value for name, value in line if value}, self.offset, {into: 1})


@dataclass(frozen=True, eq=False)
class Projection(LineMap):
    """An affine map to the line, and its values on the given points.

    The values are at least 2, and any two of them differ by at least 2.
    """

    coefficients: tuple[Fraction, ...]
    offset: Fraction
    values: list[Fraction]

    @property
    def value_bits(self) -> int:
        """The number of bits that hold the integer part of every value: ⌊log2 R⌋ + 1, where R is the largest value."""
        return max(int(value // 1).bit_length() for value in self.values)


def typical_map(dim: int, bits: int) -> LineMap:
    """Return a map whose coefficients and offset have `bits` bits each: a placeholder for any such map when weights are counted."""
    return LineMap((typical(bits),) * dim, typical(bits))


def typical_line(shape: DataShape, bits: int) -> LineMap:
    """Return a placeholder for the map that projects tokens of data of this shape to a line. It is used to count weights.

    For token ids it is the identity, because the embedding table already maps them to the line.
    """
    return LineMap((1,), 0) if shape.vocab is not None else typical_map(shape.dim or 1, bits)


@realises("KS25-L G.1")
def length_keeping_direction(points: IntegerPoints, rng: np.random.Generator) -> tuple[int, ...]:
    """Find an integer direction v. When the points are projected onto v, the distance of every pair keeps a guaranteed share.

    Source:     KS25 Lemma G.1 (Park et al. 2021), inequality (151): |v·(x - y)| >= √(8/(πd)) / V² · ‖v‖ ‖x - y‖ for all pairs
                x, y of the V points in dimension d.
    Assumes:    distinct points.
    Guarantee:  the inequality is checked exactly for every pair. By the lemma a uniformly random direction satisfies it with
                positive probability. After a few fixed directions, random ones are tried; their entries have at most 2^16 bits.
    Size:       at most V(V - 1)/2 pairs are checked for each direction that is tried.
    """
    for candidates in _candidate_rounds(points, rng):
        for direction in candidates:
            if keeps_lengths(points, direction):
                return direction
    raise AssumptionViolated(
        f"no direction was found along which all distances between {points.n_points} points stay as large as inequality (151) of "
        "KS25 demands.",
        n_points=points.n_points,
    )


def keeps_lengths(points: IntegerPoints, direction: Sequence[int]) -> bool:
    """Whether inequality (151) of KS25 holds for every pair of points: (v·Δ)² V⁴ π d >= 8 ‖v‖² ‖Δ‖².

    Here v is the direction, Δ the difference of the two points, V the number of points, and d their dimension. The check uses
    333/106, which is less than π, in place of π.
    """
    n_points, dim = points.coordinates.shape
    length_squared = sum(entry * entry for entry in direction)
    values = points.along(direction)
    for at in range(1, n_points):
        differences = points.coordinates[:at] - points.coordinates[at]
        lengths = (differences * differences).sum(axis=1).tolist()
        for before, squared in enumerate(lengths):
            kept = (values[at] - values[before]) ** 2
            if kept * n_points**4 * 333 * dim < 8 * 106 * length_squared * squared:
                return False
    return True


@realises("KS25-L G.1")
def separating_direction(
    points: IntegerPoints, rng: np.random.Generator, largest_spread: Fraction | None = None
) -> tuple[int, ...]:
    """Find an integer direction along which all points are distinct, with a smallest gap that is large compared with their range
    and with the norms of the points and the direction.

    Source:     KS25 Lemma G.1 (Park et al. 2021).
    Assumes:    distinct points.
    Guarantee:  the points are distinct along the direction, and range / smallest gap is at most `largest_spread` if given.
                By the lemma, V points of norm at most r and at least δ apart have a direction with a ratio of at most
                2r V² √(πd/8) / δ.
    Departs:    inequality (151) bounds the gap of every pair by the pair's own distance. The constructions need only the smallest
                gap.
    """
    dim, n_points = points.coordinates.shape[1], points.n_points
    if n_points == 1:
        return tuple(int(axis == 0) for axis in range(dim))
    radius = max(abs(int(value)) for value in points.coordinates.flat)
    best: tuple[bool, Fraction, tuple[int, ...]] | None = None
    for number, candidates in enumerate(_candidate_rounds(points, rng)):
        for direction in _finalists(points, candidates):
            values = points.along(direction)
            spread = spread_of(values)
            if spread is None:
                continue
            # along a direction in which all points nearly coincide, coefficients have about as many bits as `stretch`
            stretch = spread * Fraction(radius * max(map(abs, direction)), max(values) - min(values))
            is_wide = largest_spread is not None and spread > largest_spread
            found = is_wide, max(spread, stretch / 2**_EXTRA_BITS), direction
            if best is None or found[:2] < best[:2]:
                best = found
        # V points have a spread of at least V - 1; within twice that, another round would gain little
        is_settled = number >= _ROUNDS_TO_SETTLE or (best is not None and best[1] <= 2 * (n_points - 1))
        if best is not None and is_settled and not best[0]:
            return best[2]
    raise AssumptionViolated(
        f"no direction was found that separates {n_points} points in dimension {dim} widely enough. Are two of them equal?",
        n_points=n_points,
        dim=dim,
    )


def spread_of(values: Sequence[int]) -> Fraction | None:
    """Return (largest - smallest value) / (smallest gap between two values), or None if two values are equal."""
    ordered = sorted(values)
    gap = min((after - before for before, after in pairwise(ordered)), default=1)
    return Fraction(ordered[-1] - ordered[0], gap) if gap else None


@realises("KS25-L C.2")
def project_apart(
    points: IntegerPoints,
    rng: np.random.Generator,
    largest_spread: Fraction | None = None,
    factor_bits: int = 6,
) -> Projection:
    """Find an affine map to the line whose values are at least 2, and differ by at least 2 for different points.

    Source:     KS25 Lemma C.2 (Vardi et al. 2022), with the shift of Lemma C.1's Stage I.
    Assumes:    distinct points.
    Guarantee:  exact, for the given points.
    Size:       a linear map and a bias. The lemma bounds the largest value by R = 20 r V² √(πd) / δ, for V points in dimension d of
                norm at most r and at least δ apart.
    Departs:    here R is the largest value that the search finds, usually far below the lemma's bound. The map is scaled by a
                factor, which is rounded up to about `factor_bits` bits. More bits make R smaller, but by at most one bit, and
                they give the values more bits after the binary point. If there is only one point, its value is 2.
    """
    if points.n_points == 1:
        return Projection((Fraction(0),) * points.coordinates.shape[1], Fraction(2), [Fraction(2)])
    direction = separating_direction(points, rng, largest_spread)
    values = points.along(direction)
    ordered = sorted(values)
    gap = min(after - before for before, after in pairwise(ordered))
    # the smallest dyadic factor of about `factor_bits` significant bits for which the gap, in true units, is at least 2
    unit = Fraction(1, 1 << points.frac_bits)
    wanted = Fraction(2) / (gap * unit)
    shift = factor_bits - (wanted.numerator.bit_length() - wanted.denominator.bit_length())
    factor = ceil(wanted * Fraction(2) ** shift) / Fraction(2) ** shift
    offset = Fraction(ceil(2 - ordered[0] * unit * factor))  # an integer, so that it has few bits
    return Projection(
        tuple(entry * factor for entry in direction),
        offset,
        [value * unit * factor + offset for value in values],
    )


def _candidate_rounds(points: IntegerPoints, rng: np.random.Generator) -> Iterator[list[tuple[int, ...]]]:
    """Yield lists of directions to try: first the axes and the result of `_digit_directions`, then random directions, whose entries
    are integers with more and more bits.
    """
    dim = points.coordinates.shape[1]
    axes = [tuple(int(axis == at) for axis in range(dim)) for at in range(dim)]
    yield [*axes, *_digit_directions(points)]
    bits = list(_DIRECTION_BITS)
    while True:
        for size in bits:
            entries = rng.integers(0, 2, size=(_TRIES_PER_SIZE, dim, size + 1))
            weights = [1 << place for place in range(size)]
            yield [
                tuple(
                    (1 - 2 * int(digits[-1]))
                    * (sum(w for w, d in zip(weights, digits, strict=False) if d) or 1)
                    for digits in direction
                )
                for direction in entries
            ]
        bits = [2 * bits[-1]]
        if bits[0] > _LONGEST_DIRECTION_BITS:
            return


def _digit_directions(points: IntegerPoints) -> list[tuple[int, ...]]:
    """Return directions along which a grid point is projected to a number whose digits (in mixed radix) are the coordinates.

    There is one direction per axis, in which that axis is the lowest digit. On a grid, such a direction always separates the
    points. If the grid has more than V² cells for V points, the result is empty, because random directions are better.
    """
    columns = [[int(v) for v in column] for column in points.coordinates.T]
    steps, ranges = [], []
    for column in columns:
        differences = 0
        for value in column:
            differences |= value - column[0]
        step = (differences & -differences) or 1
        steps.append(step)
        ranges.append((max(column) - min(column)) // step + 1)
    if prod(ranges) > points.n_points**2:
        return []
    largest_step = max(steps)
    directions = []
    for first in range(len(columns)):
        order = [*range(first, len(columns)), *range(first)]
        entries, radix = [0] * len(columns), 1
        for axis in order:
            entries[axis] = radix * (largest_step // steps[axis])
            radix *= ranges[axis]
        directions.append(tuple(entries))
    return directions


def _finalists(points: IntegerPoints, candidates: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the few candidates for which the range of the points is smallest relative to the smallest gap, computed in floats.

    Return all candidates if there are fewer than 2000 points, if numbers are too large for floats, or if floats cannot separate the
    points along any candidate.
    """
    if points.n_points < 2000:
        return candidates
    try:
        table = points.coordinates.astype(np.float64)
        spreads = []
        for direction in candidates:
            values = np.sort(table @ np.array(direction, dtype=np.float64))
            gap = float(np.diff(values).min())
            spreads.append((values[-1] - values[0]) / gap if gap > 0 else np.inf)
    except OverflowError:
        return candidates
    ranked = sorted(range(len(candidates)), key=lambda at: spreads[at])
    kept = [at for at in ranked[:_FINALISTS] if np.isfinite(spreads[at])]
    return [candidates[at] for at in (kept or ranked)]
