"""Draw the record of any figure: panels of lines and points, or heat maps, at print size.

Panels with the same axes share them. Legends are below the axes and never cover data. The first six colours are those of Okabe
and Ito, which colour-blind readers can distinguish. Most lines also have different markers or dashes.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from byheart.errors import import_extra
from byheart.files.whole_file import write_whole
from byheart.reproduce.figure import FigureRecord, Panel, Series, Style

LOOKS: dict[Style, tuple[str, str]] = {  # colour, marker and line style
    "measured": ("#0072b2", "o-"),
    "second": ("#d55e00", "s-"),
    "third": ("#56b4e9", "^--"),
    "fourth": ("#e69f00", "v--"),
    "fifth": ("#009e73", "D:"),
    "sixth": ("#cc79a7", "P:"),
    "seventh": ("#332288", "X-."),
    "published": ("#000000", "x"),
    "fit": ("#117733", "--"),
    "fit2": ("#aa4499", ":"),
    "bound": ("#555555", "-."),
    "bound2": ("#999999", ":"),
    "closed-form": ("#882255", "*:"),
}
LINES = {"solid": "o-", "dashed": "s--", "points": "x"}
CELLS = (1e-3, 1e4)  # the ends of the colour scale of a heat map
MANY = 40  # with more points than this, markers are left out
PER_ROW = 3
WIDTHS = {1: 4.6, 2: 7.2, 3: 9.6}  # width in inches, by number of panels in a row
TITLE_LETTERS = {1: 60, 2: 46, 3: 38}  # width of a line
SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "svg.fonttype": "none",  # keep text as text, not as paths
    "text.parse_math": False,  # a dollar sign in a name does not start a formula
}


def draw(record: FigureRecord, folder: Path) -> list[Path]:
    """Write NAME.png and NAME.svg to `folder`, each atomically."""
    paths = [folder / f"{record.figure}{suffix}" for suffix in (".png", ".svg")]
    with _settings(record):
        figure = _figure(record)
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else None
            write_whole(path, partial(figure.savefig, dpi=200, format=path.suffix[1:], metadata=metadata))
    return paths


def as_svg(record: FigureRecord) -> str:
    """Return the figure as one SVG element, for a self-contained page."""
    buffer = io.StringIO()
    with _settings(record):
        _figure(record).savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _settings(record: FigureRecord) -> Any:
    """Return a context manager in whose block the same version of matplotlib draws the same SVG file whenever it draws the same
    record.
    """
    mpl = import_extra("matplotlib", "figures", "Drawing a figure")
    return mpl.rc_context({**SETTINGS, "svg.hashsalt": record.figure})


def _figure(record: FigureRecord) -> Any:
    from matplotlib.figure import Figure

    most = PER_ROW if not any(panel.cells for panel in record.panels) else PER_ROW - 1  # cells hold numbers
    columns = 2 if len(record.panels) == 4 else min(most, max(1, len(record.panels)))
    rows = math.ceil(max(1, len(record.panels)) / columns)
    labels = _shared_labels(record.panels)
    ncols = _legend_columns(labels, WIDTHS[columns])
    legend_rows = math.ceil(len(labels) / ncols)
    figure = Figure(figsize=(WIDTHS[columns], 2.9 * rows + 0.17 * legend_rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    first: dict[tuple[str, ...], Any] = {}
    for panel, place in zip(record.panels, axes, strict=False):
        if panel.cells:
            _heat_map(figure, place, panel)
        else:
            twin = first.setdefault(_axes_of(panel), place)
            if twin is not place:
                place.sharex(twin)
                place.sharey(twin)
            alike = [one for one in record.panels if _axes_of(one) == _axes_of(panel)]
            _lines(place, panel, _y_limits(alike), has_legend=not labels)
        place.set(xlabel=panel.x_label, ylabel=panel.y_label)
        place.set_title(textwrap.fill(panel.title, TITLE_LETTERS[columns]))
    for place in axes[len(record.panels) :]:
        place.set_visible(False)
    if labels:
        handles = {h.get_label(): h for place in axes for h in place.get_legend_handles_labels()[0]}
        figure.legend([handles[label] for label in labels], labels, loc="outside lower center", ncols=ncols)
    return figure


def _shared_labels(panels: Sequence[Panel]) -> list[str]:
    """Return the labels of all lines if one legend is enough for all panels: there must be at most 12 labels, and each must have a
    single style. Otherwise, return an empty list.
    """
    looks = {(one.label, one.style) for panel in panels for one in panel.series}
    labels = list(dict.fromkeys(one.label for panel in panels for one in panel.series))
    return labels if len(looks) == len(labels) <= 12 else []


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """Return the number of legend columns that fit. A letter is about 0.06 inches wide. A line sample and the space beside it are
    0.45 inches wide.
    """
    widest = 0.45 + 0.06 * max((len(label) for label in labels), default=1)
    return max(1, min(len(labels), int(width / widest)))


def _axes_of(panel: Panel) -> tuple[str, ...]:
    """Return a key of the axes. Panels with equal keys share their axes."""
    return (panel.x_label, panel.y_label, panel.x_scale, panel.y_scale)


def _y_limits(panels: Sequence[Panel]) -> tuple[float, ...]:
    """Return limits of a logarithmic y axis that enclose all points, or an empty tuple if the axis is linear. Points that are not
    positive and finite are ignored, as are bands, because a band that reaches down to 0 would fill the picture.
    """
    drawn = [y for panel in panels for one in panel.series for y in one.y if 0 < y < math.inf]
    return (min(drawn) / 2, max(drawn) * 2) if drawn and panels[0].y_scale == "log" else ()


def _lines(axes: Any, panel: Panel, y_limits: tuple[float, ...], *, has_legend: bool) -> None:
    for one in panel.series:
        _series(axes, one, panel.y_range)
    axes.set(xscale=panel.x_scale, yscale=panel.y_scale)
    if y_limits:
        axes.set_ylim(*y_limits)
    for axis, scale in ((axes.xaxis, panel.x_scale), (axes.yaxis, panel.y_scale)):
        if scale == "log":
            _ticks(axis)
    axes.grid(alpha=0.2)
    if has_legend and panel.series:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    if panel.x_scale == "linear":
        axes.xaxis.get_major_locator().set_params(integer=True)


def _ticks(axis: Any) -> None:
    """Set plain numbers at 1, 2 and 5 on a short logarithmic axis, and powers of ten on a longer one.

    (matplotlib would write both as formulas.)
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    is_short = high < 100 * low
    if is_short:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,g}" if is_short else power_of_ten(value))
    )
    axis.set_minor_formatter(NullFormatter())


