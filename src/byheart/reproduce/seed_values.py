"""Compute means, intervals and fits of values that were measured with several seeds per setting, and format them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from byheart.errors import UsageError
from byheart.measure.fits import CutOff, Fit, fit, law_of, mean_interval
from byheart.reproduce.figure import Series, Style
from byheart.reproduce.observation import Observation

N_DRAWN = 41  # number of points of a fitted curve


@dataclass(frozen=True)
class SeedValues:
    """Several values, one per seed, at each x. x is in ascending order."""

    x: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[float, float]]) -> SeedValues:
        """Group (x, value) pairs by x."""
        groups: dict[float, list[float]] = {}
        for x, value in pairs:
            groups.setdefault(x, []).append(value)
        return cls(tuple(sorted(groups)), tuple(tuple(groups[x]) for x in sorted(groups)))

    @property
    def means(self) -> tuple[float, ...]:
        return tuple(statistics.fmean(at) for at in self.values)

    @property
    def intervals(self) -> tuple[tuple[float, float], ...]:
        """Student's 95% interval of the mean at each x, or NaN for a single seed."""
        return tuple(mean_interval(at) for at in self.values)

    @property
    def flat(self) -> tuple[list[float], list[float]]:
        """Two lists for fits: the x of every value, and the values."""
        pairs = [(x, value) for x, at in zip(self.x, self.values, strict=True) for value in at]
        return [x for x, _ in pairs], [value for _, value in pairs]

    @property
    def n_seeds(self) -> int:
        return max((len(at) for at in self.values), default=0)

    def __bool__(self) -> bool:
        return bool(self.x)

    def at(self, x: float) -> float | None:
        """Return the mean at `x`, or None if there are no values at `x`."""
        return dict(zip(self.x, self.means, strict=True)).get(x)


def gather(
    observations: Iterable[Observation], x: Callable[[Observation], float], y: Callable[[Observation], float]
) -> SeedValues:
    """Return the value `y` of every observation, grouped by its `x`. At every x, the values are in the order of their seeds.
    Values that are not finite are left out.
    """
    ordered = sorted(observations, key=lambda one: one.seed)
    return SeedValues.of((x(one), value) for one in ordered if math.isfinite(value := y(one)))


def series(label: str, style: Style, found: SeedValues) -> Series:
    """Return the means over seeds, with their intervals, as a series to draw."""
    ends = found.intervals
    return Series(
        label,
        style,
        tuple(float(x) for x in found.x),
        found.means,
        tuple(low for low, _ in ends),
        tuple(high for _, high in ends),
        found.n_seeds,
    )


def fitted_line(label: str, style: Style, found: Fit | None, ends: tuple[float, float]) -> list[Series]:
    """Return a fitted law as one line between two values of x, or an empty list if `found` is None."""
    if found is None:
        return []
    law = law_of(found.law)
    x = np.linspace(*ends, N_DRAWN)
    y = law.predict(np.array([found.coefficients[name].value for name in law.parameters]), x)
    return [Series(label, style, tuple(map(float, x)), tuple(map(float, y)))]


def try_fit(
    found: SeedValues,
    law: str,
    cut_off: CutOff | None = None,
    *,
    n_spare: int = 1,
) -> Fit | None:
    """Fit the law to all values. Return None if this is not possible, or if the number of distinct x does not exceed the number of
    coefficients by at least `n_spare`.
    """
    try:
        result = fit(*found.flat, law, cut_off=cut_off)
    except UsageError:
        return None
    return result if result.n_distinct >= len(result.coefficients) + n_spare else None


def format_estimate(found: Fit | None, name: str) -> str:
    """Format the fitted coefficient `name` with its interval. Return "not fitted" if there is no fit."""
    if found is None:
        return "not fitted"
    estimate = found.coefficients[name]
    return f"{estimate.value:.4g} [{estimate.low:.4g}, {estimate.high:.4g}]"


def fit_numbers(found: Fit | None) -> dict[str, object] | None:
    """Convert a fit to plain values that can be stored in the record of a figure. Return None if there is no fit."""
    if found is None:
        return None
    return {
        "law": found.formula,
        "points": found.cut_off,
        "r_squared": found.r_squared,
        "aicc": found.aicc,
        **{name: [e.value, e.low, e.high] for name, e in found.coefficients.items()},
    }
