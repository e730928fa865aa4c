"""Bits per parameter by capacity search, from planted outcomes."""

from __future__ import annotations

import math

import pytest

from byheart.measure.families import family_of
from byheart.measure.records import Run
from byheart.measure.sources import training_set_of
from byheart.reproduce.beyond_bits import memorised_bits
from byheart.reproduce.beyond_capacity import PASSES, bracket, data_bits, gather_facts, gpt_parameters
from byheart.reproduce.observation import Observation
from tests.reproduce.planted import compute, planted, runs_of


def true_size(run: Run) -> int:
    shapes = family_of(run.model.family).shapes(run.model, training_set_of(run.data))
    return sum(math.prod(shape) for shape in shapes.values())


def record(run: Run, measured: dict[str, float]) -> Observation:
    """A planted observation with the true numbers of parameters and samples."""
    return planted(run, measured, true_size(run), float(training_set_of(run.data).n_samples))


def records(density: float) -> list[Observation]:
    """GPTs memorise up to `density` bits per parameter, attention-only models from 26 heads on."""

    def measured(run: Run) -> dict[str, float]:
        if run.model.family == "gpt":
            right = 6 * run.data["n_samples"] <= density * true_size(run) + 6
        else:
            right = run.model.sizes["n_heads"] >= 26
        return {"accuracy": 1.0 if right else 0.5, "loss": 0.0 if right else 3.0}

    return [record(run, measured(run)) for run in runs_of("beyond-capacity", "paper")]


def test_parameters_are_counted_as_the_family_counts_them() -> None:
    for run in runs_of("beyond-capacity", "paper"):
        if run.model.family == "gpt":
            assert gpt_parameters(run.model.sizes["dim"]) == true_size(run)


@pytest.mark.parametrize(
    ("passed", "goal", "ends"),
    [
        ({1: True, 2: True, 3: False, 4: True}, "largest", (2, 3)),
        ({1: False, 2: True, 3: False, 4: True}, "smallest", (4, 3)),
        ({1: True, 2: True}, "largest", (2, None)),
        ({1: False, 2: False}, "smallest", (None, 2)),
    ],
)
def test_a_bracket_ends_at_the_first_failure_from_the_easy_end(
    passed: dict[int, bool], goal: str, ends: tuple[int | None, int | None]
) -> None:
    found = bracket(passed, goal=goal)
    assert (found.passes, found.fails) == ends


@pytest.mark.parametrize("density", [2.0, pytest.param(1.0, marks=pytest.mark.slow)])
def test_the_search_recovers_a_planted_capacity(density: float) -> None:
    found = records(density)
    verdict, computed = compute("beyond-capacity", found, gather_facts("paper", found, None))
    recalled = next(s for s in computed.panels[0].series if s.label.startswith("GPTs, most samples"))
    assert recalled.y == pytest.approx((density,) * 3, rel=0.01)
    heads = computed.numbers["attention-only, as-coded"]
    assert heads["fewest heads, by seed"] == [26, 26, 26]
    assert heads["most heads at which training failed, by seed"] == [21, 21, 21]
    assert verdict.outcome == "holds"


def test_where_nothing_passes_nothing_is_settled() -> None:
    found = records(0.1)
    assert compute("beyond-capacity", found, gather_facts("paper", found, None))[0].outcome == "not settled"


def test_bits_saved_are_what_the_loss_leaves() -> None:
    run = next(run for run in runs_of("beyond-capacity", "paper") if run.model.family == "gpt")
    whole = record(run, {"loss": 0.0})
    assert memorised_bits(whole) == data_bits(whole) == 6 * whole.n_samples
    assert memorised_bits(record(run, {"loss": math.log(64)})) == pytest.approx(0, abs=1e-9)
    assert memorised_bits(record(run, {"loss": math.nan})) == 0
    assert PASSES.holds({"accuracy": 0.99})
