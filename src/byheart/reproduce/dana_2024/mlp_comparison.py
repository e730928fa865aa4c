"""Figure 3 and section 4.2.1 of DPC24 (Dana, Pydi & Chevaleyre 2024): compare models of several heads without an MLP with models of
one head and an MLP, at equal numbers of parameters.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from byheart.measure.fits import mean_interval
from byheart.measure.records import Run
from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.published import dana_2024
from byheart.reproduce.seed_values import SeedValues, gather, series
from byheart.theorems import realises

TOLERANCE = 0.05
WAYS: tuple[dana.Way, ...] = (
    ("as-coded", "adam"),
    ("as-written", "adam"),
    ("as-coded", "longer"),
    ("as-coded", "longest"),
)
DIMS: dict[fig.Scale, tuple[int, ...]] = {"smoke": (7,), "laptop": (7,), "paper": (7, 10, 13)}
# The authors' MLP widths w replace H - 1 heads of 4d² weights each: 2dw = 4d²(H - 1), without biases. d = 5
# is stored, but not drawn.
STORED_DIMS: dict[fig.Scale, tuple[int, ...]] = {"smoke": (7,), "laptop": (7,), "paper": (7, 10, 13, 5)}
STYLES: dict[int, fig.Style] = {5: "sixth", 7: "measured", 10: "second", 13: "fifth"}  # a colour for each d


def matched_width(dim: int, n_heads: int) -> int:
    """Return the width of an MLP that has about as many parameters as the `n_heads` - 1 heads that it replaces.

    With d = `dim`, an MLP of width w has 2dw + w parameters, and a head has 4d².
    """
    return round(4 * dim * dim * (n_heads - 1) / (2 * dim + 1))


def stored_heads(dim: int) -> tuple[int, ...]:
    """Return the numbers of heads with which the authors' MLPs are compared: 1, 6, ..., 26 if d = 7, otherwise 2, 7, ..., 27."""
    return tuple(n if dim == 7 else n + 1 for n in runs.HEADS)


def stages(scale: fig.Scale, samples: Samples | None = None) -> list[fig.TrainingStage]:
    """Return the stages of training.

    The first stages train models without an MLP and models with an MLP, at the authors' sizes. For each kind, they use the version
    of the code that the authors used for it. The other stages train both kinds with the same version of the code. There are none at
    scale `laptop`. At scale `paper`, some of them train for 4 and 16 times as many steps.
    """

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

    def at_stored_sizes(is_mlp: bool) -> Callable[[runs.Variant, runs.How, int], list[Run]]:
        return lambda variant, how, seed: [
            runs.run(scale, variant, seed, dim=d, head_dim=d, how=how, **sizes)
            for d in STORED_DIMS[scale]
            for n in runs.thin(stored_heads(d), scale)
            for sizes in (
                {"n_heads": 1, "mlp_width": 2 * d * (n - 1)} if is_mlp else {"n_heads": n, "mlp_width": 0},
            )
        ]

    def heads(variant: runs.Variant, how: runs.How, seed: int) -> list[Run]:
        return [
            runs.run(scale, variant, seed, dim=d, head_dim=d, n_heads=n, how=how)
            for d in DIMS[scale]
            for n in runs.thin(runs.HEADS, scale)
        ]

    maps: tuple[dana.Way, ...] = (("maps-always", "adam"),)
    return [
        *runs.stages("fig3, heads", scale, heads, [("layer-norm", "adam")]),
        *runs.stages("fig3, MLPs", scale, at_stored_sizes(True), maps),
        *(
            runs.stages("fig3, heads", scale, at_stored_sizes(False), maps, most_seeds=5, later=1)
            if scale != "laptop"
            else []
        ),
        *runs.stages("fig3", scale, both, WAYS, most_seeds=5, later=1),
    ]


AS_DRAWN = "heads as coded in August, MLPs in September 2024"
EQUAL = "heads and MLPs as coded in September 2024"


