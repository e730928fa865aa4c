"""MFT24 Figure 1, right: the fewest parameters that reach the entropy, by number of contexts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from byheart.measure.fits import Fit
from byheart.measure.records import Record
from byheart.reproduce.figure import Check, Computed, Figure, Panel, Scale, Series
from byheart.reproduce.madden_2024.capacities import (
    CHOICES,
    Subset,
    cells,
    parameters,
    smallest_passing,
)
from byheart.reproduce.madden_2024.closed_form import closed_forms
from byheart.reproduce.madden_2024.runs import WIDTHS, stages
from byheart.reproduce.published import madden_2024
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import SeedValues, fit_numbers, format_estimate, judged, series, try_fit
from byheart.theorems import realises


@realises("MFT24-F1 right")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None) -> Computed:
    """The smallest passing width of every subset, on the paper's grid and on a finer one, as parameters."""
    assert samples is not None
    found = cells(records, samples)
    subsets = sorted({cell.subset for cell in found}, key=lambda s: (s.n_contexts, s.seed))
    finer = sorted({cell.width for cell in found})
    paper = [s for s in subsets if s.seed == 0]  # the paper's grid has one seed, the finer search has more
    coarse = {s: smallest_passing(found, s, WIDTHS if scale == "paper" else finer) for s in paper}
    fine = {s: smallest_passing(found, s, finer) for s in subsets}
    stored = madden_2024()
    curve = _curve(coarse)
    line, fine_line = try_fit(curve, "linear"), try_fit(_curve(fine), "linear")
    same = [
        (coarse[s], row.min_hidden_width)
        for s in paper
        for row in stored
        if row.n_stories == s.n_stories and coarse[s] is not None
    ]
    checks = _checks(line, same, subsets) if curve and scale == "paper" else []
    widths = sorted({width for width in coarse.values() if width is not None})
    built = closed_forms(samples, subsets)
    flat = [s for s in paper if s.n_stories >= 400]
    panel = Panel(
        "Fewest parameters within 1% of the entropy",
        "distinct contexts n",
        "parameters",
        (
            *([series("widths 4, 8, 16, ..., 512", "measured", curve)] if curve else []),
            *([series("finer widths", "second", _curve(fine))] if fine != coarse and _curve(fine) else []),
            Series(
                "published",
                "published",
                tuple(float(row.n_contexts) for row in stored),
                tuple(float(row.n_parameters) for row in stored),
            ),
            _bound(subsets),
            Series(
                "closed form, as many neurons as contexts (Theorem 5)",
                "closed-form",
                tuple(float(one.n_contexts) for one in built),
                tuple(float(one.n_parameters) for one in built),
            ),
        ),
        y_scale="log",
    )
    return Computed(
        (panel,),
        judged(
            scale,
            checks,
            f"On the paper's grid the smallest passing widths are {', '.join(map(str, widths)) or 'none'};"
            f" parameters grow by {format_estimate(line, 'slope')} per context"
            + ("" if line is None else f" (R² {line.r_squared:.3f})")
            + f". For 400 stories and more the width is {_span(coarse, flat)} on that grid"
            + (f", {_span(fine, flat)} on the finer one" if fine != coarse else "")
            + f". {_growth(coarse)}"
            + (f" {_finer(fine, fine_line)}" if fine != coarse else ""),
            is_complete=all(width is not None for width in coarse.values()) and len(paper) >= len(stored),
        ),
        {
            "line": fit_numbers(line),
            "line, finer": fit_numbers(fine_line),
            "smallest width, finer, by stories": _by_stories(fine),
            "closed form": [asdict(one) for one in built],
            "subsets": [
                {
                    "stories": s.n_stories,
                    "seed": s.seed,
                    "contexts": s.n_contexts,
                    "vocabulary": s.vocab,
                    "entropy in nats": s.entropy,
                    "smallest width": coarse.get(s),
                    "smallest width, finer": fine[s],
                    "tried": [cell.width for cell in found if cell.subset == s],
                }
                for s in subsets
            ],
        },
        CHOICES,
    )


