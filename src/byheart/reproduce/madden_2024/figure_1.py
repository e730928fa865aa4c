"""MFT24 Figure 1: the gap between loss and entropy for each width and number of contexts (left), and the fewest parameters with
which the gap is at most 1% of the entropy (right).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from byheart.measure.fits import mean_interval
from byheart.reproduce import figure as fig
from byheart.reproduce.madden_2024.runs import SEEDS, STORIES, WIDTHS, stages, training
from byheart.reproduce.madden_2024.subsets import (
    Subset,
    TrainedCell,
    cells,
    ends_and_middle,
    gather_facts,
    parameters,
    smallest_width,
)
from byheart.reproduce.observation import Observation
from byheart.reproduce.published import madden_2024, madden_2024_gaps
from byheart.reproduce.seed_values import SeedValues, fit_numbers, format_estimate, series, try_fit
from byheart.theorems import realises

CHANCE = 0.05  # the significance level of the sign test
COMPARED = 0.001  # gaps below this share of the entropy are treated as equal
R_SQUARED = 0.9  # the authors' points reach 0.955
LINES: tuple[fig.Style, ...] = ("measured", "second", "fifth")


@realises("MFT24-F1 left")
def compute_map(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """Compute the final loss minus the entropy for every width and number of contexts, averaged over seeds.

    The paper claims that this gap is smaller for wider models and for fewer contexts.
    """
    found = cells(observations, facts)
    panels, trials, rows = [], [], []
    numbers: dict[str, Any] = {}
    for attention, word in (("trained", "trained throughout"), ("frozen", "frozen attention")):
        mine = [
            cell
            for cell in found
            if cell.attention == attention and (scale != "paper" or cell.width in WIDTHS)
        ]
        if not mine:
            continue
        mean = mean_gaps(mine)
        numbers[word] = steps = _steps(mean)
        has_grid = scale != "paper" or all((n, m) in mean for n in STORIES for m in WIDTHS[:7])
        is_whole = attention == "frozen" or has_grid
        for claim, along in (("wider models", "width"), ("fewer contexts", "stories")):
            n_good, n_all, chance = steps[along]
            said = (
                f"the gap falls in {n_good} of {n_all} pairs of neighbouring cells; by chance, it would fall in at least as many"
                f" with probability {chance:.2g}"
            )
            holds = chance < CHANCE if is_whole and n_all else None
            trials.append(fig.ConditionResult(word, said, holds, attention == "trained", claim))
        n_contexts = _mean_contexts(mine)
        panels.append(_heat_map(mean, n_contexts, f"Final loss minus entropy, in nats: {word}"))
        for (n, m), group in sorted(_by_cell(mine).items()):
            shares = [cell.relative_gap for cell in group]
            gap, interval = f"{100 * fmean(shares):.3g}%", _percent(mean_interval(shares))
            rows.append((word, str(n), str(m), gap, interval, str(len(shares))))
    checks: list[fig.Check] = []
    if scale == "paper":
        theirs = madden_2024_gaps()
        numbers["the authors' map"] = _steps(theirs)
        contexts = {row.n_stories: float(row.n_contexts) for row in madden_2024()}
        panels.insert(1, _heat_map(theirs, contexts, "The authors' map, read off their plot"))
        checks = _against_the_authors(numbers)
    panels.append(_by_width([cell for cell in found if cell.attention == "trained"], facts))
    heads = ("training", "stories", "m", "gap as a share of the entropy", "interval", "seeds")
    return fig.Computed(
        tuple(panels),
        tuple(trials),
        tuple(checks),
        tables=(fig.Table("Gaps", heads, tuple(rows)), _subset_table(facts)),
        numbers=numbers,
        choices=_choices(scale),
        counter=_map_counter(numbers),
        missing=_lacking(scale, found),
    )


def _choices(scale: fig.Scale) -> tuple[str, ...]:
    """Describe the choices that the paper does not state, and the number of steps at this scale."""
    return (
        (
            "We use whole stories of our copy of TinyStories, some of them from its second release, shuffled with NumPy's default"
            " generator. Contexts, vocabulary and entropy are those of our subsets, not of the paper's."
        ),
        f"Every model is trained for {training(scale).steps:,} steps, and its final loss decides.",
        (
            "The seed determines the stories and the initial weights. A wider model may end in a worse minimum, so a width m can"
            " miss the entropy by more than 1% although a smaller width does not."
        ),
        "Frozen attention: embedding and head keep their initial weights, as in the authors' second experiment.",
        "The authors' map is read off the colours of their published plot; they stored no numbers for it.",
    )


def _steps(mean: dict[tuple[int, int], tuple[float, float]]) -> dict[str, tuple[int, int, float]]:
    """Count the pairs of neighbouring cells of the map `mean` whose gaps are in the order that the paper claims.

    The keys of `mean` are (number of stories, width). For pairs along the widths (`width`) and along the numbers of stories
    (`stories`), return this count, the number of pairs that were compared, and the probability of a count at least this large if a
    fair coin decided the order of each pair.
    """
    found = {along: falls(mean, along=along) for along in ("width", "stories")}
    return {
        along: (n_good, n_all, sum(math.comb(n_all, k) for k in range(n_good, n_all + 1)) / 2**n_all)
        for along, (n_good, n_all) in found.items()
    }


def same_share(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Compare two shares, each given as (good, all), with Fisher's exact test, and return its p-value.

    The p-value is computed under the assumption that the true shares are equal. It is the total probability of all 2 x 2 tables
    that have the same row and column sums as the observed table and are at most as likely as it.
    """
    good, n = first[0] + second[0], first[1] + second[1]

    def chance(k: int) -> float:
        return math.comb(first[1], k) * math.comb(second[1], good - k) / math.comb(n, good)

    own = chance(first[0])
    ends = range(max(0, good - second[1]), min(first[1], good) + 1)
    return min(1.0, sum(value for k in ends if (value := chance(k)) <= own * (1 + 1e-9)))


