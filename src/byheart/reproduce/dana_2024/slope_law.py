"""DPC24 Figure 2b: the slope of accuracy per head against d = d_h, which the paper finds cubic; and where the law ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from byheart.measure.fits import Fit, between
from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import SeedValues, fit_numbers, format_estimate, series, try_fit
from byheart.theorems import realises

DIMS: dict[fig.Scale, tuple[int, ...]] = {"smoke": (3, 6), "laptop": (4, 7, 10, 13), "paper": runs.DIMS}
WAYS: tuple[dana.Way, ...] = (
    dana.OWN,
    ("as-written", "adam"),
    ("as-coded", "longer"),
    ("as-coded", "longest"),
)
CUBIC = (2.5, 3.5)
LOCAL = ((3, 7), (7, 10), (10, 13))  # ranges of d for local exponents; two places in each are enough


def stages(scale: fig.Scale, samples: Samples | None = None) -> list[fig.TrainingStage]:
    """Numbers of heads for every d = d_h, as coded and as written; as coded for 4 and 16 times the steps."""
    return runs.stages(
        "fig2b",
        scale,
        lambda variant, how, seed: [
            runs.run(scale, variant, seed, dim=d, head_dim=d, n_heads=n, how=how)
            for d in (DIMS[scale] if how != "longest" else DIMS["laptop"])
            for n in runs.heads_at(scale, variant, how, d)
        ],
        WAYS,
        most_seeds=5,
    )


@realises("DPC24-F2b")
def compute(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """The slope of accuracy per head for every d = d_h, with power laws, beside those of the stored points."""
    here = {way: found for way in WAYS if (found := slopes(observations, way))}
    stored = published_slopes()
    fits = {way: try_fit(found, "power") for way, found in here.items()}
    theirs = try_fit(stored, "power")
    trials = []
    for way, law in fits.items():
        whole = way != dana.OWN or len(here[way].x) == len(DIMS[scale])
        said = "not every d was trained" if not whole else f"exponent {format_estimate(law, 'exponent')}"
        if law is not None:
            said += f", R² {law.r_squared:.3f}"
        trials.append(
            fig.ConditionResult(dana.LABELS[way][0], said, _is_cubic(law) if whole else None, way == dana.OWN)
        )
    checks, tables = [], [_local_exponents(here, stored)]
    numbers: dict[str, Any] = {}
    if dana.OWN in here and dana.can_compare(scale):
        gaps, n_stored = _differences(observations)
        check, table = dana.agreement(gaps, n_stored)
        numbers[dana.AGREEMENT] = dana.within(gaps, n_stored)
        ours = fits[dana.OWN]
        assert theirs is not None
        value, wanted = (
            None if one is None else one.coefficients["exponent"].value for one in (ours, theirs)
        )
        assert wanted is not None
        checks = [
            check,
            fig.Check(
                "as in the stored points",
                format_estimate(ours, "exponent"),
                f"within 0.5 of {wanted:.2f}, fitted to them in the same way",
                value is not None and abs(value - wanted) <= 0.5,
            ),
        ]
        tables.append(table)
    panel = fig.Panel(
        "Slope of accuracy per head, d = d_h",
        "d = d_h",
        "accuracy per head",
        (
            *(series(*dana.LABELS[way], found) for way, found in here.items()),
            *([series("published", "published", stored)] if dana.can_compare(scale) else []),
        ),
        x_scale="log",
        y_scale="log",
    )
    numbers |= {dana.LABELS[way][0]: fit_numbers(law) for way, law in fits.items()}
    numbers["stored points"] = fit_numbers(theirs)
    choices = (*dana.CHOICES, "Slopes that are not positive are left out of the power law.")
    return fig.Computed((panel,), tuple(trials), tuple(checks), tuple(tables), numbers, choices)


def _is_cubic(law: Fit | None) -> bool | None:
    """Whether the interval of the exponent lies within `CUBIC`; None where it reaches over an end."""
    if law is None:
        return None
    exponent = law.coefficients["exponent"]
    if CUBIC[0] <= exponent.low and exponent.high <= CUBIC[1]:
        return True
    return False if exponent.high < CUBIC[0] or exponent.low > CUBIC[1] else None


def _local_exponents(here: dict[dana.Way, SeedValues], stored: SeedValues) -> fig.Table:
    curves = [*((dana.LABELS[way][0], found) for way, found in here.items()), ("stored points", stored)]
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
        "Exponent of the slope per head, range by range", ("", *(f"d = {a} to {b}" for a, b in LOCAL)), rows
    )


def slopes(observations: Sequence[Observation], way: dana.Way) -> SeedValues:
    """For every d, the slope over heads of each seed, up to the first accuracy above 0.95."""
    groups: dict[tuple[int, int], list[Observation]] = {}
    for one in observations:
        if dana.way_of(one) == way:
            groups.setdefault((one.sizes["dim"], one.seed), []).append(one)
    found = []
    for (dim, _), group in sorted(groups.items(), key=lambda item: item[0]):
        slope = _slope(dana.curve(group, way, "n_heads", dim=dim, head_dim=dim, mlp_width=0))
        found += [] if slope is None else [(dim, slope)]
    return SeedValues.of(found)


def _slope(found: SeedValues) -> float | None:
    line = try_fit(found, "linear", dana.cut_off(), n_bootstrap=0)
    slope = 0.0 if line is None else line.coefficients["slope"].value
    return slope if slope > 0 else None


def _differences(observations: Sequence[Observation]) -> tuple[list[tuple[str, float]], int]:
    """Ours less every stored accuracy, by name, and how many are stored."""
    found, n_stored = [], 0
    for dim in runs.DIMS:
        stored = dana.stored_points("fig1a_fig2b", "n_heads", dim=dim)
        n_stored += len(stored.x)
        at = dana.curve(observations, dana.OWN, "n_heads", dim=dim, head_dim=dim, mlp_width=0)
        found += [(f"d = {dim}, H = {x:g}", gap) for x, gap in dana.differences(at, stored)]
    return found, n_stored


def published_slopes() -> SeedValues:
    """The same of the stored points, whose seeds are already averaged."""
    found = ((d, _slope(dana.stored_points("fig1a_fig2b", "n_heads", dim=d))) for d in runs.DIMS)
    return SeedValues.of((d, slope) for d, slope in found if slope is not None)


FIGURES = (
    fig.Figure(
        "dana-2024-fig2b",
        "DPC24",
        ("DPC24-F2b",),
        "DPC24 Figure 2b: slope of accuracy per head, by d = d_h",
        "With d = d_h the slope per head grows as d³.",
        f"The interval of the exponent of a power law through the slopes lies within {CUBIC[0]} to {CUBIC[1]}"
        " (the authors' points: 3.4).",
        stages,
        compute,
    ),
)
