"""Decide whether our runs support what DPC24 (Dana, Pydi & Chevaleyre 2024) concludes from its curves of accuracy.

The paper concludes which curves are straight lines and which are parabolas, where one of them bends, and how many pairs each head
memorises. Lines and parabolas are compared by AICc, the corrected Akaike criterion; the law with the lower value is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from byheart.measure.fits import CutOff, Fit, between
from byheart.reproduce import figure as fig
from byheart.reproduce.dana_2024 import curves as dana
from byheart.reproduce.seed_values import SeedValues, fit_numbers, fitted_line, format_estimate, try_fit

R_SQUARED = 0.99  # the R² that the parabola of Figure 1b must reach; the authors' stored points reach 0.998
LEAD = "line's AICc less parabola's"
EVIDENCE = 2.0  # a law with an AICc lower by more than this is preferred


@dataclass(frozen=True)
class Judgement:
    """The judgement of one claim: whether it holds, what was found, and the fits that decide it.

    `holds` is None if there are too few points. `claim` is empty if the figure makes only one claim.
    """

    claim: str
    holds: bool | None
    found: str
    numbers: dict[str, Any] = field(default_factory=dict)
    drawn: tuple[fig.Series, ...] = ()


Judge = Callable[[Mapping[str, int], SeedValues, int], list[Judgement]]
"""A function that takes the fixed sizes, the measured values and the size of the vocabulary, and returns judgements."""


def _ends(found: SeedValues) -> tuple[float, float]:
    return found.x[0], found.x[-1]


def _judge_straight(found: SeedValues, cut: CutOff, claim: str, unit: str) -> Judgement:
    """Decide whether the points that `cut` keeps lie on a straight line: a parabola must not fit better.

    A parabola fits better if its AICc (corrected Akaike criterion) is lower than the line's by more than 2. Also report the slope
    of the parabola at both ends; `unit` is the name of one unit of x.
    """
    line, bent = try_fit(found, "linear", cut), try_fit(found, "parabola", cut)
    if line is None or bent is None or not math.isfinite(bent.aicc):
        return Judgement(claim, None, "too few points to tell a line from a parabola")
    kept = [x for x, keep in zip(*_kept(found, cut), strict=True) if keep]
    slope, bend = (bent.coefficients[name].value for name in ("slope", "bend"))
    first, last = slope + 2 * bend * min(kept), slope + 2 * bend * max(kept)
    lead = line.aicc - bent.aicc
    said = (
        f"a parabola's AICc is {abs(lead):.1f} {'lower' if lead > 0 else 'higher'} than the line's; R² is {bent.r_squared:.4f}"
        f" for the parabola and {line.r_squared:.4f} for the line; the parabola's slope goes from {first:.4f} to"
        f" {last:.4f} per {unit}"
    )
    numbers = {"line": fit_numbers(line), "parabola": fit_numbers(bent), LEAD: lead}
    drawn = fitted_line("line", "fit", line, (min(kept), max(kept)))
    return Judgement(claim, lead <= EVIDENCE, said, numbers | {"slopes": [first, last]}, tuple(drawn))


def _kept(found: SeedValues, cut: CutOff) -> tuple[list[float], list[bool]]:
    x, y = (np.asarray(values) for values in found.flat)
    return list(x), list(cut.keeps(x, y))


def judge_line(sizes: Mapping[str, int], found: SeedValues, n_vocab: int) -> list[Judgement]:
    """Decide the claim of Figure 1a: accuracy grows linearly with the number of heads, and each head memorises more than d_h
    additional pairs. d_h is the head width, and also the number of pairs per head that Corollary 2 promises.
    """
    line = try_fit(found, "linear", dana.cut_off())
    straight = _judge_straight(found, dana.cut_off(), "linear in H", "head")
    if line is None:
        return [straight, Judgement("faster than the corollary", None, "too few points to fit a line")]
    slope = line.coefficients["slope"]
    least = sizes["head_dim"] * (1 - 1 / n_vocab) / n_vocab**2
    said = f"slope {format_estimate(line, 'slope')} per head (the corollary: {least:.4f})"
    rate = {"associations per head": dana.associations(slope.value, n_vocab)}
    return [straight, Judgement("faster than the corollary", slope.low > least, said, rate)]


def judge_parabola(sizes: Mapping[str, int], found: SeedValues, n_vocab: int) -> list[Judgement]:
    """Decide the claim of Figure 1b: accuracy grows as a + b·d_h² with the head width d_h, and not as a + b·d_h."""
    parabola, line = (try_fit(found, law, dana.cut_off()) for law in ("quadratic", "linear"))
    if parabola is None or line is None:
        return [Judgement("", None, "too few points to fit a line or a parabola")]
    holds = parabola.aicc < line.aicc - EVIDENCE and parabola.r_squared >= R_SQUARED
    said = (
        f"{format_estimate(parabola, 'slope')}·d_h² + {parabola.coefficients['intercept'].value:.4f},"
        f" R² {parabola.r_squared:.4f} (a line: {line.r_squared:.4f}); the line's AICc minus this law's is"
        f" {line.aicc - parabola.aicc:.1f}"
    )
    drawn = fitted_line("a + b·d_h²", "fit", parabola, _ends(found))
    return [
        Judgement(
            "", holds, said, {"parabola": fit_numbers(parabola), "line": fit_numbers(line)}, tuple(drawn)
        )
    ]


def judge_bend(sizes: Mapping[str, int], found: SeedValues, n_vocab: int) -> list[Judgement]:
    """Decide the claim of Figure 2a: accuracy grows linearly with the model width d up to the head width d_h, then more slowly."""
    bend, end = sizes["head_dim"], 10 * sizes["head_dim"]
    below, above = (try_fit(found, "linear", between(*ends)) for ends in ((0, bend), (bend, end)))
    numbers = {"up to d_h": fit_numbers(below), "beyond d_h": fit_numbers(above)}
    claim = "faster up to d = d_h than beyond"
    straight = replace(
        _judge_straight(found, between(0, bend), "linear up to d = d_h", "dimension"), drawn=()
    )
    if below is None or above is None:
        return [Judgement(claim, None, "too few points on one side of the bend", numbers), straight]
    holds = below.coefficients["slope"].low > above.coefficients["slope"].high
    said = f"slope {format_estimate(below, 'slope')} up to d_h, {format_estimate(above, 'slope')} beyond"
    drawn = [
        *fitted_line("line up to d_h", "fit", below, (_ends(found)[0], bend)),
        *fitted_line("line beyond d_h", "fit2", above, (bend, _ends(found)[1])),
    ]
    return [Judgement(claim, holds, said, numbers, tuple(drawn)), straight]


def judge_rate(sizes: Mapping[str, int], found: SeedValues, n_vocab: int) -> list[Judgement]:
    """Decide the claim of Figure 4: a head of width d_h memorises more than d_h pairs."""
    line = try_fit(found, "linear", dana.cut_off())
    if line is None:
        return [Judgement("", None, "too few points to fit a line")]
    rate, low, high = rates(sizes, line, n_vocab)
    said = f"{rate:.2f}·d_h associations per head, interval [{low:.2f}, {high:.2f}]·d_h"
    kept = [x for x, keep in zip(*_kept(found, dana.cut_off()), strict=True) if keep]
    drawn = fitted_line("line", "fit", line, (min(kept), max(kept)))
    numbers = {"line": fit_numbers(line), "associations per head, in units of d_h": [rate, low, high]}
    return [Judgement("", low > 1, said, numbers, tuple(drawn))]


def rates(sizes: Mapping[str, int], line: Fit, n_vocab: int) -> tuple[float, float, float]:
    slope = line.coefficients["slope"]
    rate, low, high = (
        dana.associations(value, n_vocab) / sizes["head_dim"]
        for value in (slope.value, slope.low, slope.high)
    )
    return rate, low, high