def _checks(
    line: Fit | None, same: Sequence[tuple[int | None, int]], subsets: Sequence[Subset]
) -> list[Check]:
    close = sum(ours is not None and 0.5 <= ours / theirs <= 2 for ours, theirs in same)
    return [
        Check(
            "roughly linear growth of the parameters",
            "not fitted" if line is None else f"R² {line.r_squared:.3f}",
            "R² > 0.9",
            line is not None and line.r_squared > 0.9,
        ),
        Check(
            "smallest width at most one step of the grid from the stored one",
            f"{close} of {len(same)} subsets",
            "at least 8 of 10",
            close >= 8,
        ),
    ]


def _curve(widths: dict[Subset, int | None]) -> SeedValues:
    groups: dict[int, list[tuple[Subset, int]]] = {}
    for subset, width in widths.items():
        if width is not None:
            groups.setdefault(subset.n_stories, []).append((subset, width))
    pairs = [
        (
            sum(s.n_contexts for s, _ in group) / len(group),
            tuple(float(parameters(width, s.vocab)) for s, width in group),
        )
        for group in groups.values()
    ]
    pairs.sort()
    return SeedValues(tuple(x for x, _ in pairs), tuple(values for _, values in pairs))


def _by_stories(widths: dict[Subset, int | None]) -> dict[str, list[int | None]]:
    """The smallest width of every seed, by number of stories."""
    found: dict[str, list[int | None]] = {}
    for subset, width in sorted(widths.items(), key=lambda pair: (pair[0].n_stories, pair[0].seed)):
        found.setdefault(str(subset.n_stories), []).append(width)
    return found


def _finer(widths: dict[Subset, int | None], line: Fit | None) -> str:
    """The finer search over seeds in words."""
    said = ", ".join(
        f"{stories}: {'/'.join('none' if width is None else str(width) for width in found)}"
        for stories, found in _by_stories(widths).items()
    )
    fitting = (
        ""
        if line is None
        else f", {format_estimate(line, 'slope')} parameters per context, R² {line.r_squared:.3f}"
    )
    return f"Finer search, smallest width by stories and seed: {said}{fitting}."


def _bound(subsets: Sequence[Subset]) -> Series:
    from byheart.bounds.madden_2024 import theorem_1_parameters  # not on a bare machine

    chosen = [s for s in subsets if s.seed == 0]
    return Series(
        "fewest for arbitrary next-token laws (Theorem 1)",
        "bound",
        tuple(float(s.n_contexts) for s in chosen),
        tuple(float(theorem_1_parameters(s.n_contexts, s.vocab).value) for s in chosen),
    )


def _growth(widths: dict[Subset, int | None]) -> str:
    """How much of the growth of the parameters is that of the vocabulary, in logarithms."""
    found = [(s, width) for s, width in widths.items() if s.seed == 0 and width is not None]
    if len(found) < 2:
        return "Too few subsets to tell what grows."
    (first, narrow), (last, wide) = found[0], found[-1]
    whole = math.log(parameters(wide, last.vocab) / parameters(narrow, first.vocab))
    share = math.log((last.vocab + 17) / (first.vocab + 17)) / whole if whole else math.nan
    return (
        f"From {first.n_stories} to {last.n_stories} stories the parameters grow {math.exp(whole):.2f} times;"
        f" the vocabulary, {first.vocab} to {last.vocab}, accounts for {100 * share:.0f}% of it (in logarithms)."
    )


def _span(widths: dict[Subset, int | None], chosen: Sequence[Subset]) -> str:
    values = sorted({width for s in chosen if (width := widths[s]) is not None})
    if not values:
        return "not found"
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


FIGURE = Figure(
    "madden-2024-fig1-right",
    "MFT24",
    ("MFT24-F1 right",),
    "MFT24 Figure 1, right: fewest parameters that reach the entropy",
    "The number of parameters needed to reach the entropy grows roughly linearly with the number of contexts.",
    stages,
    compute,
    needs_samples=True,
)

__all__ = ["FIGURE", "compute", "stages"]
