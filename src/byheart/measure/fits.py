"""Scaling laws fitted to stored numbers: pure functions, named cut-offs, bootstrap intervals, comparison of laws."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byheart.errors import UsageError

N_BOOTSTRAP = 2000


@dataclass(frozen=True)
class Law:
    """y = Σ coefficient · basis(x), fitted by least squares; in logarithms where `is_log`."""

    name: str
    formula: str
    parameters: tuple[str, ...]
    basis: tuple[Callable[[np.ndarray], np.ndarray], ...]
    is_log: bool = False

    def matrix(self, x: np.ndarray) -> np.ndarray:
        """The design matrix at `x`."""
        return np.stack([column(np.log(x) if self.is_log else x) for column in self.basis], axis=1)

    def predict(self, coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
        """y at `x`."""
        fitted = self.matrix(np.asarray(x, dtype=np.float64)) @ coefficients
        return np.asarray(np.exp(fitted) if self.is_log else fitted)


def _one(x: np.ndarray) -> np.ndarray:
    return np.ones_like(x)


LAWS: dict[str, Law] = {
    law.name: law
    for law in (
        Law("linear", "y = intercept + slope x", ("intercept", "slope"), (_one, lambda x: x)),
        Law("quadratic", "y = intercept + slope x²", ("intercept", "slope"), (_one, np.square)),
        Law("square-root", "y = intercept + slope √x", ("intercept", "slope"), (_one, np.sqrt)),
        Law("power", "y = exp(log_factor) x^exponent", ("log_factor", "exponent"), (_one, lambda x: x), True),
        Law("constant", "y = intercept", ("intercept",), (_one,)),
    )
}


@dataclass(frozen=True)
class CutOff:
    """A named rule for which points are fitted; `keeps` answers for points in the order of x."""

    name: str
    keeps: Callable[[np.ndarray, np.ndarray], np.ndarray]


def everything() -> CutOff:
    return CutOff("all points", lambda x, y: np.ones(x.size, dtype=bool))


def up_to_first_above(threshold: float) -> CutOff:
    """Keep the points before and including the first x whose mean y exceeds `threshold` (DPC24: 0.95)."""

    def keeps(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        for value in np.unique(x):
            if y[x == value].mean() > threshold:
                return np.asarray(x <= value)
        return np.ones(x.size, dtype=bool)

    return CutOff(f"up to the first above {threshold:g}", keeps)


def between(low: float, high: float) -> CutOff:
    """Keep points with low <= x <= high."""
    return CutOff(f"{low:g} <= x <= {high:g}", lambda x, y: (x >= low) & (x <= high))


@dataclass(frozen=True)
class Fit:
    """A law fitted to points. `r_squared` is of the means over each x; `aicc` compares laws on the same points."""

    law: str
    formula: str
    cut_off: str
    n_points: int
    n_left_out: int
    n_distinct: int
    coefficients: Mapping[str, Coefficient]
    r_squared: float
    aicc: float


@dataclass(frozen=True)
class Coefficient:
    """A fitted number with its 95% interval."""

    value: float
    low: float
    high: float


def fit(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    law: str,
    *,
    cut_off: CutOff | None = None,
    seed: int = 0,
    n_bootstrap: int = N_BOOTSTRAP,
) -> Fit:
    """Fit `law` to the points (x, y); several y at one x are seeds of one setting.

    Intervals are percentiles of a bootstrap: seeds are drawn anew within each x where every x has several, else points.
    """
    chosen, rule = law_of(law), cut_off or everything()
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if xs.shape != ys.shape or xs.ndim != 1:
        raise UsageError(f"a fit needs as many x as y; got shapes {xs.shape} and {ys.shape}.")
    finite = np.isfinite(xs) & np.isfinite(ys)
    order = np.argsort(xs[finite], kind="stable")
    xs, ys = xs[finite][order], ys[finite][order]
    kept = rule.keeps(xs, ys) if xs.size else np.zeros(0, dtype=bool)
    left_out = int(finite.size - kept.sum())
    xs, ys = xs[kept], ys[kept]
    n_distinct = np.unique(xs).size
    if n_distinct < len(chosen.parameters):
        raise UsageError(
            f"the law {law} has {len(chosen.parameters)} parameters and needs as many distinct x;"
            f" the cut-off `{rule.name}` leaves {n_distinct}.",
            law=law,
        )
    if chosen.is_log and ((xs <= 0).any() or (ys <= 0).any()):
        raise UsageError(f"the law {law} is fitted in logarithms and needs positive x and y.", law=law)
    coefficients = _least_squares(chosen, xs, ys)
    draws = _bootstrap(chosen, xs, ys, np.random.default_rng(seed), n_bootstrap)
    ends = (
        np.percentile(draws, [2.5, 97.5], axis=0) if len(draws) else np.full((2, coefficients.size), np.nan)
    )
    return Fit(
        law=chosen.name,
        formula=chosen.formula,
        cut_off=rule.name,
        n_points=int(xs.size),
        n_left_out=left_out,
        n_distinct=int(n_distinct),
        coefficients={
            name: Coefficient(float(value), float(low), float(high))
            for name, value, low, high in zip(chosen.parameters, coefficients, *ends, strict=True)
        },
        r_squared=_r_squared(chosen, coefficients, xs, ys),
        aicc=_aicc(chosen, coefficients, xs, ys),
    )


def mean_interval(
    values: Sequence[float], *, seed: int = 0, n_bootstrap: int = N_BOOTSTRAP
) -> tuple[float, float]:
    """The 95% percentile interval of a bootstrap of the mean; it lies within the values. NaN for fewer than two."""
    if len(values) < 2:
        return math.nan, math.nan
    drawn = np.random.default_rng(seed).choice(
        np.asarray(values, dtype=np.float64), (n_bootstrap, len(values))
    )
    low, high = np.percentile(drawn.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def compare(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    laws: Sequence[str],
    *,
    cut_off: CutOff | None = None,
) -> list[Fit]:
    """Fits of several laws to the same points, the best first: least AICc, of errors in y itself for every law."""
    return sorted((fit(x, y, law, cut_off=cut_off) for law in laws), key=lambda found: found.aicc)


def law_of(name: str) -> Law:
    if name not in LAWS:
        raise UsageError(f"no law `{name}`; there are: {', '.join(LAWS)}.", law=name)
    return LAWS[name]


def _least_squares(law: Law, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.lstsq(law.matrix(x), np.log(y) if law.is_log else y, rcond=None)[0])


def _bootstrap(law: Law, x: np.ndarray, y: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    _, group, sizes = np.unique(x, return_inverse=True, return_counts=True)
    target = np.log(y) if law.is_log else y
    if count and (sizes > 1).all():  # seeds drawn anew at every x: one matrix, many right-hand sides
        starts = np.cumsum(sizes) - sizes
        picked = starts[group] + rng.integers(0, sizes[group], (count, x.size))
        return np.asarray(np.linalg.lstsq(law.matrix(x), target[picked].T, rcond=None)[0].T)
    draws = rng.integers(0, x.size, (count, x.size))
    # too few distinct x to fit carry no slope; such draws are rare
    kept = [picked for picked in draws if np.unique(x[picked]).size >= len(law.parameters)]
    return np.array([_least_squares(law, x[picked], y[picked]) for picked in kept])


def _r_squared(law: Law, coefficients: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    values, group, sizes = np.unique(x, return_inverse=True, return_counts=True)
    means = np.bincount(group, weights=y) / sizes
    spread = float(np.square(means - means.mean()).sum())
    left = float(np.square(means - law.predict(coefficients, values)).sum())
    return 1 - left / spread if spread > 0 else math.nan


def _aicc(law: Law, coefficients: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Akaike's criterion, corrected for few points, of normal errors in y; infinite where there are too few."""
    n, k = x.size, len(law.parameters) + 1
    left = float(np.square(y - law.predict(coefficients, x)).sum())
    if n - k - 1 <= 0:
        return math.inf
    return n * math.log(max(left, 1e-300) / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1)
