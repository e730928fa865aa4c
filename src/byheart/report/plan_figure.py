"""The capacity plan as a figure: parameters against facts, every line with its source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from byheart.bounds import Curve
from byheart.report.canvas import new_figure

STYLES = {
    "estimate": {"linestyle": "-", "linewidth": 2.0},
    "theorem": {"linestyle": "--", "linewidth": 1.2},
    "trained": {"linestyle": "-.", "linewidth": 1.6},
    "floor": {"linestyle": ":", "linewidth": 1.6},
}
MEANING = {"estimate": "estimate", "theorem": "promised", "trained": "trained", "floor": "floor"}


def draw_plan(curves: Sequence[Curve], title: str, path: Path) -> None:
    """Draw the lines of `bounds.curves` on two logarithmic axes and save them; the suffix chooses the format."""
    figure = new_figure(path, (9.6, 5.4))
    axes = figure.add_axes((0.07, 0.1, 0.58, 0.83))  # the legend stands on the right
    for curve in curves:
        facts, parameters = zip(*curve.points, strict=True)
        axes.loglog(
            [float(value) for value in facts],
            [float(value) for value in parameters],
            label=f"{MEANING[curve.kind]}: {curve.name}",
            **STYLES[curve.kind],
        )
    axes.set(xlabel="facts", ylabel="parameters", title=title)
    axes.grid(visible=True, which="major", alpha=0.25)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
