"""Numbers with error bounds. The bounds hold for the results of a float network in any order of summation.

A `Ball` is a float64 value and a radius. The native result is the number that the network computes in its own float type. It
differs from the true value by at most the radius. This holds for every order of the sums, with or without fused multiply-adds. The
bound uses the unit roundoff u of the network's own type. The float64 value of the ball also differs from the true value by at most
the radius. So the native result and the float64 value differ by at most twice the radius. Sums are bounded as usual by
γ_k = k·u / (1 - k·u) times the sum of the magnitudes (Higham, Accuracy and Stability, section 3.1). These bounds do not depend on
how a product of several matrices is grouped, because the magnitudes are multiplied too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24}
TINY = {"float64": 2.0**-1022, "float32": 2.0**-126}
FUNCTION_ERROR = 16
"""Assumed error of a library's exp, tanh, erf or arctan, in units in the last place. Libraries state errors of at most four."""

SLOPE = {"tanh": 1.0, "arctan": 1.0, "gelu": 1.13, "silu": 1.1}
"""The largest derivative of each activation function."""


@dataclass(frozen=True)
class Rounding:
    """The arithmetic of a float type, with its rounding errors."""

    precision: str

    @property
    def unit(self) -> float:
        return UNIT_ROUNDOFF[self.precision]

    def gamma(self, n_terms: int) -> float:
        """Return γ_k = k·u / (1 - k·u) for k = `n_terms` + 1 and unit roundoff u, which covers a sum of `n_terms` products."""
        scaled = (n_terms + 1) * self.unit
        return scaled / (1 - scaled)

    def exact(self, values: np.ndarray) -> Ball:
        """Return a ball of radius 0 for numbers that the type represents exactly."""
        wide = np.asarray(values, dtype=np.float64)
        return Ball(wide, np.zeros_like(wide))

    def add(self, left: Ball, right: Ball) -> Ball:
        """Return the sum of two balls. Its radius allows for one rounding of the native sum."""
        value, radius = left.value + right.value, left.radius + right.radius
        return Ball(value, radius + self.unit * (np.abs(value) + radius))

    def matmul(self, weights: np.ndarray, vector: Ball) -> Ball:
        """Multiply weights (outputs, inputs) by a vector (inputs,) or by vectors (inputs, n)."""
        wide = np.asarray(weights, dtype=np.float64)
        magnitudes = np.abs(wide)
        carried = magnitudes @ vector.radius
        rounded = self.gamma(wide.shape[-1]) * (magnitudes @ (np.abs(vector.value) + vector.radius))
        return Ball(wide @ vector.value, carried + rounded)

    def dot(self, left: Ball, right: Ball) -> Ball:
        """Multiply left (..., k) by right (k, ...). Both factors have errors."""
        sizes = np.abs(left.value), np.abs(right.value)
        carried = left.radius @ (sizes[1] + right.radius) + sizes[0] @ right.radius
        rounded = self.gamma(left.value.shape[-1]) * ((sizes[0] + left.radius) @ (sizes[1] + right.radius))
        return Ball(left.value @ right.value, carried + rounded)

    def softmax(self, scores: Ball) -> Ball:
        """Return the softmax along the last axis. A score of -inf has the weight 0.

        If scores have an error of r, every weight changes by a factor of at most e^(2r). Subtracting the largest score adds a
        relative error of u, the unit roundoff, to each difference. This changes the weights in the same way.
        """
        largest = scores.value.max(axis=-1, keepdims=True)
        shifted = scores.value - largest
        powers = np.exp(shifted)
        shares = powers / powers.sum(axis=-1, keepdims=True)
        seen = np.isfinite(shifted)
        error = np.where(seen, scores.radius + self.unit * np.abs(np.where(seen, shifted, 0.0)), 0.0)
        worst = 2 * error.max(axis=-1, keepdims=True)
        relative = np.expm1(worst) + self.gamma(shares.shape[-1] + FUNCTION_ERROR)
        return Ball(shares, np.where(seen, shares * relative + TINY[self.precision], 0.0))

    def activate(self, name: str, before: Ball) -> Ball:
        """Apply the activation function `name` to each number."""
        value = ACTIVATIONS[name](before.value)
        rounded = FUNCTION_ERROR * self.unit * (np.abs(value) + np.abs(before.value) + before.radius)
        return Ball(value, SLOPE[name] * before.radius + rounded)


@dataclass(frozen=True)
class Ball:
    """Values, with bounds on how far the native results (computed in the network's own float type) may be from the true values."""

    value: np.ndarray
    radius: np.ndarray


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
