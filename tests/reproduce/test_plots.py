"""What figures look like: nothing in them is mathematics that the page cannot read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from byheart.reproduce.figure import Panel, Series
from byheart.reproduce.figure_files import read_record
from byheart.reproduce.plots import LOOKS, as_svg, brief, power_of_ten

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
        Panel("map", "x", "y", columns=(1.0, 2.0, 3.0, 4.0), rows=(4.0,), cells=((0.5, 1e-5, 7859.0, 99.4),)),
    )
    drawn = as_svg(replace(read_record(RESULTS / "dana-2024-fig4.json"), panels=panels))
    texts = {text.strip() for text in ElementTree.fromstring(drawn).itertext()}
    assert {"10⁻⁴", "5", ".50", "1e-5", "7.9k", "99"} <= texts


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (7859.0, "7.9k"),
        (12345.0, "12k"),
        (147.2, "147"),
        (8.31, "8.3"),
        (0.0204, ".02"),
        (5e-4, "5e-4"),
        (0.0, "0"),
    ],
)
def test_cells_hold_at_most_four_letters(value: float, word: str) -> None:
    assert brief(value) == word
    assert len(word) <= 4


def test_no_two_styles_share_a_colour() -> None:
    assert len({colour for colour, _ in LOOKS.values()}) == len(LOOKS)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*-*.json")), ids=lambda path: path.stem)
def test_no_two_lines_of_a_panel_look_the_same(path: Path) -> None:
    for panel in read_record(path).panels:
        looks = [(one.style, one.line) for one in panel.series]
        assert len(set(looks)) == len(looks), panel.title


def test_bands_stay_within_what_is_possible() -> None:
    line = Series("law", "measured", (1.0, 2.0), (0.9, 0.95), (0.5, 0.6), (1.7, 1.8), 3)
    record = read_record(RESULTS / "dana-2024-fig4.json")
    wide, clipped = (
        as_svg(replace(record, panels=(Panel("a", "x", "y", (line,), y_range=ends),)))
        for ends in ((), (0.0, 1.0))
    )
    assert ">1.6<" in wide
    assert ">1.6<" not in clipped
