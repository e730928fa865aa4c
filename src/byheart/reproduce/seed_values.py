"""Records into points: one per setting, the mean over seeds with a 95% interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from byheart.errors import UsageError
from byheart.measure.capacity import student_half_width
from byheart.measure.fits import N_BOOTSTRAP, CutOff, Fit, fit
from byheart.measure.records import Record
from byheart.reproduce.figure import Check, Outcome, Scale, Series, Style, Verdict


@dataclass(frozen=True)
class SeedValues:
    """Several values, one per seed, at each x in rising order."""

    x: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]

    @property
    def means(self) -> tuple[float, ...]:
        """The mean over seeds at each x."""
        return tuple(statistics.fmean(at) for at in self.values)

    @property
    def halves(self) -> tuple[float, ...]:
        """Half the 95% interval of the mean at each x, by Student's t; NaN for one seed."""
        return tuple(student_half_width(at) if len(at) > 1 else math.nan for at in self.values)

    @property
    def flat(self) -> tuple[list[float], list[float]]:
        """Every value with its x, for fits."""
        pairs = [(x, value) for x, at in zip(self.x, self.values, strict=True) for value in at]
        return [x for x, _ in pairs], [value for _, value in pairs]

    def __bool__(self) -> bool:
        """Whether there is any point."""
        return bool(self.x)

    def at(self, x: float) -> float | None:
        """The mean at `x`, if there is one."""
        return dict(zip(self.x, self.means, strict=True)).get(x)


def points(
    records: Iterable[Record], x: Callable[[Record], float], y: Callable[[Record], float]
) -> SeedValues:
    """Group `records` by x; values that are not finite are left out."""
    groups: dict[float, list[float]] = {}
    for record in records:
        value = y(record)
        if math.isfinite(value):
            groups.setdefault(x(record), []).append(value)
    rising = sorted(groups)
    return SeedValues(tuple(rising), tuple(tuple(groups[key]) for key in rising))


def series(label: str, style: Style, found: SeedValues) -> Series:
    """SeedValues as they are drawn."""
    means, halves = found.means, found.halves
    return Series(
        label,
        style,
        tuple(float(x) for x in found.x),
        means,
        tuple(mean - half for mean, half in zip(means, halves, strict=True)),
        tuple(mean + half for mean, half in zip(means, halves, strict=True)),
        max((len(at) for at in found.values), default=0),
    )


def try_fit(
    found: SeedValues, law: str, cut_off: CutOff | None = None, *, n_bootstrap: int = N_BOOTSTRAP
) -> Fit | None:
    """The law fitted to every value; None where there are too few points to leave anything over to judge it by."""
    try:
        result = fit(*found.flat, law, cut_off=cut_off, n_bootstrap=n_bootstrap)
    except UsageError:
        return None
    return result if result.n_distinct > len(result.coefficients) else None


def format_estimate(found: Fit | None, name: str) -> str:
    """A fitted number with its interval, in words."""
    if found is None:
        return "not fitted"
    estimate = found.coefficients[name]
    return f"{estimate.value:.4g} [{estimate.low:.4g}, {estimate.high:.4g}]"


def fit_numbers(found: Fit | None) -> dict[str, object] | None:
    """A fit as plain numbers, for the record."""
    if found is None:
        return None
    return {
        "law": found.formula,
        "points": found.cut_off,
        "r_squared": found.r_squared,
        **{name: [e.value, e.low, e.high] for name, e in found.coefficients.items()},
    }


def judged(scale: Scale, checks: Sequence[Check], because: str, *, is_complete: bool) -> Verdict:
    """The verdict that checks give together: all hold, some do, or none does. Smoke runs settle nothing."""
    if scale == "smoke":
        return Verdict(
            "not settled",
            "The smoke scale shows that the figure can be made; it settles nothing.",
            tuple(checks),
        )
    if not checks or not is_complete:
        return Verdict("not settled", f"Runs are missing. {because}", tuple(checks))
    good = sum(check.holds for check in checks)
    outcome: Outcome = "holds" if good == len(checks) else "holds in part" if good else "does not hold"
    return Verdict(outcome, because, tuple(checks))
