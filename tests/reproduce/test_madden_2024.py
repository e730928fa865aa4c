"""What MFT24's panels conclude from planted gaps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from byheart.measure.records import Run
from byheart.measure.sources import training_set_of
from byheart.measure.text_samples import Samples
from byheart.reproduce.figure import Computed, Facts, Scale
from byheart.reproduce.madden_2024.figure_1 import falls, same_share
from byheart.reproduce.madden_2024.runs import FROZEN_STORIES, WIDTHS
from byheart.reproduce.madden_2024.subsets import cells, gather_facts, parameters
from byheart.reproduce.observation import Observation
from byheart.reproduce.published import madden_2024, madden_2024_gaps
from byheart.reproduce.registry import figure_of
from byheart.theorems import checks
from tests.reproduce.planted import compute, observations_of, trial_of

LEFT, RIGHT = "madden-2024-fig1-left", "madden-2024-fig1-right"


def gap(run: Run, needed: float) -> dict[str, float]:
    """Passing from `needed` hidden units on, the gap falling with the width and rising with the stories."""
    width, stories = run.model.sizes["hidden_width"], run.data["n_samples"]
    share = 0.00999 * (needed / width) ** 2 * (1 + stories / 1e6)
    return {"relative_gap": share, "gap": share * stories}


def planted_gaps(samples: Samples, needed: float) -> list[Observation]:
    return observations_of(LEFT, lambda run: gap(run, needed), samples)


@pytest.fixture(scope="module")
def facts(samples: Samples) -> Facts:
    return gather_facts("paper", planted_gaps(samples, 24), samples)


@pytest.mark.slow
@checks("MFT24-F1 left")
def test_the_heat_map_shows_every_gap_and_which_way_it_falls(samples: Samples, facts: Facts) -> None:
    verdict, computed = compute(LEFT, planted_gaps(samples, 24), facts)
    assert verdict.outcome == "holds"
    trained, theirs, frozen, lines = computed.panels
    built = facts["closed form"]
    assert max(one["relative_gap"] for one in built) < 1e-9  # rounding in float64, conditioned below 1e9
    assert lines.series[-1].x == tuple(float(one["n_contexts"]) for one in built)
    assert (
        set(WIDTHS) == {int(width) for width in trained.columns} == {int(width) for width in theirs.columns}
    )
    assert len(trained.rows) == len(theirs.rows) == 10
    assert len(frozen.rows) == len(FROZEN_STORIES)
    assert trained.cells[0][0] == pytest.approx(0.00999 * 36 * 100, rel=1e-3)  # nats: of 100 stories, width 4
    rising = [
        replace(one, measured={**one.measured, "gap": 1 / one.measured["gap"]})
        for one in planted_gaps(samples, 24)
    ]
    assert compute(LEFT, rising, facts)[0].outcome == "does not hold as the paper has it"


def smallest_at_100(computed: Computed) -> dict[str, str]:
    """By grid and rule, the smallest passing width on 100 stories, seed by seed."""
    table = computed.tables[0]
    assert table.rows[0][0] == "100"
    return dict(zip(table.heads[1:], table.rows[0][1:], strict=True))


@checks("MFT24-F1 right")
def test_the_smallest_width_is_found_on_the_papers_grid_and_on_the_finer_one(
    samples: Samples, facts: Facts
) -> None:
    verdict, computed = compute(RIGHT, planted_gaps(samples, 23), facts)
    # one width for all, and these words' vocabulary is full: nothing grows
    assert verdict.outcome == "does not hold as the paper has it"
    assert smallest_at_100(computed) == {"the paper's widths": "32/32/32", "finer widths": "24/24/24"}
    assert computed.checks[0].holds
    _, too_wide = compute(RIGHT, planted_gaps(samples, 200), facts)
    assert smallest_at_100(too_wide)["the paper's widths"] == "256/256/256"
    assert not too_wide.checks[0].holds


@checks("MFT24-F1 right")
def test_widths_that_grow_with_the_stories_are_a_line(samples: Samples, facts: Facts) -> None:
    found = observations_of(RIGHT, lambda run: gap(run, 10 + 0.03 * run.data["n_samples"]), samples)
    assert trial_of(compute(RIGHT, found, facts)[0], "finer widths") is True
    flat = compute(RIGHT, planted_gaps(samples, 23), facts)[0]
    assert trial_of(flat, "finer widths") is False


@checks("MFT24-F1 left")
def test_the_authors_own_map_passes_the_rule_that_judges_ours() -> None:
    """PAPERS and their plot: 24 of 34 neighbours fall along the contexts, and their smallest widths pass on their map."""
    theirs = madden_2024_gaps()
    assert falls(theirs, along="stories") == (24, 34)
    n_good, n_all = falls(theirs, along="width")
    assert n_good == n_all == 35
    for row in madden_2024():
        passing = [width for width in WIDTHS if theirs[row.n_stories, width][1] < 0.01]
        assert min(passing) == row.min_hidden_width


def test_fishers_test_of_two_shares() -> None:
    """Against scipy, on the tables that the figure judges and on one that differs."""
    from scipy.stats import fisher_exact

    for first, second in (((26, 38), (24, 34)), ((39, 42), (35, 35)), ((3, 30), (28, 30))):
        table = [[good, n - good] for good, n in (first, second)]
        assert same_share(first, second) == pytest.approx(fisher_exact(table)[1])


def test_a_width_that_was_not_tried_leaves_the_smallest_open(samples: Samples, facts: Facts) -> None:
    some = [one for one in planted_gaps(samples, 23) if one.sizes["hidden_width"] not in (16, 20)]
    _, computed = compute(RIGHT, some, facts)
    assert smallest_at_100(computed)["the paper's widths"] == "-/-/-"


@checks("MFT24-F1 right")
def test_a_subset_nothing_passes_on_leaves_the_verdict_open(samples: Samples, facts: Facts) -> None:
    assert compute(RIGHT, planted_gaps(samples, 2000), facts)[0].outcome == "not settled"


def test_contexts_vocabulary_and_entropy_are_those_of_the_subset(samples: Samples, facts: Facts) -> None:
    for cell in cells(planted_gaps(samples, 24), facts)[:3]:
        data = training_set_of(samples.describe("tinystories", cell.subset.n_stories, cell.subset.seed))
        assert (cell.subset.n_contexts, cell.subset.vocab) == (data.n_rows, data.n_vocab)
        assert cell.subset.entropy == pytest.approx(data.entropy)


def test_parameters_are_counted_as_in_the_stored_results() -> None:
    for row in madden_2024():
        assert parameters(row.min_hidden_width, row.vocab) == row.n_parameters


@pytest.mark.parametrize(("scale", "steps"), [("smoke", "150"), ("laptop", "2,000"), ("paper", "50,000")])
def test_the_number_of_steps_is_that_of_the_scale(scale: Scale, steps: str) -> None:
    nothing: Facts = {"closed form": [], "subsets": []}
    for name in (LEFT, RIGHT):
        choices = figure_of(name).compute(scale, [], nothing).choices
        assert f"Every model is trained for {steps} steps, and its final loss decides." in choices
