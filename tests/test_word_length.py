"""What longer words buy: the lines and points of the figure."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from byheart.errors import UsageError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))

import word_length
from word_length import Point, draw_words, growth, planned_parameters, read_points, write_points

from tests.refusal import refused

POINT = Point(1000, 53, 4000, 4000.0, 52, 1000, 0)


def test_longer_words_never_need_more_parameters() -> None:
    sizes = [planned_parameters(10**5, word_bits) for word_bits in (24, 53, 128, 256, None)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 3 * sizes[-1]


@pytest.mark.slow
def test_parameters_grow_as_the_root_with_words_of_any_size_and_linearly_with_floats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(word_length, "GROWTH", (10**5, 10**7, 10**9))

    def exponent(word_bits: int | None) -> float:
        facts, parameters = np.log(np.array(growth(word_bits)).T)
        return float(np.polyfit(facts, parameters, 1)[0])

    assert exponent(None) == pytest.approx(0.5, abs=0.03)
    assert exponent(53) > 0.85


@pytest.mark.slow
def test_lines_end_where_words_are_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_length, "GROWTH", (10**7, 10**8))
    assert (len(growth(24)), len(growth(53))) == (1, 2)


@pytest.mark.slow
def test_points_are_stored_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="the package matplotlib is not installed")
    for name, short in (("WORD_BITS", (24, 53)), ("SAMPLES", (1000,)), ("GROWTH", (1000, 2000))):
        monkeypatch.setattr(word_length, name, short)
    path = tmp_path / "points.json"
    write_points([POINT], path)
    assert read_points(path) == (POINT,)
    assert POINT.bits_per_parameter == 1.0
    draw_words(read_points(path), tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text().count("<svg") == 1
    with refused(UsageError, "path"):
        draw_words((), tmp_path / "figure.gif")
    path.write_text('{"schema": "other"}')
    with refused(UsageError, "path"):
        read_points(path)
