"""MFT24 Figure 1, left: the gap to the entropy by hidden width and number of contexts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise

from byheart.measure.records import Record
from byheart.reproduce.figure import Check, Computed, Figure, Panel, Scale, Series, Style
from byheart.reproduce.madden_2024.capacities import CHOICES, Subset, TrainedCell, cells
from byheart.reproduce.madden_2024.closed_form import closed_forms
from byheart.reproduce.madden_2024.runs import WIDTHS, stages
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import judged
from byheart.theorems import realises

LINES: tuple[Style, ...] = ("measured", "second", "fifth")


@realises("MFT24-F1 left")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None) -> Computed:
    """A table of final loss less entropy for the first seed: its total in nats is compared, its share is drawn."""
    assert samples is not None
    found = [cell for cell in cells(records, samples) if cell.subset.seed == 0]
    if scale == "paper":
        found = [cell for cell in found if cell.width in WIDTHS]
    subsets = sorted({cell.subset for cell in found}, key=lambda subset: subset.n_contexts)
    widths = sorted({cell.width for cell in found})
    table = {(cell.subset, cell.width): cell.relative_gap for cell in found}
    panel = Panel(
        "Final loss less entropy, as a share of the entropy",
        "distinct contexts n",
        "hidden width m",
        columns=tuple(float(subset.n_contexts) for subset in subsets),
        rows=tuple(float(width) for width in widths),
        cells=tuple(tuple(table.get((s, width), math.nan) for s in subsets) for width in widths),
    )
    wider, fewer = falls(found, along="width"), falls(found, along="contexts")
    share = falls(found, along="contexts", gap=lambda cell: cell.relative_gap)
    checks = [
        Check(
            "the gap in nats falls as m grows",
            f"{wider[0]} of {wider[1]} neighbouring cells",
            "at least 90%",
            wider[1] > 0 and wider[0] >= 0.9 * wider[1],
        ),
        Check(
            "the gap in nats falls as contexts become fewer",
            f"{fewer[0]} of {fewer[1]} neighbouring cells",
            "at least 90%",
            fewer[1] > 0 and fewer[0] >= 0.9 * fewer[1],
        ),
    ]
    built = closed_forms(samples, subsets)
    shown = [subsets[place] for place in sorted({0, (len(subsets) - 1) // 2, len(subsets) - 1})]
    lines = Panel(
        "The same by width, trained and in closed form",
        "hidden width m",
        "share of the entropy",
        (
            *(_by_width(found, subset, style) for subset, style in zip(shown, LINES, strict=False)),
            Series(
                "closed form, m = n",
                "closed-form",
                tuple(float(one.n_contexts) for one in built),
                tuple(one.relative_gap for one in built),
            ),
        ),
        x_scale="log",
        y_scale="log",
    )
    return Computed(
        (panel, lines),
        judged(
            scale,
            checks,
            f"Widths {widths[0]} to {widths[-1]}."
            f" The gap in nats falls between {wider[0]} of {wider[1]} neighbouring widths, and from more to fewer contexts in"
            f" {fewer[0]} of {fewer[1]} cases (as a share of the entropy in {share[0]} of {share[1]}); gaps below 0.1% of the"
            " entropy are not compared, since training is stopped there.",
            is_complete=len(widths) >= 5 and len(subsets) >= 2,
        ),
        {
            "subsets": [
                {
                    "stories": s.n_stories,
                    "contexts": s.n_contexts,
                    "vocabulary": s.vocab,
                    "entropy in nats": s.entropy,
                }
                for s in subsets
            ],
            "closed form": [asdict(one) for one in built],
        },
        CHOICES,
    )


def _by_width(found: Sequence[TrainedCell], subset: Subset, style: Style) -> Series:
    mine = [cell for cell in found if cell.subset == subset]
    return Series(
        f"trained, n = {subset.n_contexts:,}",
        style,
        tuple(float(cell.width) for cell in mine),
        tuple(cell.relative_gap for cell in mine),
    )


def falls(
    found: Sequence[TrainedCell], *, along: str, gap: Callable[[TrainedCell], float] = lambda cell: cell.gap
) -> tuple[int, int]:
    """How many neighbouring cells have the smaller gap where the paper says, of how many that can be told apart."""
    n_good = n_all = 0
    groups: dict[int, list[TrainedCell]] = {}
    for cell in found:
        groups.setdefault(cell.subset.n_contexts if along == "width" else cell.width, []).append(cell)
    for group in groups.values():
        rising = sorted(group, key=lambda cell: cell.width if along == "width" else cell.subset.n_contexts)
        for first, second in pairwise(rising):
            if max(first.relative_gap, second.relative_gap) < 0.001:
                continue
            n_all += 1
            smaller = second if along == "width" else first
            n_good += gap(smaller) == min(gap(first), gap(second))
    return n_good, n_all


FIGURE = Figure(
    "madden-2024-fig1-left",
    "MFT24",
    ("MFT24-F1 left",),
    "MFT24 Figure 1, left: gap to the entropy by width and contexts",
    "As m grows and as contexts become fewer, the gap between training loss and entropy falls.",
    stages,
    compute,
    needs_samples=True,
)

__all__ = ["FIGURE", "compute", "stages"]