def power_of_ten(value: float) -> str:
    """Write a power of ten, such as 10⁻³ for 0.001. Return an empty text for any other number."""
    exponent = round(math.log10(value)) if value > 0 else 0
    if value <= 0 or not math.isclose(value, 10.0**exponent, rel_tol=1e-6):
        return ""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _series(axes: Any, one: Series, y_range: tuple[float, ...]) -> None:
    colour, marker = LOOKS[one.style]
    marker = LINES.get(one.line, marker)
    if len(one.x) > MANY and marker[0] not in "-.:":
        marker = marker[1:] or "-"
    axes.plot(one.x, one.y, marker, color=colour, label=one.label, ms=3.5, lw=1.1)
    if one.low and any(math.isfinite(low) for low in one.low) and len(one.x) <= MANY:
        least, most = y_range or (-math.inf, math.inf)
        low, high = [max(end, least) for end in one.low], [min(end, most) for end in one.high]
        axes.fill_between(one.x, low, high, color=colour, alpha=0.18, lw=0)


def _heat_map(figure: Any, axes: Any, panel: Panel) -> None:
    import numpy as np
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter

    values = np.clip(np.array(panel.cells, dtype=float), *CELLS)
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="cividis_r", norm=LogNorm(*CELLS))
    axes.set_xticks(range(len(panel.columns)), [f"{x:g}" for x in panel.columns])
    axes.set_yticks(range(len(panel.rows)), [f"{y:g}" for y in panel.rows])
    axes.tick_params(axis="x", labelsize=8 if len(panel.columns) < 8 else 6.5)
    for row, line in enumerate(panel.cells):
        for column, value in enumerate(line):
            if math.isfinite(value):
                colour = "white" if value > 1 else "black"
                axes.text(column, row, brief(value), ha="center", va="center", fontsize=6, color=colour)
    bar = figure.colorbar(image, ax=axes, shrink=0.85, format=FuncFormatter(lambda value, _: f"{value:g}"))
    bar.ax.minorticks_off()


def brief(value: float) -> str:
    """Write a positive number briefly, such as 7.9k, 147, 8.3, .02 or 5e-4.

    Numbers from 1e-9 to 999,000 take at most four characters. Numbers that are not positive are written as 0.
    """
    if value >= 999.5:
        return f"{value / 1000:.1f}k" if value < 9950 else f"{value / 1000:.0f}k"
    if value >= 9.95:
        return f"{value:.0f}"
    if value >= 0.995:
        return f"{value:.1f}"
    if value >= 0.00995:
        return f"{value:.2f}"[1:]
    return f"{value:.0e}".replace("e-0", "e-") if value > 0 else "0"
