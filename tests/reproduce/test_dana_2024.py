"""What DPC24's figures conclude from planted accuracies: what the paper says if they follow it, and not otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from byheart.measure.records import Run
from byheart.reproduce.dana_2024 import curves, fig1a, fig2b, fig3, fig4
from byheart.reproduce.dana_2024.runs import accuracy, thin
from byheart.reproduce.figure import Scale
from byheart.reproduce.published import dana_2024
from byheart.reproduce.registry import figure_of
from byheart.reproduce.seed_values import SeedValues
from byheart.theorems import checks
from tests.reproduce.planted import planted, records_of, runs_of

STORED = {
    (row.dim, row.head_dim, row.n_heads): row.accuracy
    for figure in ("fig1b", "fig2a", "fig1a_fig2b")
    for row in dana_2024(figure)
}


def wiggle(run: Run) -> float:
    """A little noise that depends on the seed alone."""
    return (run.seed - 2) * 0.001


def stored(run: Run, factor: float = 1.0) -> dict[str, float]:
    sizes = run.model.sizes
    dim, head_dim, heads = sizes["dim"], sizes["head_dim"], sizes["n_heads"]
    grid = sorted(h for d, e, h in STORED if (d, e) == (dim, head_dim)) or [heads]
    value = np.interp(heads, grid, [STORED.get((dim, head_dim, h), 0.5) for h in grid])
    return {"accuracy_tail": float(value) * factor + wiggle(run)}


def outcome(name: str, measured: Callable[[Run], dict[str, float]]) -> str:
    computed = figure_of(name).compute("paper", records_of(name, measured), None)
    return computed.verdict.outcome


@checks("DPC24-F1a")
def test_fig1a_recovers_the_stored_slope_and_refuses_another() -> None:
    records = records_of("dana-2024-fig1a", stored)
    computed = fig1a.compute("paper", records)
    assert computed.verdict.outcome == "holds"
    slope, low, high = computed.numbers["fits"]["as-coded adam"]["slope"]
    assert slope == pytest.approx(0.0292, abs=0.0005)
    assert low < slope < high
    assert computed.numbers["associations per head"]["as-coded adam"] == pytest.approx(73, abs=1.5)
    assert outcome("dana-2024-fig1a", lambda run: stored(run, 0.5)) == "does not hold"


@checks("DPC24-F1a")
def test_fig1a_draws_every_way_of_training_and_both_bounds() -> None:
    (panel,) = fig1a.compute("paper", records_of("dana-2024-fig1a", stored)).panels
    labels = [series.label for series in panel.series]
    assert len(labels) == 3 + 1 + 2
    bound = next(series for series in panel.series if series.label == "DPC24 Corollary 2")
    assert bound.y[0] == pytest.approx(1 / 50 + 49 / 50 * (1 * 10 + 10) / 2500)


@checks("DPC24-F1b")
def test_fig1b_tells_a_parabola_from_a_line() -> None:
    assert outcome("dana-2024-fig1b", stored) == "holds"

    def line(run: Run) -> dict[str, float]:
        return {"accuracy_tail": 0.06 * run.model.sizes["head_dim"] + wiggle(run)}

    computed = figure_of("dana-2024-fig1b").compute("paper", records_of("dana-2024-fig1b", line), None)
    assert [check.holds for check in computed.verdict.checks][:2] == [False, False]


@checks("DPC24-F2a")
def test_fig2a_sees_the_bend_and_its_absence() -> None:
    assert outcome("dana-2024-fig2a", stored) == "holds"

    def straight(run: Run) -> dict[str, float]:
        return {"accuracy_tail": 0.05 * run.model.sizes["dim"] + wiggle(run)}

    assert outcome("dana-2024-fig2a", straight) == "does not hold"


@checks("DPC24-F2b")
@pytest.mark.parametrize(("power", "holds"), [(3, [True, True, True]), (2, [False, False, False])])
def test_fig2b_recovers_a_planted_exponent(power: int, holds: list[bool]) -> None:
    def law(run: Run) -> dict[str, float]:
        sizes = run.model.sizes
        slope = 2e-5 * sizes["dim"] ** power * (1 + 0.02 * (run.seed - 2))
        return {"accuracy_tail": slope * sizes["n_heads"]}

    computed = fig2b.compute("paper", records_of("dana-2024-fig2b", law))
    exponent, low, high = computed.numbers["fits"]["as-coded adam"]["exponent"]
    assert exponent == pytest.approx(power, abs=0.05)
    assert low <= power <= high
    assert [check.holds for check in computed.verdict.checks] == holds


def test_the_stored_points_have_exponent_3_4() -> None:
    from byheart.reproduce.seed_values import try_fit

    law = try_fit(fig2b.published_slopes(), "power")
    assert law is not None
    assert law.coefficients["exponent"].value == pytest.approx(3.4, abs=0.1)


@checks("DPC24-F3", "DPC24-S4.2.1")
@pytest.mark.parametrize(("lead", "expected"), [(0.0, "holds"), (0.2, "does not hold")])
def test_fig3_measures_the_lead_of_the_mlp(lead: float, expected: str) -> None:
    def equal(run: Run) -> dict[str, float]:
        sizes = run.model.sizes
        heads = sizes["n_heads"]
        for count in (*range(2, 27), 31):
            if sizes["mlp_width"] == fig3.matched_width(sizes["dim"], count):
                heads = count
        bonus = lead if sizes["mlp_width"] else 0.0
        return {"accuracy_tail": 0.02 * heads + bonus + wiggle(run)}

    computed = fig3.compute("paper", records_of("dana-2024-fig3", equal))
    assert computed.verdict.outcome == expected
    mean, _, _ = computed.numbers["as coded, d = 7"]["MLP less attention"]
    assert mean == pytest.approx(lead)


def test_matched_widths_have_as_many_parameters_as_the_heads_they_stand_for() -> None:
    for dim in (7, 10, 13):
        width = fig3.matched_width(dim, 11)
        assert abs(width * (2 * dim + 1) - 10 * 4 * dim * dim) <= (2 * dim + 1) / 2


@checks("DPC24-F4")
def test_fig4_counts_associations_per_head() -> None:
    def law(run: Run) -> dict[str, float]:
        memorised = min(100, 1.7 * 5 * run.model.sizes["n_heads"] + 4)
        return {"accuracy_tail": 0.1 + 0.9 * memorised / 100}

    computed = fig4.compute("paper", records_of("dana-2024-fig4", law))
    assert computed.verdict.outcome == "holds"
    slope = computed.numbers["fits"]["as-coded adam"]["slope"][0]
    # the paper's rule keeps the first point above 0.95, which is cut off at 1, so the slope is a little low
    assert fig4.associations_per_head(slope, 10) / 5 == pytest.approx(1.7, abs=0.25)
    assert outcome("dana-2024-fig4", lambda run: {"accuracy_tail": 0.1}) == "does not hold"


def test_the_repaired_bound_counts_the_rank_a_narrow_stream_allows() -> None:
    (panel,) = fig4.compute("paper", records_of("dana-2024-fig4", stored)).panels
    repaired, printed = panel.series[-2:]
    assert repaired.y[-1] == pytest.approx(0.1 + 0.9 * 44 / 100)  # 21 heads of rank 2, and d
    assert printed.y[-1] == 1.0


def test_accuracy_is_that_of_the_last_steps_where_there_is_one() -> None:
    run = next(iter(records_of("dana-2024-fig1a", stored)))
    assert accuracy(run) == run.measured["accuracy_tail"]
    without = planted(next(iter(runs_of("dana-2024-fig1a", "paper"))), {"accuracy": 0.3})
    assert accuracy(without) == 0.3


@pytest.mark.parametrize("name", ["dana-2024-fig1a", "dana-2024-fig2b", "dana-2024-fig3", "dana-2024-fig4"])
def test_with_runs_missing_nothing_is_settled(name: str) -> None:
    few = [r for r in records_of(name, stored) if r.config["sizes"]["n_heads"] == 1]
    computed = figure_of(name).compute("paper", few, None)
    assert computed.verdict.outcome == "not settled"


def test_every_stored_point_is_compared() -> None:
    def worse_position_first(run: Run) -> dict[str, float]:
        return stored(run, 0.5 if run.model.options["variant"] == "position-first" else 1.0)

    close = figure_of("dana-2024-fig2a").compute(
        "paper", records_of("dana-2024-fig2a", worse_position_first), None
    )
    ours, other = (close.numbers["stored points"][name] for name in ("as coded", "position first"))
    assert ours["points"] == other["points"] == 11
    assert ours["within 0.06"] == 11
    assert other["mean difference"] < -0.1 < ours["mean difference"]
    numbers = fig2b.compute("paper", records_of("dana-2024-fig2b", stored)).numbers
    assert numbers["stored points"]["as coded"]["points"] == 69


def test_where_there_are_fewer_points_as_many_may_miss() -> None:
    published = SeedValues((1, 2, 3, 4), ((0.1,), (0.2,), (0.3,), (0.4,)))
    two = SeedValues((1, 4), ((0.1,), (0.9,)))
    assert curves.agreement(two, published, 3).holds
    assert curves.agreement(two, published, 3).wanted == "at least 1 of 2"
    assert not curves.agreement(SeedValues((4,), ((0.9,),)), published, 4).holds


@pytest.mark.parametrize(("scale", "count"), [("smoke", 3), ("laptop", 6)])
def test_smaller_scales_keep_the_ends_of_a_grid(scale: Scale, count: int) -> None:
    found = thin(range(1, 11), scale)
    assert (found[0], found[-1], len(found)) == (1, 10, count)
    assert thin(range(1, 11), "paper") == tuple(range(1, 11))
