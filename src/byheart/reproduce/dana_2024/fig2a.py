"""DPC24 Figure 2a: accuracy against the embedding dimension, with a bend at d = d_h = 10, at 20 heads."""

from __future__ import annotations

from collections.abc import Sequence

from byheart.measure.fits import Fit, between
from byheart.measure.records import Record
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs as runs
from byheart.reproduce.figure import Check, Computed, Figure, Scale, Stage
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import SeedValues, fit_numbers, format_estimate, judged, try_fit
from byheart.theorems import realises

HEAD_DIM, N_HEADS = 10, 20
DIMS = tuple(range(5, 16))


def stages(scale: Scale, samples: Samples | None = None) -> list[Stage]:
    """Embedding dimensions 5 to 15 in both readings of the model, and by L-BFGS."""
    return runs.sweep(
        "fig2a",
        scale,
        lambda variant, how: runs.thin(DIMS, scale),
        lambda d: {"dim": d, "head_dim": HEAD_DIM, "n_heads": N_HEADS},
        runs.WAYS_WITH_MAPS,
    )


@realises("DPC24-F2a")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """Accuracy by embedding dimension, a line on each side of d = d_h, beside the stored points and both bounds."""
    here = dana.curves(records, "dim", head_dim=HEAD_DIM, n_heads=N_HEADS, mlp_width=0)
    stored = published_points()
    below = {key: try_fit(found, "linear", between(DIMS[0], HEAD_DIM)) for key, found in here.items()}
    above = {key: try_fit(found, "linear", between(HEAD_DIM, DIMS[-1])) for key, found in here.items()}
    coded = here.get(("as-coded", "adam"))
    checks = []
    if coded and dana.can_compare(scale):
        checks = [
            _bend("as coded", below["as-coded", "adam"], above["as-coded", "adam"]),
            dana.agreement(coded, stored, 10),
        ]
    words = [
        f"{dana.LABELS[key][0]}: {format_estimate(below[key], 'slope')} per dimension up to d_h = 10,"
        f" {format_estimate(above[key], 'slope')} beyond"
        for key in here
    ]
    free = dana.held_out(here, stored)
    panel = dana.panel(
        "Accuracy by embedding dimension, d_h = 10, 20 heads",
        "embedding dimension d",
        here,
        stored,
        scale,
        dana.bounds(DIMS, dana.n_vocab_of(records), dim=None, head_dim=HEAD_DIM, n_heads=N_HEADS),
    )
    return Computed(
        (panel,),
        judged(
            scale,
            checks,
            f"Slopes of accuracy in d. {'; '.join(words)}. {dana.in_words(free)}",
            is_complete=coded is not None and len(coded.x) == len(runs.thin(DIMS, scale)),
        ),
        {
            "stored points": free,
            "fits up to d_h": {" ".join(key): fit_numbers(found) for key, found in below.items()},
            "fits beyond d_h": {" ".join(key): fit_numbers(found) for key, found in above.items()},
            "published fit up to d_h": fit_numbers(try_fit(stored, "linear", between(DIMS[0], HEAD_DIM))),
            "published fit beyond d_h": fit_numbers(try_fit(stored, "linear", between(HEAD_DIM, DIMS[-1]))),
        },
        dana.CHOICES,
    )


def _bend(name: str, below: Fit | None, above: Fit | None) -> Check:
    """Whether the slope up to d_h is larger than beyond, intervals apart."""
    holds = (
        below is not None
        and above is not None
        and below.coefficients["slope"].low > above.coefficients["slope"].high
    )
    return Check(
        f"a bend at d = d_h, {name}",
        f"{format_estimate(below, 'slope')} up to it, {format_estimate(above, 'slope')} beyond",
        "the first interval above the second",
        holds,
    )


def published_points() -> SeedValues:
    """The stored points."""
    return dana.stored_points("fig2a", "dim")


FIGURE = Figure(
    "dana-2024-fig2a",
    "DPC24",
    ("DPC24-F2a",),
    "DPC24 Figure 2a: accuracy by embedding dimension",
    "Accuracy grows linearly in d, faster up to d = d_h than beyond.",
    stages,
    compute,
)
