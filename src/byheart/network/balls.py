"""Numbers with a bound on their rounding error: bounds on what a float network may compute, in any order of summation.

A `Ball` is a value computed here in float64 and a radius. With u the unit roundoff of the network's own type, the radius bounds how
far its native result lies from the true one, whatever the order of its sums and whether products are fused. The same bound holds
for our own float64 value, so the two lie at most twice the radius apart. Bounds of sums are the usual ones, γ_k = k·u / (1 - k·u)
times the sum of the magnitudes (Higham, Accuracy and Stability, section 3.1); they do not depend on how products of several
matrices are grouped, since magnitudes multiply through.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24}
TINY = {"float64": 2.0**-1022, "float32": 2.0**-126}
FUNCTION_ERROR = 16
"""Units in the last place that a library's exp, tanh, erf or arctan may err by; they claim four or fewer."""

SLOPE = {"tanh": 1.0, "arctan": 1.0, "gelu": 1.13, "silu": 1.1}
"""The largest derivative of each activation."""


@dataclass(frozen=True)
class Rounding:
    """The arithmetic of a number type."""

    precision: str

    @property
    def unit(self) -> float:
        return UNIT_ROUNDOFF[self.precision]

    def gamma(self, n_terms: int) -> float:
        """γ for a sum of this many products."""
        scaled = (n_terms + 1) * self.unit
        return scaled / (1 - scaled)

    def exact(self, values: np.ndarray) -> Ball:
        """Numbers of the type itself."""
        wide = np.asarray(values, dtype=np.float64)
        return Ball(wide, np.zeros_like(wide))

    def add(self, left: Ball, right: Ball) -> Ball:
        """The sum, rounded once."""
        value, radius = left.value + right.value, left.radius + right.radius
        return Ball(value, radius + self.unit * (np.abs(value) + radius))

    def matmul(self, weights: np.ndarray, vector: Ball) -> Ball:
        """weights (outputs, inputs) times a vector (inputs,) or vectors (inputs, n)."""
        wide = np.asarray(weights, dtype=np.float64)
        magnitudes = np.abs(wide)
        carried = magnitudes @ vector.radius
        rounded = self.gamma(wide.shape[-1]) * (magnitudes @ (np.abs(vector.value) + vector.radius))
        return Ball(wide @ vector.value, carried + rounded)

    def dot(self, left: Ball, right: Ball) -> Ball:
        """left (..., k) times right (k, ...), both of them inexact."""
        sizes = np.abs(left.value), np.abs(right.value)
        carried = left.radius @ (sizes[1] + right.radius) + sizes[0] @ right.radius
        rounded = self.gamma(left.value.shape[-1]) * ((sizes[0] + left.radius) @ (sizes[1] + right.radius))
        return Ball(left.value @ right.value, carried + rounded)

    def softmax(self, scores: Ball) -> Ball:
        """Shares along the last axis; a score of -inf has the share 0.

        Scores that err by r change every share by a factor of at most e^(2r); subtracting the largest errs by u times the
        difference, which enters the same way.
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
        """ψ of each number."""
        value = ACTIVATIONS[name](before.value)
        rounded = FUNCTION_ERROR * self.unit * (np.abs(value) + np.abs(before.value) + before.radius)
        return Ball(value, SLOPE[name] * before.radius + rounded)


@dataclass(frozen=True)
class Ball:
    """Values, and how far the native ones may lie from the true ones."""

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
