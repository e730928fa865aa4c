"""DPC24 Figure 1b: accuracy grows quadratically with the head dimension, at d = 10 and 20 heads."""

from __future__ import annotations

from collections.abc import Sequence

from byheart.measure.records import Record
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs as runs
from byheart.reproduce.figure import Check, Computed, Figure, Scale, Stage
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import SeedValues, fit_numbers, format_estimate, judged, try_fit
from byheart.theorems import realises

DIM, N_HEADS = 10, 20
HEAD_DIMS = tuple(range(1, 11))


def stages(scale: Scale, samples: Samples | None = None) -> list[Stage]:
    """Head dimensions 1 to 10 in both readings of the model, and by L-BFGS."""
    return runs.sweep(
        "fig1b",
        scale,
        lambda variant, how: runs.thin(HEAD_DIMS, scale),
        lambda h: {"dim": DIM, "head_dim": h, "n_heads": N_HEADS},
        runs.WAYS_WITH_MAPS,
    )


@realises("DPC24-F1b")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """Accuracy by head dimension with quadratic fits, beside the stored points and both bounds."""
    here = dana.curves(records, "head_dim", dim=DIM, n_heads=N_HEADS, mlp_width=0)
    stored = published_points()
    fits = {key: try_fit(found, "quadratic", dana.cut_off()) for key, found in here.items()}
    lines = {key: try_fit(found, "linear", dana.cut_off()) for key, found in here.items()}
    coded, quadratic = here.get(("as-coded", "adam")), fits.get(("as-coded", "adam"))
    checks = []
    if coded and quadratic is not None and dana.can_compare(scale):
        line = lines["as-coded", "adam"]
        assert line is not None
        checks = [
            Check("quadratic fit", f"R² {quadratic.r_squared:.4f}", "R² > 0.98", quadratic.r_squared > 0.98),
            Check(
                "quadratic rather than linear",
                f"AICc {quadratic.aicc:.1f} against {line.aicc:.1f}",
                "the smaller AICc",
                quadratic.aicc < line.aicc,
            ),
            dana.agreement(coded, stored, 9),
        ]
    words = [
        f"{dana.LABELS[key][0]}: {format_estimate(found, 'slope')}·d_h² + {found.coefficients['intercept'].value:.4f},"
        f" R² {found.r_squared:.4f} (a straight line: {line.r_squared:.4f})"
        for key, found in fits.items()
        if found is not None and (line := lines[key]) is not None
    ]
    free = dana.held_out(here, stored)
    panel = dana.panel(
        "Accuracy by head dimension, d = 10, 20 heads",
        "head dimension d_h",
        here,
        stored,
        scale,
        dana.bounds(HEAD_DIMS, dana.n_vocab_of(records), dim=DIM, head_dim=None, n_heads=N_HEADS),
    )
    return Computed(
        (panel,),
        judged(
            scale,
            checks,
            f"Accuracy against d_h². {'; '.join(words)}. {dana.in_words(free)}",
            is_complete=coded is not None and len(coded.x) == len(runs.thin(HEAD_DIMS, scale)),
        ),
        {
            "stored points": free,
            "fits": {" ".join(key): fit_numbers(found) for key, found in fits.items()},
            "published fit": fit_numbers(try_fit(stored, "quadratic", dana.cut_off())),
        },
        dana.CHOICES,
    )


def published_points() -> SeedValues:
    """The stored points."""
    return dana.stored_points("fig1b", "head_dim")


FIGURE = Figure(
    "dana-2024-fig1b",
    "DPC24",
    ("DPC24-F1b",),
    "DPC24 Figure 1b: accuracy by head dimension",
    "Accuracy grows quadratically with the head dimension at a fixed number of heads.",
    stages,
    compute,
)
