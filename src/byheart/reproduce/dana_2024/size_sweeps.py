"""Figures 1a, 1b, 2a and 4 of DPC24 (Dana, Pydi & Chevaleyre 2024): accuracy as a function of one size of the model, with the law
that the paper reads from the curve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.dana_2024 import runs
from byheart.reproduce.dana_2024.judgements import (
    EVIDENCE,
    LEAD,
    R_SQUARED,
    Judge,
    judge_bend,
    judge_line,
    judge_parabola,
    judge_rate,
    rates,
)
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import SeedValues, format_estimate, try_fit
from byheart.theorems import realises


@dataclass(frozen=True)
class SizeSweep:
    """A figure in which one size of the model varies. `x` is the name of this size, and `sizes` fixes the other sizes.

    `values` returns the values of `x` to train. The figure has one curve for each element of `ways`, a pair of a model variant and
    a way of training. `judge` is the rule that decides whether a curve supports the claim.
    """

    name: str
    x: str
    x_label: str
    sizes: Mapping[str, int]
    values: Callable[[fig.Scale, dana.Way], tuple[int, ...]]
    judge: Judge
    own: dana.Way  # the version of the authors' code that made the figure's points
    counter: Callable[[Mapping[str, Any]], str]  # returns the counter-argument, given the figure's numbers
    stored: str  # the name of the authors' points
    n_vocab: int = runs.N_VOCAB
    epochs: int = 10
    ways: tuple[dana.Way, ...] = runs.WAYS_WITH_MAPS
    checks: Callable[[SizeSweep, SeedValues, int], list[fig.Check]] = field(
        default=lambda sweep, found, n_vocab: []
    )

    def stages(self, scale: fig.Scale, samples: Samples | None = None) -> list[fig.TrainingStage]:
        """Return the training stages. Each stage trains one variant of the model in one way of training (an element of `ways`),
        at every value of the varied size.
        """
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
        return dana.stored_points(self.stored, self.x, **fixed)


@realises("DPC24-F1a", "DPC24-F1b", "DPC24-F2a", "DPC24-F4")
def compute(
    sweep: SizeSweep, scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts
) -> fig.Computed:
    """Compute a curve for every way of training, and decide for each curve whether it supports the claim.

    Also draw two lower bounds on the accuracy: those of two papers or, in Figure 4, Corollary 2 of DPC24 as printed and as
    repaired. Except at scale `smoke`, also draw the points that the authors stored.
    """
    here = dana.curves(observations, sweep.ways, sweep.x, mlp_width=0, **sweep.sizes)
    n_vocab, stored = dana.n_vocab_of(observations), sweep.stored_points()
    trials, checks, tables = [], [], []
    numbers: dict[str, Any] = {}
    drawn: list[fig.Series] = []
    for way, found in sorted(here.items(), key=lambda item: item[0] != sweep.own):
        label, is_own = dana.LABELS[way][0], way == sweep.own
        wanted = set(sweep.values(scale, way))
        numbers[label] = {}
        for one in sweep.judge(sweep.sizes, found, n_vocab):
            holds, said = one.holds, one.found
            if is_own and not wanted <= set(found.x):
                holds, said = None, f"only {len(found.x)} of {len(wanted)} sizes were trained"
            trials.append(fig.ConditionResult(label, said, holds, is_own, one.claim))
            numbers[label] |= one.numbers
            drawn += one.drawn if is_own else ()
    own = here.get(sweep.own)
    if own and dana.can_compare(scale):
        checks = sweep.checks(sweep, own, n_vocab)
        gaps = [(f"{sweep.x_label} = {x:g}", gap) for x, gap in dana.differences(own, stored)]
        check, table = dana.agreement(gaps, len(stored.x))
        checks, tables = [check, *checks], [table] if table.rows else []
        numbers[dana.AGREEMENT] = dana.within(gaps, len(stored.x))
        numbers["the authors' points"] = {
            name: value
            for one in sweep.judge(sweep.sizes, stored, n_vocab)
            for name, value in one.numbers.items()
        }
        tables.append(_agreement_by_way(here, stored))
    values = sorted({int(x) for found in here.values() for x in found.x})
    limits = _bounds(sweep, range(values[0], values[-1] + 1), n_vocab) if values else ()
    panel = dana.panel(_title(sweep), sweep.x_label, here, stored, scale, (*drawn, *limits))
    counter = sweep.counter(numbers) if own and dana.can_compare(scale) else ""
    return fig.Computed((panel,), tuple(trials), tuple(checks), tuple(tables), numbers, dana.CHOICES, counter)


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
    rate = float("nan") if line is None else rates(sweep.sizes, line, n_vocab)[0]
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
    if scale == "paper" and way == dana.SEPTEMBER:
        return tuple(range(1, 22, 2))
    return runs.thin((1, 5, 9, 13, 17, 21), scale)


def _label(way: dana.Way) -> str:
    return dana.LABELS[way][0]


def _counter_1a(numbers: Mapping[str, Any]) -> str:
    theirs, ours = (numbers[name].get(LEAD) for name in ("the authors' points", _label(dana.AUGUST)))
    if theirs is None or ours is None:
        return ""
    bend = "bend too" if theirs > EVIDENCE else "do not bend"
    relation = "lower" if theirs > 0 else "higher"
    return (
        f"The authors' own six points {bend}: there, a parabola's AICc is {abs(theirs):.0f} {relation} than the line's. In"
        f" our runs, the R² of the line is {numbers[_label(dana.AUGUST)]['line']['r_squared']:.3f}. The line is a good summary"
        " up to saturation, but not a law."
    )


def _counter_1b(numbers: Mapping[str, Any]) -> str:
    written = numbers.get(_label(("as-written", "adam")), {}).get("parabola")
    if written is None:
        return ""
    return (
        "In the code, every head is d_h x d_h, so the number of parameters is also quadratic in d_h. Accuracy therefore grows only"
        " linearly with the number of parameters. With heads d x d_h, as in the equations, the fit of a + b·d_h² has R²"
        f" {written['r_squared']:.3f}."
    )


def _counter_2a(numbers: Mapping[str, Any]) -> str:
    bent = [
        f"{label} (AICc lower by {lead:.0f})"
        for way in _DIMS.ways
        if way != dana.SEPTEMBER and (lead := numbers.get(label := _label(way), {}).get(LEAD, 0)) > EVIDENCE
    ]
    return (
        "Whether the curve is straight up to d_h depends on the maps d -> d_h and d_h -> d that all heads share. In some versions"
        f" of the model, a parabola fits better than a line: {', '.join(bent)}."
        if bent
        else ""
    )


def _counter_4(numbers: Mapping[str, Any]) -> str:
    rate = numbers[_label(dana.SEPTEMBER)].get("associations per head, in units of d_h")
    if rate is None:
        return ""
    return (
        "At d = 2, a head has rank at most 2, so the proof of Corollary 2 does not give the printed count H·d_h + d. Training gains"
        f" {rate[0]:.1f} times as many associations per head as the printed count, and {rate[0] * 5 / 2:.1f} times as many as the"
        " repaired count H·min(d, d_h) + d."
    )


_HEADS = SizeSweep(
    "fig1a",
    "n_heads",
    "heads H",
    {"dim": 10, "head_dim": 10},
    lambda scale, way: runs.heads_at(scale, *way),
    judge_line,
    dana.AUGUST,
    _counter_1a,
    "fig1a_fig2b",
    ways=(dana.AUGUST, dana.LATEST, ("as-written", "adam"), ("as-coded", "lbfgs")),
    checks=_check_slope,
)
_HEAD_DIMS = SizeSweep(
    "fig1b",
    "head_dim",
    "head dimension d_h",
    {"dim": 10, "n_heads": 20},
    lambda scale, way: runs.thin(range(1, 11), scale),
    judge_parabola,
    dana.SEPTEMBER,
    _counter_1b,
    "fig1b",
)
_DIMS = SizeSweep(
    "fig2a",
    "dim",
    "embedding dimension d",
    {"head_dim": 10, "n_heads": 20},
    lambda scale, way: runs.thin(range(5, 16), scale),
    judge_bend,
    dana.SEPTEMBER,
    _counter_2a,
    "fig2a",
)
_NARROW = SizeSweep(
    "fig4",
    "n_heads",
    "heads H",
    {"dim": 2, "head_dim": 5},
    _figure4_heads,
    judge_rate,
    dana.SEPTEMBER,
    _counter_4,
    "fig4",
    n_vocab=10,
    epochs=15,
    ways=tuple(way for way in runs.WAYS_WITH_MAPS if way != dana.LATEST),
    checks=_check_rate,
)
AUGUST = (
    "The authors' code of August 2024, which made the stored points: layer norm of the embedding before the position is added, no"
    " maps d -> d_h and d_h -> d shared by all heads, 5,000 batches of 1,024; d = d_h = 10, 50 tokens."
)
SEPTEMBER = (
    "The authors' code of September 2024, which made the stored points: maps d -> d_h and d_h -> d shared by all heads, even if"
    " d = d_h; 10,000 batches of 1,024;"
)


def _figure(sweep: SizeSweep, statement: str, title: str, claim: str, own: str, rule: str) -> fig.Figure:
    name = f"dana-2024-{sweep.name}"
    return fig.Figure(
        name,
        "DPC24",
        (statement,),
        title,
        claim,
        own,
        rule,
        sweep.stages,
        partial(compute, sweep),
        measured=runs.MEASURED,
    )


FIGURES = (
    _figure(
        _HEADS,
        "DPC24-F1a",
        "DPC24 Figure 1a: accuracy by number of heads",
        "Accuracy grows linearly with the number of heads at fixed d_h, faster than Corollary 1 promises.",
        AUGUST,
        "On the points up to the first accuracy above 0.95, the AICc of a parabola in H is at most 2 below that of a line, and the"
        " confidence interval of the line's slope lies above the corollary's d_h associations per head.",
    ),
    _figure(
        _HEAD_DIMS,
        "DPC24-F1b",
        "DPC24 Figure 1b: accuracy by head dimension",
        "Accuracy grows quadratically with the head dimension.",
        f"{SEPTEMBER} d = 10, 20 heads.",
        "On the points up to the first accuracy above 0.95, a + b·d_h² has an R² of at least"
        f" {R_SQUARED} (the authors' points: 0.998), and an AICc that is lower than that of a + b·d_h by more than 2.",
    ),
    _figure(
        _DIMS,
        "DPC24-F2a",
        "DPC24 Figure 2a: accuracy by embedding dimension",
        "Accuracy grows linearly in d, faster up to d = d_h than beyond.",
        f"{SEPTEMBER} d_h = 10, 20 heads.",
        "The confidence interval of the slope up to d = d_h lies above that of the slope beyond (slopes of the authors' points:"
        " 0.098 and 0.014). Up to d_h, the AICc of a parabola in d is at most 2 below that of a line.",
    ),
    _figure(
        _NARROW,
        "DPC24-F4",
        "DPC24 Figure 4: accuracy by number of heads at d = 2",
        "At d = 2 training memorises about 1.7 H·d_h associations, more than Corollary 2 promises.",
        "The authors' code of September 2024, which made the stored points. For d ≠ d_h, the code of 2025 defines the same model."
        " 10 tokens, d = 2, d_h = 5, 15,000 batches.",
        "On the points up to the first accuracy above 0.95, each further head adds more associations than the corollary's d_h: the"
        " confidence interval of their number lies above d_h.",
    ),
)
