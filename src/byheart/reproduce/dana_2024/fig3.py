"""DPC24 Figure 3 and section 4.2.1: attention alone against one head and an MLP, at equal numbers of parameters."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from byheart.measure.capacity import student_half_width
from byheart.measure.records import Record
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs as runs
from byheart.reproduce.figure import Check, Computed, Figure, Panel, Scale, Stage
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import SeedValues, judged, points, series
from byheart.theorems import realises

TOLERANCE = 0.05
WAYS: tuple[tuple[runs.Variant, runs.How], ...] = (
    ("as-coded", "adam"),
    ("as-written", "adam"),
    ("as-coded", "longer"),
    ("as-coded", "longest"),
)
DIMS: dict[Scale, tuple[int, ...]] = {"smoke": (7,), "laptop": (7, 10), "paper": (7, 10, 13)}


def matched_width(dim: int, n_heads: int) -> int:
    """The MLP width whose 2dw + w parameters are nearest to those of the n_heads - 1 heads it stands for, 4d² each."""
    return round(4 * dim * dim * (n_heads - 1) / (2 * dim + 1))


def stages(scale: Scale, samples: Samples | None = None) -> list[Stage]:
    """Numbers of heads and MLPs of the same size, d = d_h = 7, 10, 13; then for 4 and 16 times the steps."""

    def both(variant: runs.Variant, how: runs.How, seed: int) -> list[runs.Run]:
        found = []
        for d in DIMS[scale]:
            heads = runs.heads_at(scale, variant, how, d)
            found += [runs.run(scale, variant, seed, dim=d, head_dim=d, n_heads=n, how=how) for n in heads]
            found += [
                runs.run(
                    scale, variant, seed, dim=d, head_dim=d, n_heads=1, mlp_width=matched_width(d, n), how=how
                )
                for n in heads
                if n > 1
            ]
        return found

    return runs.stages("fig3", scale, both, WAYS, most_seeds=5, later=1)


@realises("DPC24-F3", "DPC24-S4.2.1")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """Accuracy by parameters of both kinds of model, and their difference at equal parameters, seed by seed."""
    panels, numbers, checks, words = [], {}, [], []
    for variant, how in WAYS:
        for dim in DIMS[scale]:
            heads, mlps = (_curve(records, variant, how, dim, mlp=mlp) for mlp in (False, True))
            gaps = differences(records, variant, how, dim)
            if not mlps or not gaps:
                continue
            label = f"{variant.replace('-', ' ')}, d = {dim}" + (
                f", {runs.TIMES[how]} times the steps" if how != "adam" else ""
            )
            panels.append(
                Panel(
                    f"Attention alone against an MLP, {label}",
                    "parameters",
                    "accuracy",
                    (
                        series("attention alone", "measured", heads),
                        series("one head and MLP", "second", mlps),
                    ),
                )
            )
            mean = statistics.fmean(gaps)
            half = student_half_width(gaps) if len(gaps) > 1 else math.nan
            numbers[label] = {"MLP less attention": [mean, mean - half, mean + half], "pairs": len(gaps)}
            words.append(f"{label}: {mean:+.3f} ± {half:.3f}")
            if variant == "as-coded" and how == "adam" and scale != "smoke":
                checks.append(
                    Check(
                        f"equal accuracy at equal parameters, {label}",
                        f"MLP less attention {mean:+.3f} ± {half:.3f} over {len(gaps)} pairs",
                        f"within ±{TOLERANCE}",
                        abs(mean) <= TOLERANCE,
                    )
                )
    because = "Accuracy of the MLP less that of attention alone at equal parameters, averaged over sizes and seeds. "
    return Computed(
        tuple(panels),
        judged(scale, checks, because + "; ".join(words) + ".", is_complete=len(checks) == len(DIMS[scale])),
        numbers,
        (*dana.CHOICES, "MLP widths are those whose parameters equal the heads they replace."),
    )


def _chosen(records: Sequence[Record], variant: runs.Variant, how: runs.How, dim: int) -> list[Record]:
    return [
        record
        for record in records
        if record.config["options"]["variant"] == variant
        and runs.how_trained(record) == how
        and record.config["sizes"]["dim"] == dim
    ]


def _curve(
    records: Sequence[Record], variant: runs.Variant, how: runs.How, dim: int, *, mlp: bool
) -> SeedValues:
    chosen = [r for r in _chosen(records, variant, how, dim) if (r.config["sizes"]["mlp_width"] > 0) == mlp]
    return points(chosen, lambda record: record.n_parameters, runs.accuracy)


def differences(records: Sequence[Record], variant: runs.Variant, how: runs.How, dim: int) -> list[float]:
    """Accuracy of each MLP less that of the heads it stands for, same seed and labels."""
    chosen = _chosen(records, variant, how, dim)
    heads = {
        (r.config["sizes"]["n_heads"], r.config["seed"]): runs.accuracy(r)
        for r in chosen
        if r.config["sizes"]["mlp_width"] == 0
    }
    mlps = {
        (r.config["sizes"]["mlp_width"], r.config["seed"]): runs.accuracy(r)
        for r in chosen
        if r.config["sizes"]["mlp_width"] > 0
    }
    return [
        mlps[matched_width(dim, n_heads), seed] - accuracy
        for (n_heads, seed), accuracy in heads.items()
        if (matched_width(dim, n_heads), seed) in mlps
    ]


FIGURE = Figure(
    "dana-2024-fig3",
    "DPC24",
    ("DPC24-F3", "DPC24-S4.2.1"),
    "DPC24 Figure 3: attention alone against an MLP, by parameters",
    "Attention alone and one head with an MLP reach the same accuracy at the same number of parameters.",
    stages,
    compute,
)
