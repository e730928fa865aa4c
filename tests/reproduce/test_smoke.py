"""Every figure from fresh runs at the smallest scale: trained, computed, drawn, and drawn again from its file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from byheart.measure.store import Store
from byheart.measure.text_samples import Samples
from byheart.reproduce.figure_files import make_record, read_record, recompute, to_json, verdict_text
from byheart.reproduce.plots import as_svg, draw
from byheart.reproduce.registry import FIGURES, figure_of
from byheart.reproduce.runner import stages_of, work
from tests.reproduce.planted import small_samples


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return small_samples(tmp_path_factory.mktemp("few"), most=120)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The runs of the figures at smoke scale; what one figure has trained, another that needs it finds."""
    with Store(tmp_path_factory.mktemp("store") / "runs.sqlite") as opened:
        yield opened


# A curve and a search over runs, which show that figures can be made; the others take as long again each.
QUICK = ("dana-2024-fig1a", "kajitsuka-sato-2025-length")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in FIGURES]
)
def test_a_figure_is_made_from_its_runs_and_again_from_its_record(
    name: str, store: Store, few: Samples, tmp_path: Path
) -> None:
    done = work(stages_of([name], "smoke", few), store, device="cpu")
    assert all(part.is_complete for part in done)
    record = make_record(name, "smoke", few, store)
    assert record.verdict.outcome == "not settled"
    assert record.panels
    for panel in record.panels:
        assert panel.cells or any(len(series.x) > 1 for series in panel.series)
    path = tmp_path / f"{name}.json"
    path.write_text(to_json(record))
    again = read_record(path)
    assert to_json(again) == to_json(record)
    assert verdict_text(again).startswith(record.title)
    # at this scale there is no counter-argument, so there is no line for one
    assert not any(line.endswith(" ") for line in verdict_text(again).splitlines())
    assert recompute(again) == []
    png, svg = draw(again, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert record.panels[0].x_label in svg.read_text()
    assert as_svg(again) == as_svg(read_record(path))


def test_the_same_work_again_trains_nothing(store: Store, few: Samples) -> None:
    first, done = (work(stages_of(["dana-2024-fig1a"], "smoke", few), store, device="cpu") for _ in range(2))
    assert all(part.is_complete for part in first)
    assert [part.n_trained for part in done] == [0] * len(done)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_says_what_it_is(name: str) -> None:
    figure = figure_of(name)
    assert figure.name == name
    assert figure.claim
    assert figure.rule
    assert all(statement.startswith(f"{figure.paper}-") for statement in figure.statements)