def _against_the_authors(numbers: dict[str, Any]) -> list[fig.Check]:
    """Compare our map with the authors' map, along the widths and along the contexts. Return a check for each of the two.

    Each map has a share of pairs of neighbouring cells whose gaps are in the order that the paper claims. A check holds unless
    the shares of the two maps differ significantly.
    """
    checks = []
    for along in ("width", "stories"):
        if "trained throughout" not in numbers:
            continue
        ours, theirs = (numbers[name][along][:2] for name in ("trained throughout", "the authors' map"))
        value = same_share(ours, theirs)
        checks.append(
            fig.Check(
                f"the gap falls as often along the {'widths' if along == 'width' else 'contexts'} as in the authors' map",
                f"{ours[0]} of {ours[1]}, the authors' {theirs[0]} of {theirs[1]}; Fisher p = {value:.2g}",
                f"p of at least {CHANCE}",
                value >= CHANCE,
            )
        )
    return checks


def _map_counter(numbers: dict[str, Any]) -> str:
    """Return the best argument against the verdict: the trend along the contexts is weak."""
    if "the authors' map" not in numbers or "trained throughout" not in numbers:
        return ""
    (ours, n_ours, _), (theirs, n_theirs, _) = (
        numbers[name]["stories"] for name in ("trained throughout", "the authors' map")
    )
    return (
        f"Along the contexts the trend is weak: the gap falls in {ours} of {n_ours} pairs of neighbouring cells in our map, and in"
        f" {theirs} of {n_theirs} in the authors' map. Neighbouring cells share models and data, so a sign test overstates the"
        " evidence."
    )


def _mean_contexts(found: Sequence[TrainedCell]) -> dict[int, float]:
    """Return the number of distinct contexts for every number of stories, averaged over seeds."""
    groups: dict[int, set[tuple[int, int]]] = {}
    for cell in found:
        groups.setdefault(cell.subset.n_stories, set()).add((cell.subset.seed, cell.subset.n_contexts))
    return {n: fmean(contexts for _, contexts in group) for n, group in groups.items()}


