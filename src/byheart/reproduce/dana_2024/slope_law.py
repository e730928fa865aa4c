"""Figure 2b of DPC24 (Dana, Pydi & Chevaleyre 2024): the slope of accuracy per head as a function of the model width d, which
equals the head width d_h.

The paper finds a cubic law; we also show where this law no longer holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from byheart.measure.fits import Fit, between, law_of, mean_interval
from byheart.measure.records import Run
from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import (
    SeedValues,
    fit_numbers,
    fitted_line,
    format_estimate,
    series,
    try_fit,
)
from byheart.theorems import realises

DIMS: dict[fig.Scale, tuple[int, ...]] = {"smoke": (3, 6), "laptop": (4, 7, 10, 13), "paper": runs.DIMS}
WAYS: tuple[dana.Way, ...] = (
    dana.AUGUST,
    ("layer-norm", "longer"),
    ("layer-norm", "longest"),
    dana.LATEST,
    ("as-written", "adam"),
    ("as-coded", "longer"),
    ("as-coded", "longest"),
)
FEWER_SEEDS = 3  # number of seeds for 16 times the steps, at those d that only the paper's scale has
LOCAL = ((3, 7), (7, 10), (10, 13))  # ranges of d for local exponents; two values in each suffice
FITS = ("slopes of", "values of d", "squared residuals of a + b·d²", "of a + b·d³", "power law's exponent")
"""The columns of the tables that compare fits (see `_row`)."""


def stages(scale: fig.Scale, samples: Samples | None = None) -> list[fig.TrainingStage]:
    """Return the training stages. For every model width, which is also the width of the heads, they train models with several
    numbers of heads.

    Three versions of the model are trained: that of the authors' code of August 2024, that of their code of 2025, and the model
    that the paper's equations define. At the paper's scale, the first two are also trained for 4 and for 16 times as many steps. At
    scale `laptop`, only the first is trained.
    """

    def at(dims: Sequence[int]) -> Callable[[runs.Variant, runs.How, int], list[Run]]:
        return lambda variant, how, seed: [
            runs.run(scale, variant, seed, dim=d, head_dim=d, n_heads=n, how=how)
            for d in dims
            for n in runs.heads_at(scale, variant, how, d)
        ]

    longest: dana.Way = ("as-coded", "longest")
    others = tuple(d for d in DIMS[scale] if d not in DIMS["laptop"])
    rest = [way for way in WAYS if way[0] != "layer-norm" and way != longest]
    return [
        *runs.stages("fig2b", scale, at(DIMS[scale]), [way for way in WAYS if way[0] == "layer-norm"]),
        *runs.stages("fig2b", scale, at(DIMS[scale]), rest, most_seeds=5),
        *runs.stages("fig2b", scale, at(DIMS["laptop"]), [longest], most_seeds=5),
        *runs.stages("fig2b, the other d", scale, at(others), [longest], most_seeds=FEWER_SEEDS),
    ]


@dataclass(frozen=True)
class Contest:
    """The paper's comparison of a + b·d² and a + b·d³, each fitted by least squares to the slopes.

    `residuals` holds two sums of squared residuals, one for each law, fitted to the mean slopes. For `lead`, both laws are also
    fitted to the slopes of each single seed that was run at every d. For each such seed, the sum of squared residuals of a + b·d³
    is subtracted from that of a + b·d². `lead` holds the mean of these differences and the ends of its confidence interval. If
    the whole interval is above 0, the growth is cubic. If it is below 0, the growth is quadratic.
    """

    dims: tuple[float, ...]
    square: Fit
    cube: Fit
    residuals: tuple[float, float]
    lead: tuple[float, float, float]

    @property
    def is_cubic(self) -> bool | None:
        """Whether the growth is cubic rather than quadratic; None if the confidence interval in `lead` contains 0, or if there
        is only one seed and so no interval.
        """
        _, low, high = self.lead
        return True if low > 0 else False if high < 0 else None

    @property
    def numbers(self) -> dict[str, Any]:
        return {
            "d": list(self.dims),
            "a + b·d²": fit_numbers(self.square),
            "a + b·d³": fit_numbers(self.cube),
            "sums of squared residuals": list(self.residuals),
            "sum of squared residuals of a + b·d² minus that of a + b·d³, mean and interval over seeds": list(
                self.lead
            ),
        }


def contest(found: SeedValues) -> Contest | None:
    """Fit a + b·d² and a + b·d³ to the slopes in `found`, and return the comparison. Return None if fewer than four values of d
    have a slope.
    """
    means = SeedValues(found.x, tuple((mean,) for mean in found.means))
    square, cube = (try_fit(means, law, n_spare=2) for law in ("quadratic", "cubic"))
    if square is None or cube is None:
        return None
    n_whole = min(len(values) for values in found.values)
    leads = []
    for seed in range(n_whole):
        ends = _residuals(SeedValues(found.x, tuple((values[seed],) for values in found.values)))
        leads.append(ends[0] - ends[1])
    return Contest(found.x, square, cube, _residuals(means), (fmean(leads), *mean_interval(leads)))


def _residuals(found: SeedValues) -> tuple[float, float]:
    """Return the sums of squared residuals of a + b·d² and of a + b·d³, each fitted to these values."""
    x, y = (np.asarray(values) for values in found.flat)
    ends = []
    for name in ("quadratic", "cubic"):
        matrix = law_of(name).matrix(x)
        ends.append(float(np.square(y - matrix @ np.linalg.lstsq(matrix, y, rcond=None)[0]).sum()))
    return ends[0], ends[1]


@realises("DPC24-F2b")
def compute(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """Compute by how much the accuracy increases per head (the slope) for every d = d_h, for our runs and for the points that the
    authors stored. Fit a + b·d² and a + b·d³ to the slopes, as the paper does.
    """
    here = {way: found for way in WAYS if (found := slopes(observations, way))}
    stored = published_slopes()
    contests = {way: contest(found) for way, found in here.items()}
    powers = {way: try_fit(found, "power") for way, found in here.items()}
    theirs, their_power = contest(stored), try_fit(stored, "power")
    assert theirs is not None
    trials, rows = [], []
    for way, one in contests.items():
        label, is_own = dana.LABELS[way][0], way == dana.AUGUST
        whole = not is_own or len(here[way].x) == len(DIMS[scale])
        said = "not every d was trained" if not whole else _in_words(one)
        trials.append(fig.ConditionResult(label, said, one.is_cubic if one and whole else None, is_own))
        rows.append(_row(label, one, powers[way], len(here[way].x)))
    rows.append(_row("the authors' points", theirs, their_power, len(stored.x)))
    tables = [
        fig.Table("The paper's comparison of a + b·d² with a + b·d³, by least squares", FITS, tuple(rows))
    ]
    checks: list[fig.Check] = []
    numbers: dict[str, Any] = {
        dana.LABELS[way][0]: (one.numbers if one else {}) | {"power": fit_numbers(powers[way])}
        for way, one in contests.items()
    }
    numbers["the authors' points"] = theirs.numbers | {"power": fit_numbers(their_power)}
    own, counter = contests.get(dana.AUGUST), ""
    if own and dana.can_compare(scale):
        gaps, n_stored = _differences(observations)
        check, table = dana.agreement(gaps, n_stored)
        numbers[dana.AGREEMENT] = dana.within(gaps, n_stored)
        agree = (own.residuals[0] > own.residuals[1]) == (theirs.residuals[0] > theirs.residuals[1])
        said = f"ours {_winner(own)}, the authors' {_winner(theirs)}"
        checks = [check, fig.Check("the same law as in the authors' points", said, "the same", agree)]
        tables.append(table)
        tables.append(_on_equal_dims(here))
        counter = _counter(powers, contests)
    tables.append(_local_exponents(here, stored))
    choices = (*dana.CHOICES, "Slopes that are not positive are left out of all fits.")
    return fig.Computed(
        tuple(_panels(scale, here, stored, own)),
        tuple(trials),
        tuple(checks),
        tuple(tables),
        numbers,
        choices,
        counter,
    )


def _winner(one: Contest) -> str:
    return "cubic" if one.residuals[1] < one.residuals[0] else "quadratic"


def _in_words(one: Contest | None) -> str:
    if one is None:
        return "too few values of d for the fits"
    lead, low, high = one.lead
    return (
        f"{_winner(one)}: the sum of squared residuals is {one.residuals[0]:.3g} for a + b·d² and {one.residuals[1]:.3g} for"
        f" a + b·d³; seed by seed, the first minus the second is {lead:.2g} [{low:.2g}, {high:.2g}]"
    )


def _row(label: str, one: Contest | None, power: Fit | None, n_dims: int) -> tuple[str, ...]:
    residuals = ("-", "-") if one is None else tuple(f"{value:.3g}" for value in one.residuals)
    return (label, str(n_dims), *residuals, format_estimate(power, "exponent"))


def _on_equal_dims(here: dict[dana.Way, SeedValues]) -> fig.Table:
    """Return a table of fits, one row for each way of training. All fits use only the slopes at the values of d that all ways have.

    Because all fits use the same values of d, their exponents can be compared.
    """
    shared = set.intersection(*(set(found.x) for found in here.values()))
    rows = []
    for way, found in here.items():
        at = [(x, values) for x, values in zip(found.x, found.values, strict=True) if x in shared]
        few = SeedValues(tuple(x for x, _ in at), tuple(values for _, values in at))
        rows.append(_row(dana.LABELS[way][0], contest(few), try_fit(few, "power"), len(few.x)))
    return fig.Table(
        "The paper's comparison of a + b·d² with a + b·d³, only at the values of d that every way of training has",
        FITS,
        tuple(rows),
    )


def _counter(powers: Mapping[dana.Way, Fit | None], contests: Mapping[dana.Way, Contest | None]) -> str:
    """Return the best argument against the verdict: how longer training changes the law."""
    said = [
        f"{dana.LABELS[way][0]}: {format_estimate(powers[way], 'exponent')}, {_winner(one)}"
        for way in WAYS
        if way[1] in ("longer", "longest") and (one := contests.get(way))
    ]
    return f"The exponent depends on the number of training steps. {'; '.join(said)}." if said else ""


def _panels(
    scale: fig.Scale, here: dict[dana.Way, SeedValues], stored: SeedValues, own: Contest | None
) -> list[fig.Panel]:
    """Return two panels.

    The first is the figure as the paper draws it, with its fits. The second compares the versions of the code and the lengths of
    training, on logarithmic axes.
    """
    published = [series("the authors' points", "published", stored)] if dana.can_compare(scale) else []
    mine = here.get(dana.AUGUST)
    ends = (float(stored.x[0]), float(stored.x[-1])) if mine is None else (mine.x[0], mine.x[-1])
    fits = (
        []
        if own is None
        else [
            *fitted_line("a + b·d² fitted to ours", "fit2", own.square, ends),
            *fitted_line("a + b·d³ fitted to ours", "fit", own.cube, ends),
        ]
    )
    own_line = [] if mine is None else [series(*dana.LABELS[dana.AUGUST], mine)]
    first = fig.Panel(
        "Slope of accuracy per head, with the paper's fits",
        "d = d_h",
        "accuracy per head",
        (*own_line, *published, *fits),
    )
    drawn = tuple(series(*dana.LABELS[way], found) for way, found in here.items())
    second = fig.Panel(
        "Slope of accuracy per head, by version of the code and number of steps",
        "d = d_h",
        "accuracy per head",
        (*drawn, *published),
        "log",
        "log",
    )
    return [first, second]


def _local_exponents(here: dict[dana.Way, SeedValues], stored: SeedValues) -> fig.Table:
    curves = [*((dana.LABELS[way][0], found) for way, found in here.items()), ("the authors' points", stored)]
    rows = tuple(
        (
            label,
            *(
                format_estimate(try_fit(found, "power", between(*ends), n_spare=0), "exponent")
                for ends in LOCAL
            ),
        )
        for label, found in curves
    )
    return fig.Table(
        "Exponent of the slope per head, by range of d", ("", *(f"d = {a} to {b}" for a, b in LOCAL)), rows
    )


def slopes(observations: Sequence[Observation], way: dana.Way) -> SeedValues:
    """For every d and seed, return the slope of accuracy over the number of heads, up to the first accuracy above 0.95. Slopes that
    are not positive are left out.
    """
    groups: dict[tuple[int, int], list[Observation]] = {}
    for one in observations:
        if dana.is_of(one, way):
            groups.setdefault((one.sizes["dim"], one.seed), []).append(one)
    found = []
    for (dim, _), group in sorted(groups.items(), key=lambda item: item[0]):
        slope = _slope(dana.curve(group, way, "n_heads", dim=dim, head_dim=dim, mlp_width=0))
        found += [] if slope is None else [(dim, slope)]
    return SeedValues.of(found)


def _slope(found: SeedValues) -> float | None:
    line = try_fit(found, "linear", dana.cut_off())
    slope = 0.0 if line is None else line.coefficients["slope"].value
    return slope if slope > 0 else None


def _differences(observations: Sequence[Observation]) -> tuple[list[tuple[str, float]], int]:
    """Compare our accuracies with the points that the authors stored.

    Return two things. The first is a list of pairs, one for each stored point whose model we trained too: the name of the point,
    and our accuracy minus the authors' accuracy. The second is the number of all stored points.
    """
    found, n_stored = [], 0
    for dim in runs.DIMS:
        stored = dana.stored_points("fig1a_fig2b", "n_heads", dim=dim)
        n_stored += len(stored.x)
        at = dana.curve(observations, dana.AUGUST, "n_heads", dim=dim, head_dim=dim, mlp_width=0)
        found += [(f"d = {dim}, H = {x:g}", gap) for x, gap in dana.differences(at, stored)]
    return found, n_stored


def published_slopes() -> SeedValues:
    """For every d, return the slope of accuracy per head in the authors' stored points, which are already averages over seeds."""
    found = ((d, _slope(dana.stored_points("fig1a_fig2b", "n_heads", dim=d))) for d in runs.DIMS)
    return SeedValues.of((d, slope) for d, slope in found if slope is not None)


FIGURES = (
    fig.Figure(
        "dana-2024-fig2b",
        "DPC24",
        ("DPC24-F2b",),
        "DPC24 Figure 2b: slope of accuracy per head, by d = d_h",
        "With d = d_h the slope per head grows as d³.",
        "The authors' code of August 2024, which made the stored points (layer norm, 5,000 batches); d = d_h = 3 to 13, with the"
        " paper's numbers of heads. As in the paper, a + b·d² and a + b·d³ are fitted by least squares.",
        "For each seed, the sum of squared residuals of a + b·d³ is subtracted from that of a + b·d². The confidence interval of"
        " this difference over seeds lies above 0. (In the authors' points, a + b·d³ also has the smaller sum.)",
        stages,
        compute,
        measured=runs.MEASURED,
    ),
)
