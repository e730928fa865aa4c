"""DPC24 Figure 1a: accuracy grows linearly with the number of heads, at d = d_h = 10."""

from __future__ import annotations

from collections.abc import Sequence

from byheart.measure.fits import Fit
from byheart.measure.records import Record
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs as runs
from byheart.reproduce.figure import Check, Computed, Figure, Scale, Stage
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import SeedValues, fit_numbers, format_estimate, judged, try_fit
from byheart.theorems import realises

DIM = 10
WAYS: tuple[tuple[runs.Variant, runs.How], ...] = (
    ("as-coded", "adam"),
    ("as-written", "adam"),
    ("as-coded", "lbfgs"),
)


def stages(scale: Scale, samples: Samples | None = None) -> list[Stage]:
    """Every second number of heads as coded, the paper's in the other ways."""
    return runs.sweep(
        "fig1a",
        scale,
        lambda variant, how: runs.heads_at(scale, variant, how),
        lambda heads: {"dim": DIM, "head_dim": DIM, "n_heads": heads},
        WAYS,
    )


@realises("DPC24-F1a")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """Accuracy by heads with linear fits, beside the stored points and both bounds."""
    here = dana.curves(records, "n_heads", dim=DIM, head_dim=DIM, mlp_width=0)
    stored = published_points()
    free = dana.held_out(here, stored)
    fits = {key: try_fit(found, "linear", dana.cut_off()) for key, found in here.items()}
    published_fit = try_fit(stored, "linear", dana.cut_off())
    coded = here.get(("as-coded", "adam"))
    checks = []
    if coded and dana.can_compare(scale):
        checks = [dana.agreement(coded, stored, 5), _slope_check(fits["as-coded", "adam"], published_fit)]
    panel = dana.panel(
        "Accuracy by number of heads, d = d_h = 10",
        "heads H",
        here,
        stored,
        scale,
        dana.bounds(runs.HEADS, dana.n_vocab_of(records), dim=DIM, head_dim=DIM, n_heads=None),
    )
    return Computed(
        (panel,),
        judged(
            scale,
            checks,
            f"{_because(fits)} {dana.in_words(free)}",
            is_complete=coded is not None and set(runs.heads_at(scale, "as-coded", "adam")) <= set(coded.x),
        ),
        {
            "fits": {" ".join(key): fit_numbers(found) for key, found in fits.items()},
            "published fit": fit_numbers(published_fit),
            "within 0.06 of the stored points": {
                " ".join(key): dana.agreement(found, stored, 5).found for key, found in here.items()
            },
            "stored points": free,
            "associations per head": {
                " ".join(key): found.coefficients["slope"].value * dana.n_vocab_of(records) ** 2
                for key, found in fits.items()
                if found is not None
            },
        },
        dana.CHOICES,
    )


def published_points() -> SeedValues:
    """The stored points at d = 10."""
    return dana.stored_points("fig1a_fig2b", "n_heads", dim=DIM)


def _slope_check(ours: Fit | None, theirs: Fit | None) -> Check:
    assert theirs is not None
    wanted = theirs.coefficients["slope"].value
    found = None if ours is None else ours.coefficients["slope"].value
    return Check(
        "slope per head",
        format_estimate(ours, "slope"),
        f"within 15% of {wanted:.4f}",
        found is not None and abs(found - wanted) <= 0.15 * wanted,
    )


def _because(fits: dict[tuple[runs.Variant, runs.How], Fit | None]) -> str:
    words = [
        f"{dana.LABELS[key][0]}: slope {format_estimate(found, 'slope')} per head, R² {found.r_squared:.3f}"
        for key, found in fits.items()
        if found is not None
    ]
    return "Accuracy against heads, up to the first point above 0.95. " + "; ".join(words) + "."


FIGURE = Figure(
    "dana-2024-fig1a",
    "DPC24",
    ("DPC24-F1a",),
    "DPC24 Figure 1a: accuracy by number of heads",
    "Accuracy grows linearly with the number of heads at fixed d_h, faster than Corollary 1 promises.",
    stages,
    compute,
)