@realises("MFT24-F1 right")
def compute_capacity(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """For every subset of stories, find the smallest width whose loss is within 1% of the entropy, among the paper's widths (4, 8,
    ..., 512) and among a finer list of widths.

    The figure shows the number of parameters at this width.
    """
    found = cells(observations, facts)
    trained = [cell for cell in found if cell.attention == "trained"]
    widths = sorted({cell.width for cell in trained})
    subsets = sorted({cell.subset for cell in trained}, key=lambda s: (s.n_stories, s.seed))
    grids = {"the paper's widths": WIDTHS if scale == "paper" else tuple(widths)}
    if scale == "paper" and set(widths) - set(WIDTHS):
        grids["finer widths"] = tuple(widths)
    stored = madden_2024()
    trials, drawn, by_seed = [], [], []
    columns: dict[str, dict[Subset, int | None]] = {}
    numbers: dict[str, Any] = {}
    for (name, grid), style in zip(grids.items(), LINES, strict=False):
        smallest = {s: smallest_width(trained, s, grid) for s in subsets}
        curve = _parameters(smallest)
        line = try_fit(curve, "linear")
        is_whole = scale != "paper" or len(curve.x) == len(STORIES)
        said = f"{format_estimate(line, 'slope')} parameters per context" + (
            "" if line is None else f", R² {line.r_squared:.3f}"
        )
        holds = line is not None and line.r_squared >= R_SQUARED
        trials.append(
            fig.ConditionResult(name, said, holds if is_whole else None, name == "the paper's widths")
        )
        numbers[name] = fit_numbers(line)
        columns[name] = smallest
        if curve:
            drawn.append(series(name, style, curve))
            by_seed += _lines_by_seed(name, smallest)
    checks = (
        _width_check({s: smallest_width(trained, s, WIDTHS) for s in subsets}) if scale == "paper" else []
    )
    built = facts["closed form"]
    panel = fig.Panel(
        "Fewest parameters within 1% of the entropy",
        "distinct contexts n",
        "parameters",
        (
            *drawn,
            fig.series_of(
                "the authors' points", "published", [(row.n_contexts, row.n_parameters) for row in stored]
            ),
            _bound(subsets),
            fig.series_of(
                "closed form, as many neurons as contexts (Theorem 5)",
                "closed-form",
                [(one["n_contexts"], one["n_parameters"]) for one in built],
            ),
        ),
        y_scale="log",
    )
    rows = tuple(
        (
            str(n),
            *(
                "/".join("-" if found[s] is None else str(found[s]) for s in subsets if s.n_stories == n)
                for found in columns.values()
            ),
        )
        for n in sorted({s.n_stories for s in subsets})
    )
    return fig.Computed(
        (panel,),
        tuple(trials),
        tuple(checks),
        (
            fig.Table(
                "Smallest widths that come within 1% of the entropy, by seed", ("stories", *columns), rows
            ),
            fig.Table(
                "A line fitted to the subsets of each seed alone",
                ("widths", "seed", "subsets", "R²"),
                tuple(by_seed),
            ),
            _subset_table(facts),
        ),
        numbers,
        _choices(scale),
        counter=_line_counter(),
        missing=_open_subsets(scale, columns),
    )


def mean_gaps(found: Sequence[TrainedCell]) -> dict[tuple[int, int], tuple[float, float]]:
    """For every (number of stories, width), return the gap (loss minus entropy) averaged over seeds.

    Each value of the result is a pair: the gap in nats, and the gap as a share of the entropy.
    """
    return {
        key: (fmean(cell.gap for cell in group), fmean(cell.relative_gap for cell in group))
        for key, group in _by_cell(found).items()
    }


def falls(mean: dict[tuple[int, int], tuple[float, float]], *, along: str) -> tuple[int, int]:
    """Compare the gaps (loss minus entropy) of neighbouring cells of the map, along the widths or along the numbers of stories.

    Return two numbers: in how many pairs the gaps are in the order that the paper claims, and how many pairs were compared. The
    paper claims that the gap of the wider model, or of the model of fewer stories, is not the larger one. A pair is not compared if
    both gaps are below 0.1% of the entropy.
    """
    axis = 1 if along == "width" else 0
    groups: dict[int, list[tuple[int, int]]] = {}
    for key in sorted(mean):
        groups.setdefault(key[1 - axis], []).append(key)
    n_good = n_all = 0
    for keys in groups.values():
        for first, second in pairwise(sorted(keys, key=lambda key: key[axis])):
            if max(mean[first][1], mean[second][1]) < COMPARED:
                continue
            n_all += 1
            smaller, larger = (second, first) if along == "width" else (first, second)
            n_good += mean[smaller][0] <= mean[larger][0]
    return n_good, n_all


def _by_cell(found: Sequence[TrainedCell]) -> dict[tuple[int, int], list[TrainedCell]]:
    """Group cells by (number of stories, width), with one entry for each seed."""
    groups: dict[tuple[int, int], list[TrainedCell]] = {}
    for cell in found:
        groups.setdefault((cell.subset.n_stories, cell.width), []).append(cell)
    return groups


def _percent(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{100 * low:.3g}% to {100 * high:.3g}%" if math.isfinite(low) else "-"


def _line_counter() -> str:
    """Return the best argument against the verdict: the authors' fitted line mostly shows the growth of the vocabulary."""
    stored = madden_2024()
    usual = max((row.min_hidden_width for row in stored), key=[row.min_hidden_width for row in stored].count)
    same = [row for row in stored if row.min_hidden_width == usual]
    return (
        f"The authors' line mostly shows how the vocabulary grows: their smallest width is {usual} in {len(same)} of {len(stored)}"
        " subsets, in which the number of parameters depends only on the vocabulary. A grid of doubling widths cannot show more."
    )


def _heat_map(
    mean: dict[tuple[int, int], tuple[float, float]], contexts: dict[int, float], title: str
) -> fig.Panel:
    """Return the heat map as the paper draws it: widths on the x axis, contexts on the y axis, and the gap in nats."""
    stories, widths = sorted({n for n, _ in mean}), sorted({m for _, m in mean})
    return fig.Panel(
        title,
        "hidden width m",
        "distinct contexts n",
        columns=tuple(float(m) for m in widths),
        rows=tuple(float(round(contexts[n])) for n in stories),
        cells=tuple(tuple(mean.get((n, m), (math.nan, 0.0))[0] for m in widths) for n in stories),
    )


def _by_width(found: Sequence[TrainedCell], facts: fig.Facts) -> fig.Panel:
    stories = sorted({cell.subset.n_stories for cell in found})
    drawn = []
    for n, style in zip(ends_and_middle(stories), LINES, strict=False):
        mine = [(cell.width, cell.relative_gap) for cell in found if cell.subset.n_stories == n]
        drawn.append(series(f"trained, {n} stories", style, SeedValues.of(mine)))
    points = [(one["n_contexts"], one["relative_gap"]) for one in facts["closed form"]]
    closed = fig.series_of("closed form, m = n", "closed-form", points)
    return fig.Panel(
        "The same by width", "hidden width m", "share of the entropy", (*drawn, closed), "log", "log"
    )


def _lacking(scale: fig.Scale, found: Sequence[TrainedCell]) -> str:
    """Describe which cells of the paper's grid have no run with any seed. The widest models of the grid are not required."""
    if scale != "paper":
        return ""
    mean = mean_gaps([cell for cell in found if cell.attention == "trained"])
    missing: dict[int, list[int]] = {}
    for n in STORIES:
        for m in WIDTHS[:7]:
            if (n, m) not in mean:
                missing.setdefault(n, []).append(m)
    n_runs = len(SEEDS) * sum(len(widths) for widths in missing.values())
    cells = "; ".join(f"m = {', '.join(map(str, ms))} at {n} stories" for n, ms in missing.items())
    return f"{n_runs} more runs are needed: {cells}." if missing else ""


def _subset_table(facts: fig.Facts) -> fig.Table:
    rows = tuple(
        (str(s["n_stories"]), str(s["seed"]), f"{s['n_contexts']:,}", str(s["vocab"]), f"{s['entropy']:.1f}")
        for s in facts["subsets"]
    )
    return fig.Table("Subsets", ("stories", "seed", "contexts", "vocabulary", "entropy in nats"), rows)


def _parameters(smallest: dict[Subset, int | None]) -> SeedValues:
    groups: dict[int, list[tuple[int, float]]] = {}
    for subset, width in smallest.items():
        if width is not None:
            groups.setdefault(subset.n_stories, []).append(
                (subset.n_contexts, float(parameters(width, subset.vocab)))
            )
    pairs = sorted(
        (fmean(n for n, _ in group), tuple(count for _, count in group)) for group in groups.values()
    )
    return SeedValues(tuple(x for x, _ in pairs), tuple(values for _, values in pairs))


def _lines_by_seed(name: str, smallest: dict[Subset, int | None]) -> list[tuple[str, ...]]:
    """Return a row for each seed: `name`, the seed, the number of its points, and the R² of the line fitted to them.

    `smallest` holds the smallest sufficient width of each subset of the stories, if it is known. Each such subset gives one point:
    (number of contexts, fewest parameters). The R² of the authors' points is computed in the same way.
    """
    found: list[tuple[str, ...]] = []
    for seed in sorted({subset.seed for subset in smallest}):
        curve = _parameters({s: width for s, width in smallest.items() if s.seed == seed})
        line = try_fit(curve, "linear")
        found.append(
            (name, str(seed), str(len(curve.x)), "not fitted" if line is None else f"{line.r_squared:.3f}")
        )
    return found


def _open_subsets(scale: fig.Scale, columns: dict[str, dict[Subset, int | None]]) -> str:
    """Return a sentence that names the subsets of the stories whose smallest sufficient width is not known. A width is sufficient
    if it brings the loss within 1% of the entropy.

    Return an empty text if there are no such subsets, or if `scale` is not `paper`.
    """
    if scale != "paper":
        return ""
    own = next(iter(columns.values()))
    found = [f"{s.n_stories} stories with seed {s.seed}" for s, width in own.items() if width is None]
    return (
        f"No width is known to bring the loss within 1% of the entropy for {', '.join(found)}."
        if found
        else ""
    )


def _width_check(smallest: dict[Subset, int | None]) -> list[fig.Check]:
    stored = {row.n_stories: row.min_hidden_width for row in madden_2024()}
    ratios = [width / stored[s.n_stories] for s, width in smallest.items() if width is not None]
    close = sum(0.5 <= ratio <= 2 for ratio in ratios)
    return [
        fig.Check(
            "smallest width at most one step of the grid from the authors' smallest width",
            f"{close} of {len(ratios)} subsets",
            "at least 80%",
            bool(ratios) and close >= 0.8 * len(ratios),
        )
    ]


def _bound(subsets: Sequence[Subset]) -> fig.Series:
    from byheart.bounds.madden_2024 import theorem_1_parameters  # not available on a machine that only trains

    chosen = [s for s in subsets if s.seed == 0]
    points = [(s.n_contexts, float(theorem_1_parameters(s.n_contexts, s.vocab).value)) for s in chosen]
    return fig.series_of(
        "fewest parameters for arbitrary next-token distributions (Theorem 1)", "bound", points
    )


FIGURES = (
    fig.Figure(
        "madden-2024-fig1-left",
        "MFT24",
        ("MFT24-F1 left",),
        "MFT24 Figure 1, left: gap to the entropy by width and contexts",
        "As m grows and as contexts become fewer, the gap between training loss and entropy falls.",
        "The authors' training (50,000 steps of Adam at 1e-4, full batch) and widths 4 to 512, on ten subsets of TinyStories; our"
        " subsets come from another copy of it.",
        "Along the widths and along the contexts, the mean final gap in nats falls between neighbouring cells more often than"
        f" chance explains, by a one-sided sign test at {CHANCE:.0%} (the authors' map passes: 24 of 34 along the contexts).",
        stages,
        compute_map,
        gather_facts,
        needs_samples=True,
    ),
    fig.Figure(
        "madden-2024-fig1-right",
        "MFT24",
        ("MFT24-F1 right",),
        "MFT24 Figure 1, right: fewest parameters that reach the entropy",
        "The number of parameters needed to reach the entropy grows roughly linearly with the number of contexts.",
        "Models are trained as for the left panel. For each subset, we take the smallest of the paper's widths (4, 8, ..., 512)"
        " whose final loss is within 1% of the entropy.",
        f"A line through the fewest parameters of all ten subsets has R² of at least {R_SQUARED} (the authors' points: 0.955).",
        stages,
        compute_capacity,
        gather_facts,
        needs_samples=True,
    ),
)
