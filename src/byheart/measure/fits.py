"""Fit scaling laws to measured numbers, with 95% intervals over seeds, and compare the laws. Named rules (cut-offs) choose the
points of a fit.

Every seed gives one value, and intervals are Student's t intervals of these values. A percentile bootstrap of 3, 5 or 10 values
would cover the true mean in only 74%, 84% or 89% of cases instead of 95%. `tests/measure/test_fits.py` simulates the coverage of
the intervals used here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from byheart.errors import UsageError

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Law:
    """A law y = Σ coefficient · basis(x), fitted by least squares. If `is_log`, it is fitted to the logarithms of x and y."""

    name: str
    formula: str
    parameters: tuple[str, ...]
    basis: tuple[Callable[[np.ndarray], np.ndarray], ...]
    is_log: bool = False

    def matrix(self, x: np.ndarray) -> np.ndarray:
        """Return the design matrix at `x`."""
        return np.stack([column(np.log(x) if self.is_log else x) for column in self.basis], axis=1)

    def predict(self, coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return y at `x`."""
        fitted = self.matrix(np.asarray(x, dtype=np.float64)) @ coefficients
        return np.asarray(np.exp(fitted) if self.is_log else fitted)


def _one(x: np.ndarray) -> np.ndarray:
    return np.ones_like(x)


LAWS: dict[str, Law] = {
    law.name: law
    for law in (
        Law("linear", "y = intercept + slope x", ("intercept", "slope"), (_one, lambda x: x)),
        Law("quadratic", "y = intercept + slope x²", ("intercept", "slope"), (_one, np.square)),
        Law("cubic", "y = intercept + slope x³", ("intercept", "slope"), (_one, lambda x: x**3)),
        Law(
            "parabola",
            "y = intercept + slope x + bend x²",
            ("intercept", "slope", "bend"),
            (_one, lambda x: x, np.square),
        ),
        Law("square-root", "y = intercept + slope √x", ("intercept", "slope"), (_one, np.sqrt)),
        Law("power", "y = exp(log_factor) x^exponent", ("log_factor", "exponent"), (_one, lambda x: x), True),
        Law("constant", "y = intercept", ("intercept",), (_one,)),
    )
}


@dataclass(frozen=True)
class CutOff:
    """A named rule that chooses the points to fit. `keeps` takes x and y, sorted by x, and returns a mask of the points to keep."""

    name: str
    keeps: Callable[[np.ndarray, np.ndarray], np.ndarray]


def everything() -> CutOff:
    return CutOff("all points", lambda x, y: np.ones(x.size, dtype=bool))


def up_to_first_above(threshold: float) -> CutOff:
    """Return the rule that keeps the points up to and including the first x whose mean y exceeds `threshold` (0.95 in DPC24)."""

    def keeps(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        for value in np.unique(x):
            if y[x == value].mean() > threshold:
                return np.asarray(x <= value)
        return np.ones(x.size, dtype=bool)

    return CutOff(f"up to the first x with a mean y above {threshold:g}", keeps)


def between(low: float, high: float) -> CutOff:
    """Return the rule that keeps the points with low <= x <= high."""
    return CutOff(f"{low:g} <= x <= {high:g}", lambda x, y: (x >= low) & (x <= high))


@dataclass(frozen=True)
class Fit:
    """A law fitted to points.

    `n_left_out` counts the points that were not used: those that the rule `cut_off` removes and those that are not finite.
    `n_distinct` counts the distinct x of the points used. `r_squared` is computed from the mean of y at each x. It is negative if
    the law fits these means worse than a constant does, which can happen to a law that is fitted to logarithms, and NaN if all
    means are equal. `aicc` is the corrected Akaike criterion: of the laws fitted to the same points, the one with the lowest value
    is best.
    """

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
) -> Fit:
    """Fit `law` to the points (x, y). If an x occurs several times, its values of y must belong to different seeds, in the
    same order at every x.

    The random choices of a seed may shift all its points. Therefore, if every x has the same number of seeds, at least two, the law
    is also fitted to each seed separately, and intervals are Student's t intervals over these fits. Otherwise, intervals are those
    of least squares with independent normal errors, or NaN if there are no more points than parameters.
    """
    chosen, rule = law_of(law), cut_off or everything()
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if xs.shape != ys.shape or xs.ndim != 1:
        raise UsageError(
            f"a fit needs x and y as two lists of the same length; got shapes {xs.shape} and {ys.shape}.",
            shapes=(xs.shape, ys.shape),
        )
    finite = np.isfinite(xs) & np.isfinite(ys)
    order = np.argsort(xs[finite], kind="stable")
    xs, ys = xs[finite][order], ys[finite][order]
    kept = rule.keeps(xs, ys) if xs.size else np.zeros(0, dtype=bool)
    left_out = int(finite.size - kept.sum())
    xs, ys = xs[kept], ys[kept]
    n_distinct = np.unique(xs).size
    if n_distinct < len(chosen.parameters):
        raise UsageError(
            f"to fit the law {law}, the number of distinct values of x must be at least {len(chosen.parameters)}, the"
            f" number of its parameters; the cut-off `{rule.name}` leaves {n_distinct}.",
            law=law,
        )
    if chosen.is_log and ((xs <= 0).any() or (ys <= 0).any()):
        raise UsageError(f"the law {law} is fitted to logarithms and needs positive x and y.", law=law)
    coefficients = _least_squares(chosen, xs, ys)
    ends = _intervals(chosen, coefficients, xs, ys)
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


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return Student's 95% interval of the mean of independent values, or NaN for fewer than two values."""
    if len(values) < 2:
        return math.nan, math.nan
    found = np.asarray(values, dtype=np.float64)
    middle, half = (
        float(found.mean()),
        t_quantile(found.size - 1) * float(found.std(ddof=1)) / math.sqrt(found.size),
    )
    return middle - half, middle + half


