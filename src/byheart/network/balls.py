"""Numbers with error bounds. The bounds hold for the results of a float network in any order of summation.

A `Ball` is a float64 value, a radius and a size. The native result is the number that the network computes in its own float
type. It differs from the true value by at most the radius. This holds for every order of the sums, with or without fused
multiply-adds. The bound uses the unit roundoff u of the network's own type. The float64 value of the ball also differs from the
true value by at most the radius. So the native result and the float64 value differ by at most twice the radius. The rounding error
of a sum is bounded as usual by γ_k = k·u / (1 - k·u) times the sum of the magnitudes (Higham, Accuracy and Stability, section 3.1).
Like this bound, balls assume that no sum or product overflows or underflows.

The network may group a product of several matrices differently than the float64 computation. A sum that cancels in one grouping
need not cancel in another. Bounds on the rounding errors of a product are therefore computed from the product of the magnitudes of
all its factors. The size of a ball is this product: it is at least the magnitude of the value, and does not become smaller where
terms cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24}
TINY = {"float64": 2.0**-1022, "float32": 2.0**-126}
FUNCTION_ERROR = 16
"""Assumed error of a library's exp, tanh, erf or arctan, in units in the last place. Libraries state errors of at most four."""

SLOPE = {"tanh": 1.0, "arctan": 1.0, "gelu": 1.13, "silu": 1.1}
"""The largest derivative of each activation function, rounded up."""


@dataclass(frozen=True)
class Rounding:
    """Arithmetic with balls. Their radii allow for the rounding errors of one float type, which `precision` names."""

    precision: str

    @property
    def unit(self) -> float:
        return UNIT_ROUNDOFF[self.precision]

    def gamma(self, n_terms: int) -> float:
        """Return a bound on the rounding error of a sum of `n_terms` products, relative to the sum of their magnitudes.

        It is γ_k = k·u / (1 - k·u) for k = `n_terms` + 1 and the unit roundoff u.
        """
        scaled = (n_terms + 1) * self.unit
        return scaled / (1 - scaled)

    def exact(self, values: np.ndarray) -> Ball:
        """Return a ball of radius 0 for numbers that the type represents exactly."""
        wide = np.asarray(values, dtype=np.float64)
        return Ball(wide, np.zeros_like(wide), np.abs(wide))

    def add(self, left: Ball, right: Ball) -> Ball:
        """Return the sum of two balls. Its radius allows for one rounding of the native sum."""
        radius, size = left.radius + right.radius, left.size + right.size
        return Ball(left.value + right.value, radius + self.unit * (size + radius), size)

    def matmul(self, weights: np.ndarray, vector: Ball) -> Ball:
        """Multiply weights (outputs, inputs) by a vector (inputs,) or by vectors (inputs, n)."""
        wide = np.asarray(weights, dtype=np.float64)
        magnitudes = np.abs(wide)
        radius, size = magnitudes @ vector.radius, magnitudes @ vector.size
        return Ball(wide @ vector.value, radius + self.gamma(wide.shape[-1]) * (size + radius), size)

    def dot(self, left: Ball, right: Ball) -> Ball:
        """Multiply left (..., k) by right (k, ...). Both factors may have errors."""
        radius = left.radius @ (right.size + right.radius) + left.size @ right.radius
        size = left.size @ right.size
        return Ball(
            left.value @ right.value, radius + self.gamma(left.value.shape[-1]) * (size + radius), size
        )

    def softmax(self, scores: Ball) -> Ball:
        """Return the softmax along the last axis. A score of -inf has the weight 0.

        If scores have errors of at most r, every weight changes by a factor of at most e^(2r). Before exponentials are taken, the
        largest score is subtracted from every score. The rounding of a difference, at most u times its magnitude for the unit
        roundoff u, is counted as part of r.
        """
        largest = scores.value.max(axis=-1, keepdims=True)
        shifted = scores.value - largest
        powers = np.exp(shifted)
        shares = powers / powers.sum(axis=-1, keepdims=True)
        seen = np.isfinite(shifted)
        error = np.where(seen, scores.radius + self.unit * np.abs(np.where(seen, shifted, 0.0)), 0.0)
        worst = 2 * error.max(axis=-1, keepdims=True)
        relative = np.expm1(worst) + self.gamma(shares.shape[-1] + FUNCTION_ERROR)
        return Ball(shares, np.where(seen, shares * relative + TINY[self.precision], 0.0), shares)

    def activate(self, name: str, before: Ball) -> Ball:
        """Apply the activation function `name` to each number."""
        value = ACTIVATIONS[name](before.value)
        rounded = FUNCTION_ERROR * self.unit * (np.abs(value) + np.abs(before.value) + before.radius)
        return Ball(value, SLOPE[name] * before.radius + rounded, np.abs(value))


@dataclass(frozen=True)
class Ball:
    """Values, with bounds on how far the native results (computed in the network's own float type) may be from the true values.

    size    at least the magnitude of the value. For a sum of products, it is the sum of the products of the factors' sizes, so it
            stays large even if the products cancel. The radius is computed from the size. It is therefore valid no matter how the
            network groups the factors of a product
    """

    value: np.ndarray
    radius: np.ndarray
    size: np.ndarray

    def __getitem__(self, place: int | slice) -> Ball:
        return self.map(lambda numbers: numbers[place])

    @property
    def T(self) -> Ball:
        return self.map(np.transpose)

    def map(self, rearrange: Callable[[np.ndarray], np.ndarray]) -> Ball:
        """Apply `rearrange` to the values, to the radii and to the sizes. It must only rearrange numbers or insert zeros."""
        return Ball(rearrange(self.value), rearrange(self.radius), rearrange(self.size))


def join(balls: Sequence[Ball], how: Callable[[list[np.ndarray]], np.ndarray]) -> Ball:
    """Join balls into one. `how` is np.stack or np.concatenate."""
    return Ball(*(how([getattr(ball, part) for ball in balls]) for part in ("value", "radius", "size")))


def _gelu(values: np.ndarray) -> np.ndarray:
    normal = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in values.ravel()])
    return np.asarray(values * normal.reshape(values.shape))


def _silu(values: np.ndarray) -> np.ndarray:
    return np.asarray(values * 0.5 * (1 + np.tanh(values / 2)))


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "arctan": np.arctan,
    "gelu": _gelu,
    "silu": _silu,
}