@realises("DPC24-F3", "DPC24-S4.2.1")
def compute(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """Compute the accuracy of models with and without an MLP as a function of the number of parameters.

    The verdict depends on the accuracy with an MLP minus the accuracy without one, at equal numbers of parameters, averaged over
    sizes and seeds.
    """
    # how the heads and how the MLPs were trained, and whether the MLPs have the authors' widths
    sides: dict[str, tuple[dana.Way, dana.Way, bool]] = {
        AS_DRAWN: (dana.AUGUST, dana.SEPTEMBER, True),
        EQUAL: (dana.SEPTEMBER, dana.SEPTEMBER, True),
        **{dana.LABELS[way][0]: (way, way, False) for way in WAYS},
    }
    panels, trials, rows, numbers = [], [], [], dict[str, Any]()
    for name, (heads, mlps, is_stored) in sides.items():
        drawn: list[fig.Series] = []
        for dim in STORED_DIMS[scale] if is_stored else DIMS[scale]:
            mine = [one for one in observations if one.sizes["dim"] == dim == one.sizes["head_dim"]]
            at_heads = gather(
                [one for one in mine if dana.is_of(one, heads) and not one.sizes["mlp_width"]],
                _heads,
                runs.accuracy,
            )
            wide = [one for one in mine if dana.is_of(one, mlps) and _is_mlp(one, dim, is_stored=is_stored)]
            at_mlps = gather(wide, lambda one: one.sizes["mlp_width"], runs.accuracy)
            gaps = differences(at_heads, at_mlps, dim, is_stored=is_stored)
            if not gaps:
                continue
            condition = f"{name}, d = {dim}"
            mean, (low, high) = statistics.fmean(gaps), mean_interval(gaps)
            said = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
            is_own = name == AS_DRAWN and dim in DIMS[scale]
            trials.append(fig.ConditionResult(condition, said, abs(mean) <= TOLERANCE, is_own))
            rows.append((condition, said, str(len(gaps))))
            numbers[condition] = {"MLP less attention": [mean, low, high], "seeds": len(gaps)}
            drawn += _drawn(dim, at_heads, at_mlps, scale if name == AS_DRAWN else "smoke")
        if drawn:
            axis = "parameters, by the paper's count"
            panels.append(
                fig.Panel(name[0].upper() + name[1:], axis, "accuracy", tuple(drawn), y_range=(0.0, 1.0))
            )
    tried = {trial.condition for trial in trials}
    lacking = [d for d in DIMS[scale] if f"{AS_DRAWN}, d = {d}" not in tried]
    checks, tables = (
        [],
        [fig.Table("Accuracy of the MLP minus that of the heads", ("", "mean", "seeds"), tuple(rows))],
    )
    if dana.can_compare(scale):
        by_name = [
            (f"d = {d}, w = {x:g}", gap) for d in STORED_DIMS[scale] for x, gap in _to_stored(observations, d)
        ]
        check, table = dana.agreement(by_name, len(dana_2024("fig3")))
        checks, tables = [check], [*tables, table]
        numbers[dana.AGREEMENT] = dana.within(by_name, len(dana_2024("fig3")))
    return fig.Computed(
        tuple(panels),
        tuple(trials),
        tuple(checks),
        tuple(tables),
        numbers,
        (
            *dana.CHOICES,
            (
                "Parameters are counted as in the paper: 4d² per head, 2dw for the MLP, 2d(N + 1) for N tokens and two positions."
                " Maps and biases are left out."
            ),
            (
                "An MLP of the authors' width w replaces H - 1 heads, where 2dw = 4d²(H - 1). If no model has this number of heads,"
                " accuracy is interpolated."
            ),
            (
                "For the code of 2025 and the model as written, the MLP has, as nearly as possible, as many parameters (including"
                " biases) as the heads that it replaces."
            ),
        ),
        counter=_counter(numbers, DIMS[scale]),
        missing=f"Runs at d = {', '.join(map(str, lacking))} are missing." if lacking else "",
    )


def _heads(one: Observation) -> int:
    return one.sizes["n_heads"]


def _is_mlp(one: Observation, dim: int, *, is_stored: bool) -> bool:
    """Return whether a run counts as a run of a model with an MLP.

    If `is_stored`, a run counts if its model has one head and one of the authors' MLP widths. For d = 7, one of these widths is
    0, so a model without an MLP counts too. If `is_stored` is false, a run counts if its MLP width is not 0.
    """
    width, heads = one.sizes["mlp_width"], one.sizes["n_heads"]
    if is_stored:
        return heads == 1 and width in {2 * dim * (n - 1) for n in stored_heads(dim)}
    return width > 0


def differences(heads: SeedValues, mlps: SeedValues, dim: int, *, is_stored: bool) -> list[float]:
    """For each seed, return the accuracy of the models with an MLP minus that of the models with heads, averaged over the MLP
    widths.

    Each MLP is compared with the number of heads that it replaces. The accuracy with this many heads is interpolated between the
    numbers of heads that were trained; MLPs that replace fewer or more heads are left out. If there are fewer than two numbers of
    heads or fewer than two MLP widths, return an empty list.
    """
    if len(heads.x) < 2 or len(mlps.x) < 2:
        return []
    n_seeds = min(len(values) for values in (*heads.values, *mlps.values))
    counts = {matched_width(dim, n): float(n) for n in range(2, 32)}
    found = []
    for seed in range(n_seeds):
        gaps = []
        for width, values in zip(mlps.x, mlps.values, strict=True):
            count = 1 + width / (2 * dim) if is_stored else counts.get(int(width), math.inf)
            if heads.x[0] <= count <= heads.x[-1]:
                gaps.append(values[seed] - np.interp(count, heads.x, [at[seed] for at in heads.values]))
        found.append(float(np.mean(gaps)))
    return found


def paper_count(dim: int, n_heads: float, mlp_width: float) -> float:
    """Return the number of parameters as the paper counts them, for 50 tokens."""
    return 4 * dim * dim * n_heads + 2 * dim * mlp_width + 2 * dim * (runs.N_VOCAB + 1)


def _drawn(dim: int, heads: SeedValues, mlps: SeedValues, scale: fig.Scale) -> list[fig.Series]:
    """Return the lines for dimension `dim` as the paper draws them: heads dashed and MLPs solid, both in the colour of this
    dimension.

    Add the authors' points if runs at this scale can be compared with them.
    """
    style = STYLES[dim]

    def at(label: str, found: SeedValues, line: fig.Line, is_mlp: bool) -> fig.Series:
        x = tuple(paper_count(dim, 1, x) if is_mlp else paper_count(dim, x, 0) for x in found.x)
        return replace(series(label, style, SeedValues(x, found.values)), line=line)

    found = [at(f"d = {dim}, heads", heads, "dashed", False), at(f"d = {dim}, MLP", mlps, "solid", True)]
    if dana.can_compare(scale):
        stored = dana.stored_points("fig3", "mlp_width", dim=dim)
        found.append(at(f"d = {dim}, the authors' MLPs", stored, "points", True))
    return found


def _to_stored(observations: Sequence[Observation], dim: int) -> list[tuple[float, float]]:
    """Compare our models that have one head, an MLP and d = `dim` with the points that the authors stored for such models.

    Return one pair for each stored point: its MLP width, and our mean accuracy at this width minus the authors' accuracy. Points
    with an MLP width that we did not train are left out.
    """
    mine = [one for one in observations if dana.is_of(one, dana.SEPTEMBER) and one.sizes["n_heads"] == 1]
    at = gather(
        [one for one in mine if one.sizes["dim"] == dim == one.sizes["head_dim"]],
        lambda one: one.sizes["mlp_width"],
        runs.accuracy,
    )
    return dana.differences(at, dana.stored_points("fig3", "mlp_width", dim=dim))


def _counter(numbers: Mapping[str, Any], dims: Sequence[int]) -> str:
    """Return the best argument against the verdict: the figure compares heads of one version of the model with MLPs of another.

    The text gives the differences in accuracy for this comparison, and for heads and MLPs of the same version.
    """
    found = {
        name: [
            numbers[f"{name}, d = {d}"]["MLP less attention"][0]
            for d in dims
            if f"{name}, d = {d}" in numbers
        ]
        for name in (AS_DRAWN, EQUAL)
    }
    if not all(found.values()):
        return ""
    drawn, equal = (", ".join(f"{gap:+.3f}" for gap in gaps) for gaps in found.values())
    return (
        "The figure compares two different models: its heads have a layer norm and 5,000 steps; its MLPs have shared maps and"
        f" 10,000 steps. The accuracy of the MLP minus that of the heads, at d = {', '.join(map(str, dims))}, is {drawn} as drawn,"
        f" and {equal} if both have shared maps and 10,000 steps."
    )


FIGURES = (
    fig.Figure(
        "dana-2024-fig3",
        "DPC24",
        ("DPC24-F3", "DPC24-S4.2.1"),
        "DPC24 Figure 3: attention alone against an MLP, at equal numbers of parameters",
        "Attention alone and one head with an MLP reach the same accuracy at the same number of parameters.",
        "As the authors drew it: heads from the code of August 2024 (the points of Figure 2b), and MLPs of the authors' widths from"
        " the code of September 2024; d = d_h = 7, 10, 13.",
        "For every d, the accuracy of the MLP minus that of the heads that it replaces, averaged over sizes and seeds, is within"
        f" ±{TOLERANCE}.",
        stages,
        compute,
        measured=runs.MEASURED,
    ),
)
