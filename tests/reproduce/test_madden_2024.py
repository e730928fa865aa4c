"""What MFT24's panels conclude from planted gaps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from byheart.measure.records import Record, Run
from byheart.measure.sources import training_set_of
from byheart.reproduce.madden_2024 import fig1_left, fig1_right
from byheart.reproduce.madden_2024.capacities import cells, parameters
from byheart.reproduce.madden_2024.runs import WIDTHS
from byheart.reproduce.samples import Samples
from byheart.theorems import checks
from tests.reproduce.planted import records_of


def gap(run: Run, needed: float) -> dict[str, float]:
    """Passing from `needed` hidden units on, the gap falling with the width and rising with the stories."""
    width, stories = run.model.sizes["hidden_width"], run.data["n_samples"]
    share = 0.00999 * (needed / width) ** 2 * (1 + stories / 1e6)
    return {"relative_gap": share, "gap": share * stories}


def records(samples: Samples, needed: float) -> list[Record]:
    return records_of("madden-2024-fig1-left", lambda run: gap(run, needed), samples)


@checks("MFT24-F1 left")
def test_the_heat_map_shows_every_gap_and_which_way_it_falls(samples: Samples) -> None:
    computed = fig1_left.compute("paper", records(samples, 24), samples)
    assert computed.verdict.outcome == "holds"
    panel, lines = computed.panels
    built = computed.numbers["closed form"]
    assert max(one["relative_gap"] for one in built) < 1e-9  # rounding in float64, conditioned below 1e9
    assert lines.series[-1].x == tuple(float(one["n_contexts"]) for one in built)
    assert set(WIDTHS) == {int(width) for width in panel.rows}
    assert len(panel.columns) == 10
    assert panel.cells[0][0] == pytest.approx(0.00999 * 36, rel=1e-3)
    rising = [
        replace(record, measured=record.measured | {"gap": 1 / record.measured["gap"]})
        for record in records(samples, 24)
    ]
    assert fig1_left.compute("paper", rising, samples).verdict.outcome == "does not hold"


@checks("MFT24-F1 right")
def test_the_smallest_width_is_found_on_the_papers_grid_and_on_the_finer_one(samples: Samples) -> None:
    computed = fig1_right.compute("paper", records(samples, 23), samples)
    first = computed.numbers["subsets"][0]
    assert (first["smallest width"], first["smallest width, finer"]) == (32, 24)
    assert [check.holds for check in computed.verdict.checks][1] is True
    too_wide = fig1_right.compute("paper", records(samples, 200), samples)
    assert too_wide.numbers["subsets"][0]["smallest width"] == 256
    assert [check.holds for check in too_wide.verdict.checks][1] is False


@checks("MFT24-F1 right")
def test_a_subset_nothing_passes_on_leaves_the_verdict_open(samples: Samples) -> None:
    computed = fig1_right.compute("paper", records(samples, 2000), samples)
    assert computed.verdict.outcome == "not settled"


def test_contexts_vocabulary_and_entropy_are_those_of_the_subset(samples: Samples) -> None:
    found = cells(records(samples, 24), samples)
    for cell in found[:3]:
        training_set = training_set_of(
            samples.describe("tinystories", cell.subset.n_stories, cell.subset.seed)
        )
        assert (cell.subset.n_contexts, cell.subset.vocab) == (training_set.n_rows, training_set.n_vocab)
        assert cell.subset.entropy == pytest.approx(training_set.entropy)


def test_parameters_are_counted_as_in_the_stored_results() -> None:
    from byheart.reproduce.published import madden_2024

    for row in madden_2024():
        assert parameters(row.min_hidden_width, row.vocab) == row.n_parameters