@lru_cache(maxsize=256)
def t_quantile(freedom: int) -> float:
    """Return the bound below which |t| lies with probability `CONFIDENCE`, where t has Student's distribution with `freedom`
    degrees of freedom.

    Let n be `freedom`. With t = √n tan φ, the density over φ is proportional to cos^(n-1) φ. The probability of |t| < √n tan a is
    therefore the integral of cos^(n-1) φ from 0 to a, divided by its integral from 0 to π/2. The function finds a by bisection. It
    integrates by Simpson's rule with 2,000 steps. The result is exact to 10 digits for up to 100,000 degrees of freedom, but wrong
    for a million or more.
    """

    def integral(end: float) -> float:
        at = np.linspace(0, end, 2001)
        weights = np.where(np.arange(2001) % 2, 4.0, 2.0)
        weights[[0, -1]] = 1
        return float((np.cos(at) ** (freedom - 1) * weights).sum()) * end / 6000

    whole, low, high = integral(math.pi / 2), 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if integral(middle) < CONFIDENCE * whole else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def compare(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    laws: Sequence[str],
    *,
    cut_off: CutOff | None = None,
) -> list[Fit]:
    """Fit several laws to the same points.

    Return the fits in order of AICc (the corrected Akaike criterion), lowest first. For every law, AICc is computed from errors
    in y, not in log y.
    """
    return sorted((fit(x, y, law, cut_off=cut_off) for law in laws), key=lambda found: found.aicc)


def law_of(name: str) -> Law:
    if name not in LAWS:
        raise UsageError(f"no law `{name}`; choose from: {', '.join(LAWS)}.", law=name)
    return LAWS[name]


def _least_squares(law: Law, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.lstsq(law.matrix(x), np.log(y) if law.is_log else y, rcond=None)[0])


def _intervals(law: Law, coefficients: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the lower and upper ends of the 95% interval of every coefficient, (2, n_coefficients)."""
    matrix, target = law.matrix(x), np.log(y) if law.is_log else y
    _, sizes = np.unique(x, return_counts=True)
    n_seeds = int(sizes[0]) if (sizes == sizes[0]).all() else 1
    if n_seeds > 1:
        design = matrix[::n_seeds]  # x is sorted, so the seeds of one x are neighbours
        by_seed = np.linalg.lstsq(design, target.reshape(-1, n_seeds), rcond=None)[0]
        return np.array([mean_interval(list(row)) for row in by_seed]).T
    freedom = x.size - coefficients.size
    if freedom < 1:
        return np.full((2, coefficients.size), np.nan)
    spread = float(np.square(target - matrix @ coefficients).sum()) / freedom
    half = t_quantile(freedom) * np.sqrt(spread * np.diag(np.linalg.pinv(matrix.T @ matrix)))
    return np.array([coefficients - half, coefficients + half])


def _r_squared(law: Law, coefficients: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    values, group, sizes = np.unique(x, return_inverse=True, return_counts=True)
    means = np.bincount(group, weights=y) / sizes
    spread = float(np.square(means - means.mean()).sum())
    left = float(np.square(means - law.predict(coefficients, values)).sum())
    return 1 - left / spread if spread > 0 else math.nan


def _aicc(law: Law, coefficients: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Return Akaike's information criterion for normal errors in y, corrected for few points.

    It is infinite if there are too few points.
    """
    n, k = x.size, len(law.parameters) + 1
    left = float(np.square(y - law.predict(coefficients, x)).sum())
    if n - k - 1 <= 0:
        return math.inf
    return n * math.log(max(left, 1e-300) / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1)
