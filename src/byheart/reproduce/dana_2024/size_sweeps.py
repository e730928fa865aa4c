"""DPC24 Figures 1a, 1b, 2a and 4: accuracy along one size of the model, with the law the paper reads off it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from byheart.measure.fits import Fit, between
from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import SeedValues, fit_numbers, format_estimate, try_fit
from byheart.theorems import realises

R_SQUARED_LINE, R_SQUARED_PARABOLA = 0.98, 0.99  # the authors' stored points reach 0.992 and 0.998

Judgement = tuple[bool | None, str, dict[str, Any]]  # whether the rule holds, what was found, and its numbers
Judge = Callable[["SizeSweep", SeedValues, int], Judgement]


@dataclass(frozen=True)
class SizeSweep:
    """One figure: models of fixed `sizes` but for the one called `x`, and the rule that its curve is judged by."""

    name: str
    x: str
    x_label: str
    sizes: Mapping[str, int]
    values: Callable[[fig.Scale, dana.Way], tuple[int, ...]]
    judge: Judge
    stored: str = ""  # the name of the authors' points, where they stored some
    n_vocab: int = runs.N_VOCAB
    epochs: int = 10
    ways: tuple[dana.Way, ...] = runs.WAYS_WITH_MAPS
    checks: Callable[[SizeSweep, SeedValues, int], list[fig.Check]] = field(
        default=lambda sweep, found, n_vocab: []
    )

    def stages(self, scale: fig.Scale, samples: Samples | None = None) -> list[fig.TrainingStage]:
        """Every value in every way of the figure."""
        return runs.stages(
            self.name,
            scale,
            lambda variant, how, seed: [
                runs.run(
                    scale,
                    variant,
                    seed,
                    **{**self.sizes, self.x: value},
                    n_vocab=self.n_vocab,
                    how=how,
                    epochs=self.epochs,
                )
                for value in self.values(scale, (variant, how))
            ],
            self.ways,
        )

    def stored_points(self) -> SeedValues:
        fixed = {name: value for name, value in self.sizes.items() if self.stored == "fig1a_fig2b"}
        return dana.stored_points(self.stored, self.x, **fixed) if self.stored else SeedValues((), ())


@realises("DPC24-F1a", "DPC24-F1b", "DPC24-F2a", "DPC24-F4")
def compute(
    sweep: SizeSweep, scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts
) -> fig.Computed:
    """The curve of every way beside the stored points and both bounds; the rule decides on each."""
    here = dana.curves(observations, sweep.x, mlp_width=0, **sweep.sizes)
    n_vocab, stored = dana.n_vocab_of(observations), sweep.stored_points()
    trials, checks, tables = [], [], []
    numbers: dict[str, Any] = {}
    for way, found in here.items():
        holds, said, fits = sweep.judge(sweep, found, n_vocab)
        is_own = way == dana.OWN
        if is_own and not set(sweep.values(scale, way)) <= set(found.x):
            holds, said = None, f"{len(found.x)} of {len(sweep.values(scale, way))} points"
        trials.append(fig.ConditionResult(dana.LABELS[way][0], said, holds, is_own))
        numbers[dana.LABELS[way][0]] = fits
    own = here.get(dana.OWN)
    if own and dana.can_compare(scale):
        checks = sweep.checks(sweep, own, n_vocab)
        if stored:
            gaps = [(f"{sweep.x_label} = {x:g}", gap) for x, gap in dana.differences(own, stored)]
            check, table = dana.agreement(gaps, len(stored.x))
            checks, tables = [check, *checks], [table] if table.rows else []
            numbers[dana.AGREEMENT] = dana.within(gaps, len(stored.x))
            numbers["stored points"] = sweep.judge(sweep, stored, n_vocab)[2]
            tables.append(_agreement_by_way(here, stored))
    values = sorted({int(x) for found in here.values() for x in found.x})
    limits = _bounds(sweep, range(values[0], values[-1] + 1), n_vocab) if values else ()
    panel = dana.panel(_title(sweep), sweep.x_label, here, stored, scale, limits)
    return fig.Computed((panel,), tuple(trials), tuple(checks), tuple(tables), numbers, dana.CHOICES)


def _title(sweep: SizeSweep) -> str:
    words = {"dim": "d", "head_dim": "d_h", "n_heads": "H"}
    fixed = ", ".join(f"{words[name]} = {value}" for name, value in sweep.sizes.items())
    return f"Accuracy by {sweep.x_label}; {fixed}, {sweep.n_vocab} tokens"


def _bounds(sweep: SizeSweep, x: Sequence[int], n_vocab: int) -> tuple[fig.Series, ...]:
    repaired, mahdavi = dana.bounds(x, sweep.sizes, sweep.x, n_vocab)
    if sweep.sizes.get("dim", 10**9) >= sweep.sizes.get("head_dim", 0):
        return repaired, mahdavi
    # heads wider than d have rank d: the paper counts H·d_h + d, the repaired bound H·min(d, d_h) + d
    printed = tuple(
        dana.with_chance(h * e + d, n_vocab) for d, e, h in dana.bound_sizes(x, sweep.sizes, sweep.x)
    )
    return (
        fig.Series("Corollary 2 repaired, rank H·min(d, d_h) + d", "bound", repaired.x, repaired.y),
        fig.Series("Corollary 2 as printed, rank H·d_h + d", "bound2", repaired.x, printed),
    )


def _agreement_by_way(here: Mapping[dana.Way, SeedValues], stored: SeedValues) -> fig.Table:
    rows = []
    for way, found in here.items():
        gaps = [gap for _, gap in dana.differences(found, stored)]
        close = sum(abs(gap) <= dana.TOLERANCE for gap in gaps)
        mean = sum(gaps) / len(gaps) if gaps else float("nan")
        rows.append((dana.LABELS[way][0], f"{close} of {len(gaps)}", f"{mean:+.3f}"))
    heads = ("model and training", f"within {dana.TOLERANCE}", "mean difference")
    return fig.Table("Agreement with the stored points", heads, tuple(rows))


def _judge_line(sweep: SizeSweep, found: SeedValues, n_vocab: int) -> Judgement:
    """Figure 1a: a straight line, steeper than Corollary 2's d_h associations per head."""
    line = try_fit(found, "linear", dana.cut_off())
    if line is None:
        return None, "too few points for a line", {}
    slope = line.coefficients["slope"]
    least = sweep.sizes["head_dim"] * (1 - 1 / n_vocab) / n_vocab**2
    holds = line.r_squared >= R_SQUARED_LINE and slope.low > least
    said = f"slope {format_estimate(line, 'slope')} per head (the corollary: {least:.4f}), R² {line.r_squared:.3f}"
    return (
        holds,
        said,
        {"line": fit_numbers(line), "associations per head": dana.associations(slope.value, n_vocab)},
    )


