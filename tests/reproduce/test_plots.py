"""What figures look like: nothing in them is mathematics that the page cannot read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from byheart.reproduce.figure import Panel, Series
from byheart.reproduce.figure_files import read_record
from byheart.reproduce.plots import as_svg, power_of_ten

RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.mark.parametrize(
    ("value", "word"), [(1e-3, "10⁻³"), (1.0, "10⁰"), (1e12, "10¹²"), (2e-3, ""), (0.0, ""), (-1.0, "")]
)
def test_powers_of_ten_are_plain_text(value: float, word: str) -> None:
    assert power_of_ten(value) == word


def test_axes_and_bars_are_labelled_in_plain_text() -> None:
    line = Series("law", "measured", (1.0, 1e4), (1e-6, 1.0))
    panels = (
        Panel("long", "x", "y", (line,), "log", "log"),
        Panel("short", "x", "y", (replace(line, x=(3.0, 13.0)),), "log"),
        Panel(
            "map", "x", "y", columns=(1.0, 2.0, 3.0, 4.0), rows=(4.0,), cells=((0.5, 1e-5, 0.0999, 0.00994),)
        ),
    )
    drawn = as_svg(replace(read_record(RESULTS / "dana-2024-fig4.json"), panels=panels))
    assert "mathdefault" not in drawn
    for word in ("10⁻⁴", ">5<", "&lt;.01", ">50<", ">10<", ">.99<"):
        assert word in drawn
