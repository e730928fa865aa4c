"""From ids on a line to labels: one hidden layer, with a bound on what float64 makes of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byheart.construct.kajitsuka_sato_2023.context_ids import EPS, SoftmaxIds
from byheart.errors import AssumptionViolated

ALLOWED_ERROR = 0.24
"""Rounding to a whole number forgives 1/4."""


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """first_value + Σ slope_changes · ReLU(id - knots), and a bound on its error in float64."""

    first_value: float
    knots: np.ndarray
    slope_changes: np.ndarray
    error: float


def interpolate(ids: SoftmaxIds, labels: np.ndarray) -> HiddenLayer:
    """The piecewise linear function through (id, label), refused where float64 cannot sum it closely enough."""
    order = np.argsort(ids.ids)
    x, y = ids.ids[order], labels[order]
    slopes = np.diff(y) / np.diff(x)
    changes = np.diff(slopes, prepend=0.0)
    magnitude = float((np.abs(changes) * (x[-1] - x[:-1])).sum()) + float(y[0])
    # a sum of t terms, each with 4 roundings of its own, is off by at most (t + 4)·eps times the sum of
    # magnitudes
    error = (len(changes) + 4) * EPS * magnitude + float(np.abs(slopes).max(initial=0.0)) * ids.error
    if not error <= ALLOWED_ERROR:
        raise AssumptionViolated(
            f"one hidden layer over {len(x)} contexts sums terms of {magnitude:.3g} in all, and float64 may be "
            f"off by {error:.3g},\n  where {ALLOWED_ERROR} is allowed: the closest ids differ by "
            f"{ids.gap:.3g} only.\n"
            "  Use fewer samples, or an exact construction, such as kajitsuka-sato-2025.",
            error=error,
            gap=ids.gap,
        )
    return HiddenLayer(float(y[0]), x[:-1], changes, error)
