"""DPC24 Figure 2b: the slope of accuracy per head against d = d_h, which the paper finds cubic."""

from __future__ import annotations

from collections.abc import Sequence

from byheart.measure.records import Record
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs as runs
from byheart.reproduce.figure import Check, Computed, Figure, Panel, Scale, Stage
from byheart.reproduce.published import dana_2024
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import SeedValues, fit_numbers, format_estimate, judged, series, try_fit
from byheart.theorems import realises

DIMS: dict[Scale, tuple[int, ...]] = {"smoke": (3, 6), "laptop": (4, 7, 10, 13), "paper": runs.DIMS}

KINDS: tuple[tuple[runs.Variant, runs.How], ...] = (
    ("as-coded", "adam"),
    ("as-written", "adam"),
    ("as-coded", "longer"),
    ("as-coded", "longest"),
)


def stages(scale: Scale, samples: Samples | None = None) -> list[Stage]:
    """Heads 1, 6, ..., 26 for every d = d_h from 3 to 13, in both readings of the model."""
    return runs.stages(
        "fig2b",
        scale,
        lambda variant, how, seed: [
            runs.run(scale, variant, seed, dim=d, head_dim=d, n_heads=n, how=how)
            for d in (DIMS[scale] if how != "longest" else DIMS["laptop"])
            for n in runs.heads_at(scale, variant, how, d)
        ],
        KINDS,
        most_seeds=5,
    )


@realises("DPC24-F2b")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """The slope of accuracy per head for every d = d_h, with power laws, beside those of the stored points."""
    here = {key: found for key in KINDS if (found := slopes(records, *key))}
    stored = published_slopes()
    fits = {key: try_fit(found, "power") for key, found in here.items()}
    theirs = try_fit(stored, "power")
    checks = []
    coded = fits.get(("as-coded", "adam"))
    if coded is not None and theirs is not None and dana.can_compare(scale):
        exponent = coded.coefficients["exponent"]
        checks = [
            Check(
                "faster than quadratic",
                format_estimate(coded, "exponent"),
                "exponent above 2",
                exponent.low > 2,
            ),
            Check(
                "cubic",
                format_estimate(coded, "exponent"),
                "an interval that holds 3",
                exponent.low <= 3 <= exponent.high,
            ),
            Check(
                "as in the stored points",
                format_estimate(coded, "exponent"),
                f"within 0.5 of {theirs.coefficients['exponent'].value:.2f}, fitted to them in the same way",
                abs(exponent.value - theirs.coefficients["exponent"].value) <= 0.5,
            ),
        ]
    free = {dana.LABELS[key][0]: dana.closeness(_differences(records, *key)) for key in KINDS if key in here}
    words = [
        f"{dana.LABELS[key][0]}: exponent {format_estimate(found, 'exponent')}, R² {found.r_squared:.3f}"
        for key, found in fits.items()
        if found is not None
    ]
    panel = Panel(
        "Slope of accuracy per head, d = d_h",
        "d = d_h",
        "accuracy per head",
        (
            *(series(*dana.LABELS[key], found) for key, found in here.items()),
            *([series("published", "published", stored)] if dana.can_compare(scale) else []),
        ),
        x_scale="log",
        y_scale="log",
    )
    return Computed(
        (panel,),
        judged(
            scale,
            checks,
            "Power laws of the slope per head in d = d_h. "
            + "; ".join(words)
            + f". Stored points: exponent {format_estimate(theirs, 'exponent')}. "
            + dana.in_words({name: row for name, row in free.items() if name != "as written"}),
            is_complete=len(here.get(("as-coded", "adam"), SeedValues((), ())).x) == len(DIMS[scale]),
        ),
        {
            "stored points": free,
            "fits": {" ".join(key): fit_numbers(found) for key, found in fits.items()},
            "published fit": fit_numbers(theirs),
        },
        (*dana.CHOICES, "Slopes that are not positive are left out of the power law."),
    )


def slopes(records: Sequence[Record], variant: runs.Variant, how: runs.How) -> SeedValues:
    """For every d, the slope over heads of each seed, up to the first accuracy above 0.95."""
    found: dict[float, list[float]] = {}
    for dim in sorted({record.config["sizes"]["dim"] for record in records}):
        for seed in sorted({record.config["seed"] for record in records}):
            mine = [record for record in records if record.config["seed"] == seed]
            at = dana.curve(mine, variant, how, "n_heads", dim=dim, head_dim=dim, mlp_width=0)
            line = try_fit(at, "linear", dana.cut_off(), n_bootstrap=0)
            if line is not None and line.coefficients["slope"].value > 0:
                found.setdefault(dim, []).append(line.coefficients["slope"].value)
    return SeedValues(tuple(found), tuple(tuple(values) for values in found.values()))


def _differences(records: Sequence[Record], variant: runs.Variant, how: runs.How) -> list[float]:
    """Ours less the stored accuracy."""
    found: list[float] = []
    for dim in runs.DIMS:
        at = dana.curve(records, variant, how, "n_heads", dim=dim, head_dim=dim, mlp_width=0)
        if at:
            found += dana.differences(at, dana.stored_points("fig1a_fig2b", "n_heads", dim=dim))
    return found


def published_slopes() -> SeedValues:
    """The same of the stored points, whose seeds are already averaged."""
    found: dict[float, tuple[float, ...]] = {}
    rows = dana_2024("fig1a_fig2b")
    for dim in sorted({row.dim for row in rows}):
        at = {row.n_heads: row.accuracy for row in rows if row.dim == dim}
        whole = SeedValues(tuple(at), tuple((accuracy,) for accuracy in at.values()))
        line = try_fit(whole, "linear", dana.cut_off(), n_bootstrap=0)
        if line is not None and line.coefficients["slope"].value > 0:
            found[dim] = (line.coefficients["slope"].value,)
    return SeedValues(tuple(found), tuple(found.values()))


FIGURE = Figure(
    "dana-2024-fig2b",
    "DPC24",
    ("DPC24-F2b",),
    "DPC24 Figure 2b: slope of accuracy per head, by d = d_h",
    "With d = d_h the slope per head grows as d³.",
    stages,
    compute,
)
