"""DPC24 Figure 3 and section 4.2.1: attention alone against one head and an MLP, at equal numbers of parameters."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from byheart.measure.fits import mean_interval
from byheart.measure.records import Run
from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import gather, series
from byheart.theorems import realises

TOLERANCE = 0.05
WAYS: tuple[dana.Way, ...] = (
    dana.OWN,
    ("as-written", "adam"),
    ("as-coded", "longer"),
    ("as-coded", "longest"),
)
DIMS: dict[fig.Scale, tuple[int, ...]] = {"smoke": (7,), "laptop": (7, 10), "paper": (7, 10, 13)}
STYLES: dict[int, tuple[fig.Style, fig.Style]] = {
    7: ("measured", "third"),
    10: ("second", "fourth"),
    13: ("fifth", "sixth"),
}


def matched_width(dim: int, n_heads: int) -> int:
    """The MLP width whose 2dw + w parameters are nearest to those of the n_heads - 1 heads it stands for, 4d² each."""
    return round(4 * dim * dim * (n_heads - 1) / (2 * dim + 1))


def stages(scale: fig.Scale, samples: Samples | None = None) -> list[fig.TrainingStage]:
    """Numbers of heads and MLPs of the same size, d = d_h = 7, 10, 13; then for 4 and 16 times the steps."""

    def both(variant: runs.Variant, how: runs.How, seed: int) -> list[Run]:
        found = []
        for d in DIMS[scale]:
            for n in runs.heads_at(scale, variant, how, d):
                found.append(runs.run(scale, variant, seed, dim=d, head_dim=d, n_heads=n, how=how))
                if n > 1:
                    width = matched_width(d, n)
                    found.append(
                        runs.run(scale, variant, seed, dim=d, head_dim=d, n_heads=1, mlp_width=width, how=how)
                    )
        return found

    return runs.stages("fig3", scale, both, WAYS, most_seeds=5, later=1)


@realises("DPC24-F3", "DPC24-S4.2.1")
def compute(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """Accuracy by parameters of both kinds of model, and their difference at equal parameters, seed by seed."""
    panels, trials, rows, numbers = [], [], [], {}
    for way in WAYS:
        drawn: list[fig.Series] = []
        for dim in DIMS[scale]:
            mine = [one for one in observations if dana.way_of(one) == way and one.sizes["dim"] == dim]
            gaps = differences(mine, dim)
            if not gaps:
                continue
            condition = f"{dana.LABELS[way][0]}, d = {dim}"
            mean, (low, high) = statistics.fmean(gaps), mean_interval(gaps)
            said = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
            trials.append(fig.ConditionResult(condition, said, abs(mean) <= TOLERANCE, way == dana.OWN))
            rows.append((condition, said, str(len(gaps))))
            numbers[condition] = {"MLP less attention": [mean, low, high], "pairs": len(gaps)}
            for is_mlp, label, style in zip((False, True), ("heads", "MLP"), STYLES[dim], strict=True):
                kind = [one for one in mine if (one.sizes["mlp_width"] > 0) == is_mlp]
                at = gather(kind, lambda one: one.n_parameters, runs.accuracy)
                drawn.append(series(f"d = {dim}, {label}", style, at))
        if drawn:
            panels.append(fig.Panel(dana.LABELS[way][0].capitalize(), "parameters", "accuracy", tuple(drawn)))
    tried = {trial.condition for trial in trials}
    lacking = [d for d in DIMS[scale] if f"{dana.LABELS[dana.OWN][0]}, d = {d}" not in tried]
    return fig.Computed(
        tuple(panels),
        tuple(trials),
        tables=(fig.Table("Accuracy of the MLP less that of the heads", ("", "mean", "pairs"), tuple(rows)),),
        numbers=numbers,
        choices=(*dana.CHOICES, "MLP widths are those whose parameters equal the heads they replace."),
        missing=f"Runs at d = {', '.join(map(str, lacking))} are missing." if lacking else "",
    )


def differences(observations: Sequence[Observation], dim: int) -> list[float]:
    """Accuracy of each MLP less that of the heads it stands for, same seed and labels."""
    found = {
        (one.sizes["mlp_width"], one.sizes["n_heads"], one.seed): runs.accuracy(one) for one in observations
    }
    pairs = [
        ((matched_width(dim, n_heads), 1, seed), accuracy)
        for (mlp_width, n_heads, seed), accuracy in found.items()
        if not mlp_width and n_heads > 1
    ]
    return [found[mlp] - accuracy for mlp, accuracy in pairs if mlp in found]


FIGURES = (
    fig.Figure(
        "dana-2024-fig3",
        "DPC24",
        ("DPC24-F3", "DPC24-S4.2.1"),
        "DPC24 Figure 3: attention alone against an MLP, by parameters",
        "Attention alone and one head with an MLP reach the same accuracy at the same number of parameters.",
        f"The mean accuracy of the MLP less that of the heads it replaces, over sizes and seeds, is within ±{TOLERANCE}, every d.",
        stages,
        compute,
    ),
)
