"""Draw a record, whatever its figure: panels of lines and points, or a heat map."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

from byheart.errors import MissingExtra
from byheart.reproduce.figure import FigureRecord, Panel, Series, Style

COLOURS: dict[Style, str] = {
    "measured": "#0072b2",
    "second": "#d55e00",
    "third": "#56b4e9",
    "fourth": "#e69f00",
    "fifth": "#009e73",
    "sixth": "#cc79a7",
    "published": "#000000",
    "bound": "#555555",
    "bound2": "#999999",
    "fit": "#0072b2",
    "closed-form": "#cc79a7",
}
MARKERS: dict[Style, str] = {
    "measured": "o-",
    "second": "s-",
    "third": "^--",
    "fourth": "v--",
    "fifth": "D:",
    "sixth": "P:",
    "published": "x",
    "bound": "-.",
    "bound2": ":",
    "fit": "--",
    "closed-form": "*:",
}
MANY = 40  # points beyond which markers are left out
PER_ROW = 3


def draw(record: FigureRecord, folder: Path) -> list[Path]:
    """Write NAME.png and NAME.svg into `folder`."""
    figure = _figure(record)
    paths = [folder / f"{record.figure}{suffix}" for suffix in (".png", ".svg")]
    with _settings(record):
        for path in paths:
            figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def as_svg(record: FigureRecord) -> str:
    """The figure as one SVG element, for a page that carries everything in itself."""
    buffer = io.StringIO()
    figure = _figure(record)
    with _settings(record):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _settings(record: FigureRecord) -> Any:
    """Names in the SVG come from the record, so that the same record gives the same file; text stays text."""
    import matplotlib as mpl

    return mpl.rc_context({"svg.hashsalt": record.figure, "svg.fonttype": "none"})


def _figure(record: FigureRecord) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "figures", "Drawing a figure") from error
    columns = min(PER_ROW, max(1, len(record.panels)))
    rows = math.ceil(max(1, len(record.panels)) / columns)
    figure = Figure(figsize=(5.6 * columns, 4.3 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for panel, place in zip(record.panels, axes, strict=False):
        _heat_map(figure, place, panel) if panel.cells else _lines(place, panel)
        place.set(xlabel=panel.x_label, ylabel=panel.y_label)
        place.set_title(panel.title, fontsize=10)
    for place in axes[len(record.panels) :]:
        place.set_visible(False)
    return figure


def _lines(axes: Any, panel: Panel) -> None:
    for one in panel.series:
        _series(axes, one)
    if panel.x_scale == "log":
        axes.set_xscale("log")
    if panel.y_scale == "log":
        axes.set_yscale("log")
    for axis, scale in ((axes.xaxis, panel.x_scale), (axes.yaxis, panel.y_scale)):
        if scale == "log":
            _ticks(axis)
    axes.grid(alpha=0.2)
    axes.legend(frameon=False, fontsize=7.5)


def _ticks(axis: Any) -> None:
    """On a short logarithmic axis plain numbers at 1, 2 and 5; matplotlib's own would run into each other."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())


def _series(axes: Any, one: Series) -> None:
    marker = MARKERS[one.style]
    if len(one.x) > MANY:
        marker = "-"
    axes.plot(one.x, one.y, marker, color=COLOURS[one.style], label=one.label, ms=4.5, lw=1.3)
    if one.low and any(math.isfinite(low) for low in one.low) and len(one.x) <= MANY:
        axes.fill_between(one.x, one.low, one.high, color=COLOURS[one.style], alpha=0.15, lw=0)


def _heat_map(figure: Any, axes: Any, panel: Panel) -> None:
    import numpy as np
    from matplotlib.colors import LogNorm

    values = np.clip(np.array(panel.cells, dtype=float), 1e-4, None)
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis_r", norm=LogNorm())
    axes.set_xticks(range(len(panel.columns)), [f"{x:g}" for x in panel.columns], fontsize=7)
    axes.set_yticks(range(len(panel.rows)), [f"{y:g}" for y in panel.rows], fontsize=7)
    for row, line in enumerate(panel.cells):
        for column, value in enumerate(line):
            if math.isfinite(value):
                share = f"{100 * value:.0f}%" if value >= 1 else f"{100 * value:.2g}%"
                word = share if value >= 0.001 else "<0.1%"
                colour = "white" if value > 0.05 else "black"
                axes.text(column, row, word, ha="center", va="center", fontsize=6, color=colour)
    figure.colorbar(image, ax=axes, shrink=0.85)
