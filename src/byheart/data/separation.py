"""Token-wise (r, δ)-separatedness (KS25 Assumptions 4.1 and A.1), computed exactly from the data.

Tokens are (r, δ)-separated if no token has a norm above r and distinct tokens are at least δ apart.
Every float is a whole number times a power of two, so squared norms and distances are rational numbers that can be
computed exactly. A k-d tree in floating point finds the pairs that could be closest, with a tolerance that covers every
rounding error. Those pairs are then compared in exact arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from byheart.data.row_groups import group_rows, pair_ids, representatives
from byheart.data.sequences import Sequences, VectorSequences
from byheart.errors import NonFiniteInput
from byheart.theorems import realises

Points = Float[np.ndarray, "n_points dim"]
Pairs = Float[np.ndarray, "n_pairs dim"]
# Relative tolerance for rounding in float distances and in the bounds of the tree. Each is a sum of at most
# `dim` rounded squares, updated once per level of the tree, so its relative error is below (dim +
# 200)·2^-53, which is less than 1e-9 for dim < 10^6.
_SLACK = 1e-9
_TOP = 500  # coordinates are scaled so that the largest is near 2^500, and its square does not overflow
_FLOOR = 2.0**-480  # the square of a difference above this does not underflow
# scaled values below this are set to zero: they are negligible beside a difference of _FLOOR
_FLUSH = 2.0**-520
_SAMPLE = 20_000  # the closest pair among this many random tokens limits the search among all tokens


@realises("KS25-A4.1", "KS25-A A.1")
@dataclass(frozen=True)
class Separation:
    """The largest norm of tokens and the smallest distance between them, stored as exact squares.

    r_squared: the largest squared norm.
    delta_squared: the smallest squared distance between distinct tokens; None if there is only one distinct token.
    n_distinct: number of distinct tokens.
    """

    r_squared: Fraction
    delta_squared: Fraction | None
    n_distinct: int

    @property
    def r(self) -> float:
        """The largest norm, rounded up, so that no token has a larger norm. It is infinite if no float is large enough."""
        root = _sqrt_down(self.r_squared)
        return root if Fraction(root) ** 2 == self.r_squared else math.nextafter(root, math.inf)

    @property
    def delta(self) -> float | None:
        """The smallest distance, rounded down, so that distinct tokens are at least this far apart.

        It is None if there is only one distinct token.
        """
        return None if self.delta_squared is None else _sqrt_down(self.delta_squared)

    def holds_for(self, r: Fraction | float | int, delta: Fraction | float | int) -> bool:
        """Return whether no norm is above `r` and distinct tokens are at least `delta` apart, decided in exact arithmetic.

        Return False if `r` or `delta` is not a positive number. Both may be infinite.
        """
        if not (r > 0 and delta > 0):
            return False
        is_bounded = r == math.inf or self.r_squared <= Fraction(r) ** 2
        far_apart = self.delta_squared is None or (
            delta < math.inf and self.delta_squared >= Fraction(delta) ** 2
        )
        return is_bounded and far_apart


def separation_of(inputs: Sequences, ordered: bool) -> Separation:
    """Measure the largest norm and the smallest distance of the tokens of a data set.

    Vectors are measured as points. Token ids are measured as numbers or, if positions matter, as points (id, position), both
    counted from 0.
    """
    if isinstance(inputs, VectorSequences):
        inputs.require_finite()
        return separation_of_points(inputs.distinct_tokens)
    return separation_of_ids(inputs.ids, inputs.positions, ordered)


def separation_of_ids(
    ids: Int[np.ndarray, " n_tokens"], positions: Int[np.ndarray, " n_tokens"], ordered: bool
) -> Separation:
    """Measure the largest norm of tokens given by ids, and the smallest distance between distinct tokens.

    If `ordered`, a token is the point (id, position) in the plane. Otherwise it is the number `id` on a line.
    """
    if not ordered:
        return separation_of_points(np.unique(ids).astype(np.float64)[:, None])
    cells = representatives(pair_ids(ids, positions))
    return separation_of_points(np.stack([ids[cells], positions[cells]], axis=1).astype(np.float64))


def separation_of_points(points: Points) -> Separation:
    """Measure the largest norm of points and the smallest distance between distinct points. Points may repeat."""
    if not np.isfinite(points).all():
        raise NonFiniteInput(
            "distances between tokens are defined only for finite vectors; remove the rows with NaN or infinity."
        )
    distinct = points.astype(np.float64, copy=False)[representatives(_number_rows(points))]
    delta_squared = _closest_squared(distinct) if len(distinct) > 1 else None
    return Separation(_largest_squared_norm(distinct), delta_squared, len(distinct))


def _largest_squared_norm(points: Points) -> Fraction:
    scaled = _scale(points)
    squares = np.square(scaled).sum(axis=1)
    candidates = np.abs(points[squares >= squares.max() * (1 - _SLACK)])
    return max(_sum_of_squares(row) for row in np.unique(np.sort(candidates, axis=1), axis=0).tolist())


def _closest_squared(points: Points) -> Fraction:
    """Return the smallest squared distance between points, exactly. The points must be distinct."""
    from scipy.spatial import cKDTree

    scaled = _scale(points)
    scaled[np.abs(scaled) < _FLUSH] = 0.0
    if int(_number_rows(scaled).max()) + 1 < len(points):  # scaling made some points equal
        return _closest_among_tiny(points, scaled)
    nearest = _nearest_distances(scaled)
    smallest = float(nearest.min())
    if smallest < _FLOOR:
        return _closest_among_tiny(points, scaled)
    close = np.flatnonzero(nearest <= smallest * (1 + _SLACK))
    pairs = cKDTree(scaled[close]).query_pairs(smallest * (1 + _SLACK), output_type="ndarray")
    return _smallest_exactly(points[close[pairs[:, 0]]], points[close[pairs[:, 1]]])


def _nearest_distances(scaled: Points) -> Float[np.ndarray, " n_points"]:
    """For each point, return the distance to the nearest other point. The result may be infinity for a point that certainly
    does not belong to the closest pair.
    """
    from scipy.spatial import cKDTree

    bound = math.inf
    # the closest pair among some points is an upper bound for all, which prunes the search
    if len(scaled) > 2 * _SAMPLE:
        some = scaled[np.random.default_rng(0).choice(len(scaled), _SAMPLE, replace=False)]
        bound = float(cKDTree(some).query(some, k=2)[0][:, 1].min()) * (1 + _SLACK)
    distances, _ = cKDTree(scaled).query(scaled, k=2, distance_upper_bound=max(bound, _FLOOR))
    return np.asarray(distances[:, 1])


def _closest_among_tiny(points: Points, scaled: Points) -> Fraction:
    """Return the smallest squared distance exactly, for points so close together that this square may underflow after scaling.

    `scaled` are the points after `_scale`, and the sizes below are those of scaled coordinates. `_FLOOR` is a distance whose square
    does not underflow, and the points of the closest pair are less than _FLOOR apart. Floats near x differ by more than 2^-54·x.
    Two coordinates that are less than _FLOOR apart are therefore equal, or both are below 2^60·_FLOOR. So the two points of the
    closest pair agree in every coordinate that is 2^60·_FLOOR or larger. Points that agree in these large coordinates form a group.
    In each group, these coordinates are set to zero, and the closest pair is found after scaling the group anew. The other
    coordinates are so small that the new scale makes them at least 2^900 times larger.
    """
    large = np.abs(scaled) >= _FLOOR * 2.0**60
    groups = _number_rows(np.where(large, points, 0.0))
    order = np.argsort(groups, kind="stable")
    members_of_groups = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    small = np.where(large, 0.0, points)
    return min(_closest_squared(small[members]) for members in members_of_groups if members.size > 1)


def _smallest_exactly(left: Pairs, right: Pairs) -> Fraction:
    """Return the smallest squared distance |left[k] - right[k]|² over all k, exactly."""
    with np.errstate(over="ignore", invalid="ignore"):
        difference = left - right
        # Knuth's two-sum: the rounding error of the difference, exactly (NaN where the difference
        # overflowed).
        back = difference - left
        error = (left - (difference - back)) - (right + back)
    if (
        error == 0
    ).all():  # on a grid, thousands of pairs have the same difference: compute each difference once
        kinds = np.unique(np.sort(np.abs(difference), axis=1), axis=0)
        return min(_sum_of_squares(row) for row in kinds.tolist())
    return min(
        sum(((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x, y, strict=True)), Fraction(0))
        for x, y in zip(left.tolist(), right.tolist(), strict=True)
    )


def _scale(points: Points) -> Points:
    """Return the points times a power of two that brings the largest coordinate near 2^_TOP."""
    _, exponent = np.frexp(np.abs(points).max())
    return np.asarray(np.ldexp(points, _TOP - int(exponent)))


def _sum_of_squares(row: list[float]) -> Fraction:
    return sum((Fraction(value) ** 2 for value in row), Fraction(0))


def _number_rows(points: Points) -> Int[np.ndarray, " n_points"]:
    words = np.add(points, 0.0).reshape(-1).view(np.int64)  # -0.0 + 0.0 is 0.0: equal values, equal bits
    return group_rows(words, np.arange(len(points) + 1) * points.shape[1])


def _sqrt_down(square: Fraction) -> float:
    """Return the largest float whose square is at most `square`."""
    root = _sqrt_near(square)
    while math.isinf(root) or Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0.0)
    while (above := math.nextafter(root, math.inf)) < math.inf and Fraction(above) ** 2 <= square:
        root = above
    return root


def _sqrt_near(square: Fraction) -> float:
    """Return the square root as a float, accurate to a few units in the last place, for numbers of any magnitude."""
    if square == 0:
        return 0.0
    shift = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    near_one = math.sqrt(float(square / Fraction(4) ** shift))
    try:
        return math.ldexp(near_one, shift)
    except OverflowError:
        return math.inf
