"""Draw figures: the growth of constructions, capacity plans, and comparisons of runs. The suffix of the file selects the format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from byheart.bounds import Curve
from byheart.data.shape import DataShape
from byheart.errors import UsageError, import_extra
from byheart.files.whole_file import write_whole
from byheart.measure.tabulate import Compared, pooled_columns
from byheart.report.growth import Crossover, Growth, GrowthCurve

_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c564b", "#7f7f7f", "#9467bd", "#bcbd22"
)  # fmt: skip
# the numbers of markers and colours differ, so that a pair of colour and marker is used again only after many lines
_MARKERS = "osD^v<>Ph*"
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
SUFFIXES = (".png", ".svg", ".pdf")
_MOST_TICKS = 12
_TITLE_WIDTH = 90  # characters in a line of a small title


def new_figure(path: Path, size: tuple[float, float], **settings: Any) -> Any:
    """Make a figure to save at `path`. Raise `UsageError` for an unknown suffix, and `MissingExtra` without matplotlib."""
    if path.suffix not in SUFFIXES:
        raise UsageError(
            f"{path}: the name of a figure's file must end in one of {', '.join(SUFFIXES)}.", path=str(path)
        )
    # pyplot is not used, because importing it takes as long as everything else
    return import_extra("matplotlib.figure", "figures", "Drawing a figure").Figure(figsize=size, **settings)


def save_figure(figure: Any, path: Path) -> None:
    """Write the figure to a file, atomically."""
    write_whole(path, lambda file: figure.savefig(file, format=path.suffix[1:], dpi=150))


def draw_growth(records: Sequence[Growth], path: str | Path) -> None:
    """Draw one panel per record: built sizes (solid), estimated sizes (dotted), and the points where curves intersect.

    The symbol × marks the last size that was built, if building a larger one failed. A filled circle marks a point where another
    construction becomes the smallest.

    The suffix of `path` chooses the format: .png, .svg or .pdf. Needs the `figures` extra.
    """
    figure = new_figure(Path(path), (6.8 * len(records), 5.2), layout="constrained")
    panels = figure.subplots(1, len(records), squeeze=False)[0]
    # each construction has the same colour and marker in all panels
    methods = dict.fromkeys(curve.method for record in records for curve in record.curves)
    colours = {method: number for number, method in enumerate(methods)}
    for axes, record in zip(panels, records, strict=True):
        _draw_panel(axes, record, colours)
    save_figure(figure, Path(path))


def _draw_panel(axes: Any, record: Growth, colours: dict[str, int]) -> None:
    for rank, curve in enumerate(record.curves):
        # later curves are thinner, so that two equal curves are both visible
        _draw_curve(axes, curve, colours[curve.method], width=2.8 - 1.8 * rank / len(record.curves))
    for crossover in record.crossovers:
        _mark(axes, crossover)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="samples N",
        ylabel="dense parameters",
        title=_describe(record.shape),
    )
    axes.legend(frameon=False, fontsize=8)
    axes.grid(alpha=0.2)
    legend = "solid: built and verified    dotted: estimated\n●  another construction becomes the smallest    ○  other crossings"
    axes.text(0.98, 0.02, legend, transform=axes.transAxes, ha="right", va="bottom", fontsize=8)


def _mark(axes: Any, crossover: Crossover) -> None:
    filled, above = ("black", 6) if crossover.on_envelope else ("white", 5)
    place = (crossover.n_samples, crossover.parameters)
    axes.plot(*place, "o", color="black", mfc=filled, ms=5, mew=0.8, zorder=above)
    if crossover.on_envelope:
        text = f"N ≈ {in_words(crossover.n_samples)}"
        axes.annotate(text, place, textcoords="offset points", xytext=(6, -12), fontsize=8)


def in_words(number: float) -> str:
    """Return a number of at least 1 as text with two significant digits, such as 28, 1,100 or 1.5·10⁸. Below 10, return a whole
    number.
    """
    exponent = int(f"{number:.1e}".partition("e")[2])
    if exponent < 4:
        return f"{float(f'{number:.1e}'):,.0f}"
    return f"{number / 10**exponent:.1f}·10{str(exponent).translate(_RAISED)}"


def _draw_curve(axes: Any, curve: GrowthCurve, number: int, width: float) -> None:
    colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]
    n_built, built = zip(*curve.built, strict=True)
    style = {"color": colour, "lw": width}
    axes.plot(n_built, built, marker + "-", label=f"{curve.method} ({curve.precision})", ms=4, **style)
    last = curve.built[-1]
    if curve.is_refused:  # a cross: the construction refused more data, or memory ran out
        axes.plot(*last, "x", color=colour, ms=10)
    n_planned, planned = zip(*curve.points[len(curve.built) - 1 :], strict=True)
    axes.plot(n_planned, planned, ":", **style)


def _describe(shape: DataShape) -> str:
    kind = f"vectors, d = {shape.dim}" if shape.vocab is None else f"tokens, vocabulary {shape.vocab:,}"
    return f"{shape.task}, n = {shape.seq_len}, {kind}, C = {shape.n_classes:,}"


STYLES: dict[str, dict[str, Any]] = {  # kinds can be distinguished without colour too
    "estimate": {"linestyle": "-", "color": "#0072b2"},
    "theorem": {"linestyle": "--", "color": "#aa4499"},
    "trained": {"linestyle": "-.", "color": "#d55e00"},
    "floor": {"linestyle": ":", "color": "#555555"},
}
MEANING = {"estimate": "estimate", "theorem": "promised", "trained": "trained", "floor": "floor"}
_LABEL_STEP = 0.033  # distance between two names, as a share of the height of the axes


def draw_plan(curves: Sequence[Curve], title: str, path: Path) -> None:
    """Draw the curves that `bounds.planner.curves` computes, on two logarithmic axes, and save the figure.

    The suffix of `path` determines the format. The name of each curve is at its right end. Curves of model sizes are of three
    kinds: estimates of constructions, promises of theorems, and trained models. Lower bounds are a fourth kind.

    One curve of each of the first three kinds is thick: of the curves that reach the largest number of facts, the one whose
    middle point has the fewest parameters.
    """
    figure = new_figure(path, (9.6, 5.4))
    axes = figure.add_axes((0.07, 0.1, 0.6, 0.83))  # room for the names on the right
    ends = {curve.name: curve.points[-1] for curve in curves}
    last = max((facts for facts, _ in ends.values()), default=0)
    whole = [curve for curve in curves if ends[curve.name][0] == last]
    least = {kind: min((c for c in whole if c.kind == kind), key=_middle, default=None) for kind in STYLES}
    least["floor"] = None  # lower bounds are never drawn thick
    for curve in curves:
        facts, parameters = zip(*curve.points, strict=True)
        is_least = curve is least[curve.kind]
        style = {"linewidth": 2.6 if is_least else 1.1, "alpha": 1.0 if is_least else 0.7}
        axes.loglog([float(n) for n in facts], [float(n) for n in parameters], **STYLES[curve.kind], **style)
    axes.set(xlabel="facts", ylabel="parameters", title=title)
    axes.grid(visible=True, which="major", alpha=0.25)
    axes.margins(x=0.02)
    low, high = (math.log10(limit) for limit in axes.get_ylim())
    for curve in curves:
        if curve not in whole:  # the name is at the end of the line
            at = [float(value) for value in ends[curve.name]]
            text, colour = f" {MEANING[curve.kind]}: {curve.name}", STYLES[curve.kind]["color"]
            axes.plot(*at, "o", ms=3, color=colour)
            white = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.5}
            axes.text(*at, text, fontsize=8, color=colour, va="bottom", ha="left", bbox=white)
    place = math.inf
    for curve in sorted(whole, key=lambda curve: float(ends[curve.name][1]), reverse=True):
        share = (math.log10(float(ends[curve.name][1])) - low) / (high - low)
        place = min(share, place - _LABEL_STEP)
        axes.annotate(
            f"{MEANING[curve.kind]}: {curve.name}",
            [float(value) for value in ends[curve.name]],
            xytext=(1.05, place),
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            fontweight="bold" if curve is least[curve.kind] else "normal",
            color=STYLES[curve.kind]["color"],
            arrowprops={
                "arrowstyle": "-",
                "color": STYLES[curve.kind]["color"],
                "lw": 0.6,
                "alpha": 0.6,
                "relpos": (0, 0.5),
            },
        )
    save_figure(figure, Path(path))


def _middle(curve: Curve) -> float:
    return float(curve.points[len(curve.points) // 2][1])


@dataclass(frozen=True)
class ComparedLine:
    """One line in a figure that compares groups of runs. Its groups differ only in the column that is on the x axis.

    Each group is one point (x, mean, low, high), where low and high are the ends of the interval of the mean.
    """

    label: str
    points: tuple[tuple[Any, float, float, float], ...]


def compared_lines(found: Sequence[Compared]) -> tuple[ComparedLine, ...]:
    """Return the lines that `byheart runs compare --figure` draws.

    The first column of each setting is the x axis, and the other columns distinguish the lines.

    Settings whose mean is not finite are left out. If a setting has no interval, both ends are set to the mean.
    """
    lines: dict[str, list[tuple[Any, float, float, float]]] = {}
    for group in found:
        (_, x), *others = group.setting.items()
        label = ", ".join(f"{name.rpartition('.')[2]} = {value}" for name, value in others)
        low, high = group.interval or (group.mean, group.mean)
        if math.isfinite(group.mean):
            lines.setdefault(label, []).append((x, group.mean, low, high))
    return tuple(ComparedLine(label, tuple(points)) for label, points in lines.items())


def share_limits(lines: Sequence[ComparedLine]) -> tuple[float, float]:
    """Return the ends of an axis that shows 0, 1 and all intervals, with some space at both ends.

    Student's interval of a share may extend below 0 or above 1.
    """
    least = min([0.0, *(low for line in lines for _, _, low, _ in line.points)])
    most = max([1.0, *(high for line in lines for _, _, _, high in line.points)])
    space = 0.03 * (most - least)
    return least - space, most + space


def draw_comparison(found: Sequence[Compared], metric: str, path: Path) -> None:
    """Draw means with their intervals over seeds, and save the figure. The suffix of `path` determines the format.

    If some means are over runs that differ in more than their seeds, the title names the columns in which they differ.
    """
    figure = new_figure(path, (6.4, 4.2), layout="constrained")
    if not found:
        raise UsageError("there is nothing to draw, because no run was selected.")
    if not found[0].setting:
        raise UsageError(
            "there is nothing to draw, because all runs have the same setting. Choose a column for the x axis "
            "with --by COLUMN."
        )
    lines = compared_lines(found)
    axes, x_label = figure.subplots(), next(iter(found[0].setting))
    is_number = all(isinstance(point[0], int | float) for line in lines for point in line.points)
    for number, line in enumerate(lines):
        x, mean, low, high = zip(*line.points, strict=True)
        errors = [
            [m - one for m, one in zip(mean, low, strict=True)],
            [one - m for m, one in zip(mean, high, strict=True)],
        ]
        axes.errorbar(
            x if is_number else [str(one) for one in x],
            mean,
            yerr=errors,
            label=line.label or None,
            color=_COLOURS[number % len(_COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)],
            ms=4,
            lw=1.4,
            capsize=3,
        )
    places = sorted({point[0] for line in lines for point in line.points}) if is_number else []
    if 0 < len(places) <= _MOST_TICKS:
        axes.set_xticks(places)
    if metric.endswith("accuracy"):
        axes.set_ylim(*share_limits(lines))
    axes.set(xlabel=x_label, ylabel=f"mean {metric}, 95% interval over seeds")
    pooled = pooled_columns(found)
    if pooled:
        text = f"points without an interval are means over runs that differ in {', '.join(pooled)}"
        axes.set_title(fill(text, _TITLE_WIDTH), fontsize=8)
    axes.grid(alpha=0.2)
    if len(lines) > 1:
        axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path)
