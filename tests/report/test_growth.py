"""The record behind the figure: sizes as built and as estimated, and where they cross."""

from __future__ import annotations

from pathlib import Path

import pytest

from byheart.data.shape import DataShape
from byheart.errors import UsageError
from byheart.report.figures import draw_growth, in_words
from byheart.report.growth import GrowthCurve, crossovers, growth
from tests.refusal import refused

SHAPE = DataShape(1, 1, 16, dim=4)


def curve(name: str, exponent: float, factor: float) -> GrowthCurve:
    sizes = tuple((10**k, round(factor * 10 ** (k * exponent))) for k in range(1, 13))
    return GrowthCurve(name, "exact", sizes[:2], sizes, "")


def test_a_crossover_lies_where_the_sizes_are_equal() -> None:
    (found,) = crossovers([curve("linear", 1.0, 3), curve("root", 0.5, 3000)])
    assert found.n_samples == pytest.approx(10**6, rel=0.01)
    assert found.parameters == pytest.approx(3 * 10**6, rel=0.01)
    assert (found.smaller, found.larger) == ("root", "linear")
    assert found.on_envelope


def test_crossovers_under_a_smaller_construction_are_not_on_the_envelope() -> None:
    three = [curve("linear", 1.0, 3), curve("root", 0.5, 3000), curve("tiny", 0.5, 1)]
    inner = [found for found in crossovers(three) if {found.smaller, found.larger} == {"linear", "root"}]
    assert [found.on_envelope for found in inner] == [False]


def test_the_record_holds_built_and_estimated_sizes() -> None:
    record = growth(SHAPE, ["two-layer-relu", "vardi-2022"], sizes=(10, 40), largest=10**5)
    assert [c.method for c in record.curves] == ["two-layer-relu", "vardi-2022"]
    line = record.curves[0]
    assert line.built == ((10, 33), (40, 123))
    assert line.planned[0] == (10, 33)
    assert line.planned[-1][0] == 10**5
    assert line.ended == "no larger size was tried"
    assert record.to_json()["shape"]["dim"] == 4


def test_what_does_not_take_such_data_has_no_curve() -> None:
    several = DataShape(1, 3, 4, vocab=50, ordered=True)
    record = growth(several, ["two-layer-relu", "kajitsuka-sato-2025-sparse", "kim-2023"], sizes=(10,))
    assert [c.method for c in record.curves] == ["kim-2023"]
    ((name, reason),) = record.refused
    assert name == "two-layer-relu"
    assert "up to 3 tokens" in reason


def test_slow_builds_and_refusals_end_a_curve() -> None:
    (quick,) = growth(SHAPE, ["vardi-2022"], sizes=(10, 20), seconds=0, largest=100).curves
    assert [n for n, _ in quick.built] == [10]
    assert "took" in quick.ended


def test_a_lack_of_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lack(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("byheart.report.growth.compile", lack)
    assert growth(SHAPE, ["vardi-2022"], sizes=(10,)).refused == (("vardi-2022", "N = 10: MemoryError"),)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_figure_is_drawn_in_every_format(tmp_path: Path, suffix: str) -> None:
    record = growth(SHAPE, ["two-layer-relu", "park-2021"], sizes=(10,), largest=10**12)
    path = tmp_path / f"growth.{suffix}"
    draw_growth([record, record], path)
    assert path.stat().st_size > 1000


def test_other_formats_are_refused(tmp_path: Path) -> None:
    with refused(UsageError, "path"):
        draw_growth([], tmp_path / "growth.gif")


def test_numbers_beside_crossovers() -> None:
    numbers = (27.9, 99.7, 1072, 9960, 1.515e8)
    assert [in_words(number) for number in numbers] == ["28", "100", "1,100", "1.0·10⁴", "1.5·10⁸"]