def _judge_parabola(sweep: SizeSweep, found: SeedValues, n_vocab: int) -> Judgement:
    """Figure 1b: a parabola rather than a line."""
    parabola, line = (try_fit(found, law, dana.cut_off()) for law in ("quadratic", "linear"))
    if parabola is None or line is None:
        return None, "too few points for a law", {}
    holds = parabola.aicc < line.aicc and parabola.r_squared >= R_SQUARED_PARABOLA
    said = (
        f"{format_estimate(parabola, 'slope')}·d_h² + {parabola.coefficients['intercept'].value:.4f},"
        f" R² {parabola.r_squared:.4f} (a line: {line.r_squared:.4f})"
    )
    return holds, said, {"parabola": fit_numbers(parabola), "line": fit_numbers(line)}


def _judge_bend(sweep: SizeSweep, found: SeedValues, n_vocab: int) -> Judgement:
    """Figure 2a: steeper up to d = d_h than beyond."""
    bend = sweep.sizes["head_dim"]
    below, above = (try_fit(found, "linear", between(*ends)) for ends in ((0, bend), (bend, 10 * bend)))
    numbers = {"up to d_h": fit_numbers(below), "beyond d_h": fit_numbers(above)}
    if below is None or above is None:
        return None, "too few points on a side of the bend", numbers
    holds = below.coefficients["slope"].low > above.coefficients["slope"].high
    said = f"slope {format_estimate(below, 'slope')} up to d_h, {format_estimate(above, 'slope')} beyond"
    return holds, said, numbers


def _judge_rate(sweep: SizeSweep, found: SeedValues, n_vocab: int) -> Judgement:
    """Figure 4: more than d_h associations per head."""
    line = try_fit(found, "linear", dana.cut_off())
    if line is None:
        return None, "too few points for a line", {}
    rate, low, high = _rates(sweep, line, n_vocab)
    said = f"{rate:.2f} [{low:.2f}, {high:.2f}] d_h associations per head"
    return low > 1, said, {"line": fit_numbers(line), "associations per head, in d_h": [rate, low, high]}


def _rates(sweep: SizeSweep, line: Fit, n_vocab: int) -> tuple[float, float, float]:
    slope = line.coefficients["slope"]
    rate, low, high = (
        dana.associations(value, n_vocab) / sweep.sizes["head_dim"]
        for value in (slope.value, slope.low, slope.high)
    )
    return rate, low, high


