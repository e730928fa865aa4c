"""DPC24 Figure 4: accuracy by number of heads at d = 2, d_h = 5 and 10 tokens, against Corollary 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from byheart.measure.records import Record
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs as runs
from byheart.reproduce.figure import Check, Computed, Figure, Panel, Scale, Series, Stage
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import SeedValues, fit_numbers, judged, series, try_fit
from byheart.theorems import realises

DIM, HEAD_DIM, N_VOCAB, EPOCHS = 2, 5, 10, 15
HEADS = (1, 5, 9, 13, 17, 21)


def heads_at(scale: Scale, variant: runs.Variant, how: runs.How) -> tuple[int, ...]:
    """Every second number of heads as coded at the paper's scale, else the paper's."""
    if scale == "paper" and (variant, how) == ("as-coded", "adam"):
        return tuple(range(1, 22, 2))
    return runs.thin(HEADS, scale)


def stages(scale: Scale, samples: Samples | None = None) -> list[Stage]:
    """Heads 1, 5, ..., 21 in both readings of the model, and by L-BFGS."""
    return runs.sweep(
        "fig4",
        scale,
        lambda variant, how: heads_at(scale, variant, how),
        lambda heads: {"dim": DIM, "head_dim": HEAD_DIM, "n_heads": heads},
        runs.WAYS_WITH_MAPS,
        n_vocab=N_VOCAB,
        epochs=EPOCHS,
    )


@realises("DPC24-F4")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """Accuracy by heads at d = 2, beside Corollary 2 as printed and as repaired, rank H·min(d, d_h) + d."""
    here = dana.curves(records, "n_heads", dim=DIM, head_dim=HEAD_DIM, mlp_width=0)
    n_vocab = dana.n_vocab_of(records)
    repaired, _ = dana.bounds(range(1, 22), n_vocab, dim=DIM, head_dim=HEAD_DIM, n_heads=None)
    printed = Series(
        "Corollary 2 as printed, rank H·d_h + d",
        "bound2",
        repaired.x,
        tuple(_printed(h, n_vocab) for h in range(1, 22)),
    )
    repaired = replace(repaired, label="Corollary 2 repaired, rank H·min(d, d_h) + d")
    fits = {key: try_fit(found, "linear", dana.cut_off()) for key, found in here.items()}
    coded, line = here.get(("as-coded", "adam")), fits.get(("as-coded", "adam"))
    checks = []
    if coded and line is not None and dana.can_compare(scale):
        per_head = associations_per_head(line.coefficients["slope"].value, n_vocab)
        checks = [
            _above("above the repaired bound", coded, repaired),
            _above("above the printed bound", coded, printed),
            Check(
                "faster than Corollary 2 as printed",
                f"{per_head:.1f} associations per head, {per_head / HEAD_DIM:.2f} d_h",
                "above d_h (the paper reports 1.7 d_h)",
                per_head > HEAD_DIM,
            ),
        ]
    words = [
        f"{dana.LABELS[key][0]}: {associations_per_head(found.coefficients['slope'].value, n_vocab) / HEAD_DIM:.2f} d_h"
        for key, found in fits.items()
        if found is not None
    ]
    panel = Panel(
        "Accuracy by number of heads, d = 2, d_h = 5, 10 tokens",
        "heads H",
        "accuracy",
        (*(series(*dana.LABELS[key], found) for key, found in here.items()), repaired, printed),
    )
    return Computed(
        (panel,),
        judged(
            scale,
            checks,
            "Associations gained per head, up to the first accuracy above 0.95. " + "; ".join(words) + ".",
            is_complete=coded is not None and set(heads_at(scale, "as-coded", "adam")) <= set(coded.x),
        ),
        {"fits": {" ".join(key): fit_numbers(found) for key, found in fits.items()}},
        (
            *dana.CHOICES,
            "The paper's bound counts H·d_h + d; heads wider than d have rank d, so it is repaired.",
        ),
    )


def associations_per_head(slope: float, n_vocab: int) -> float:
    """Accuracy is 1/N + (1 - 1/N) memorised/N², so a slope is worth so many associations."""
    return slope * n_vocab**2 / (1 - 1 / n_vocab)


def _printed(n_heads: int, n_vocab: int) -> float:
    chance = 1 / n_vocab
    return chance + (1 - chance) * min(1.0, (n_heads * HEAD_DIM + DIM) / n_vocab**2)


def _above(name: str, found: SeedValues, bound: Series) -> Check:
    pairs = [(mean, bound.y[bound.x.index(x)]) for x, mean in zip(found.x, found.means, strict=True)]
    n_above = sum(mean >= least for mean, least in pairs)
    return Check(name, f"{n_above} of {len(pairs)} points", "all", n_above == len(pairs))


FIGURE = Figure(
    "dana-2024-fig4",
    "DPC24",
    ("DPC24-F4",),
    "DPC24 Figure 4: accuracy by number of heads at d = 2",
    "At d = 2 training memorises about 1.7 H·d_h associations, more than Corollary 2 promises.",
    stages,
    compute,
)