def _check_slope(sweep: SizeSweep, found: SeedValues, n_vocab: int) -> list[fig.Check]:
    ours, theirs = (try_fit(one, "linear", dana.cut_off()) for one in (found, sweep.stored_points()))
    assert theirs is not None
    wanted = theirs.coefficients["slope"].value
    value = None if ours is None else ours.coefficients["slope"].value
    holds = value is not None and abs(value - wanted) <= 0.15 * wanted
    return [
        fig.Check(
            "slope per head",
            format_estimate(ours, "slope"),
            f"within 15% of the authors' {wanted:.4f}",
            holds,
        )
    ]


def _check_rate(sweep: SizeSweep, found: SeedValues, n_vocab: int) -> list[fig.Check]:
    line = try_fit(found, "linear", dana.cut_off())
    rate = float("nan") if line is None else _rates(sweep, line, n_vocab)[0]
    bounds = {
        one.label: dict(zip(one.x, one.y, strict=True)) for one in _bounds(sweep, range(1, 32), n_vocab)
    }
    checks = [
        fig.Check(
            "the paper's rate", f"{rate:.2f} d_h", "within 25% of 1.7 d_h", abs(rate - 1.7) <= 0.25 * 1.7
        )
    ]
    for label, at in bounds.items():
        n_above = sum(mean >= at[x] for x, mean in zip(found.x, found.means, strict=True))
        checks.append(
            fig.Check(
                f"every point above {label}", f"{n_above} of {len(found.x)}", "all", n_above == len(found.x)
            )
        )
    return checks


def _figure4_heads(scale: fig.Scale, way: dana.Way) -> tuple[int, ...]:
    if scale == "paper" and way == dana.OWN:
        return tuple(range(1, 22, 2))
    return runs.thin((1, 5, 9, 13, 17, 21), scale)


_HEADS = SizeSweep(
    "fig1a",
    "n_heads",
    "heads H",
    {"dim": 10, "head_dim": 10},
    lambda scale, way: runs.heads_at(scale, *way),
    _judge_line,
    "fig1a_fig2b",
    ways=(dana.OWN, ("as-written", "adam"), ("as-coded", "lbfgs")),
    checks=_check_slope,
)
_HEAD_DIMS = SizeSweep(
    "fig1b",
    "head_dim",
    "head dimension d_h",
    {"dim": 10, "n_heads": 20},
    lambda scale, way: runs.thin(range(1, 11), scale),
    _judge_parabola,
    "fig1b",
)
_DIMS = SizeSweep(
    "fig2a",
    "dim",
    "embedding dimension d",
    {"head_dim": 10, "n_heads": 20},
    lambda scale, way: runs.thin(range(5, 16), scale),
    _judge_bend,
    "fig2a",
)
_NARROW = SizeSweep(
    "fig4",
    "n_heads",
    "heads H",
    {"dim": 2, "head_dim": 5},
    _figure4_heads,
    _judge_rate,
    n_vocab=10,
    epochs=15,
    checks=_check_rate,
)


def _figure(sweep: SizeSweep, statement: str, title: str, claim: str, rule: str) -> fig.Figure:
    name = f"dana-2024-{sweep.name}"
    return fig.Figure(name, "DPC24", (statement,), title, claim, rule, sweep.stages, partial(compute, sweep))


FIGURES = (
    _figure(
        _HEADS,
        "DPC24-F1a",
        "DPC24 Figure 1a: accuracy by number of heads",
        "Accuracy grows linearly with the number of heads at fixed d_h, faster than Corollary 1 promises.",
        f"Up to the first accuracy above 0.95 a line has R² of at least {R_SQUARED_LINE} (the authors' points: 0.992), and the"
        " interval of its slope lies above the corollary's d_h associations a head.",
    ),
    _figure(
        _HEAD_DIMS,
        "DPC24-F1b",
        "DPC24 Figure 1b: accuracy by head dimension",
        "Accuracy grows quadratically with the head dimension.",
        "a + b·d_h² has the smaller AICc than a + b·d_h on the points up to the first above 0.95, and R² of at least"
        f" {R_SQUARED_PARABOLA} (the authors' points: 0.998).",
    ),
    _figure(
        _DIMS,
        "DPC24-F2a",
        "DPC24 Figure 2a: accuracy by embedding dimension",
        "Accuracy grows linearly in d, faster up to d = d_h than beyond.",
        "The interval of the slope up to d = d_h lies above that of the slope beyond (the authors' points: 0.098 and 0.014).",
    ),
    _figure(
        _NARROW,
        "DPC24-F4",
        "DPC24 Figure 4: accuracy by number of heads at d = 2",
        "At d = 2 training memorises about 1.7 H·d_h associations, more than Corollary 2 promises.",
        "Up to the first accuracy above 0.95 the interval of the associations gained per head lies above the corollary's d_h.",
    ),
)
