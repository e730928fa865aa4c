"""What KS25's figures conclude from planted losses."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from byheart.measure.records import Run
from byheart.measure.text_samples import Samples
from byheart.reproduce.figure import Computed, Verdict
from byheart.reproduce.kajitsuka_sato_2025 import block_search
from byheart.reproduce.kajitsuka_sato_2025.runs import best_trials, fewest_blocks, likely_up_to, n_blocks
from byheart.reproduce.registry import figure_of
from byheart.reproduce.seed_values import SeedValues
from byheart.theorems import checks
from tests.reproduce.planted import compute, observations_of, planted, runs_of

OWN, FAR = likely_up_to(3e-4), likely_up_to(1e-3)
FAILS = "does not hold as the paper has it"


def claims(verdict: Verdict, condition: str) -> dict[str, bool | None]:
    """What the rule says of every claim under a condition."""
    return {trial.claim: trial.holds for trial in verdict.trials if trial.condition == condition}


def noise(run: Run) -> float:
    return 0.001 * run.seed


@checks("KS25-F1", "KS25-F2")
@pytest.mark.parametrize("name", ["kajitsuka-sato-2025-fig1", "kajitsuka-sato-2025-fig2"])
def test_training_holds_where_accuracy_nears_one_with_blocks(name: str, samples: Samples) -> None:
    def better(run: Run) -> dict[str, float]:
        trial = 0.0 if run.training.learning_rate in (0.01, 2e-4) else 0.3  # one learning rate is good
        depth = run.model.sizes["n_blocks"]
        return {"loss": 0.5 / depth + trial, "accuracy": 1 - 0.2 / depth - trial - noise(run)}

    verdict, computed = compute(name, observations_of(name, better, samples))
    assert verdict.outcome == "holds"
    assert computed.numbers[OWN]["accuracy by seed"][0] == pytest.approx(
        [0.8 - 0.001 * seed for seed in range(5)]
    )
    # two ranges of rates; words and sub-words, frozen and learned; and whether attention suffices
    assert len(verdict.trials) == 2 + 4 + 1

    def worse(run: Run) -> dict[str, float]:
        return {"loss": 1.0, "accuracy": 0.9 - 0.01 * run.model.sizes["n_blocks"] - noise(run)}

    verdict = compute(name, observations_of(name, worse, samples))[0]
    assert verdict.outcome == FAILS
    assert [trial.holds for trial in verdict.trials if trial.is_own] == [False, False]

    def one_block_is_enough(run: Run) -> dict[str, float]:
        return {"loss": 0.001, "accuracy": 1.0 - noise(run)}

    verdict = compute(name, observations_of(name, one_block_is_enough, samples))[0]
    assert verdict.outcome == FAILS  # attention suffices, and blocks bring nothing
    assert [trial.holds for trial in verdict.trials if trial.is_own] == [False, True]


def test_larger_rates_have_no_say_in_the_papers_own_range(samples: Samples) -> None:
    def only_large(run: Run) -> dict[str, float]:
        good = run.training.learning_rate > 3e-4 and run.model.sizes["n_blocks"] > 1
        return {"loss": 0.01 if good else 1.0, "accuracy": (0.99 if good else 0.4) - noise(run)}

    name = "kajitsuka-sato-2025-fig1"
    verdict = compute(name, observations_of(name, only_large, samples))[0]
    assert verdict.outcome == FAILS
    assert claims(verdict, OWN)["more blocks bring the accuracy near one"] is False
    assert claims(verdict, FAR)["more blocks bring the accuracy near one"] is True


@pytest.fixture(scope="module")
def search_runs(samples: Samples) -> list[Run]:
    """Those of one rate of each range: there are thousands of the others."""
    found = runs_of("kajitsuka-sato-2025-fig3", "paper", samples)
    return [run for run in found if run.training.learning_rate in (3e-4, 1e-3)]


def plant_search(runs: list[Run], needed: Callable[[Run], float]) -> tuple[Verdict, Computed]:
    """The verdict where so many blocks are needed, whatever the rate."""
    found = [
        planted(run, {"loss": 0.001 if run.model.sizes["n_blocks"] >= needed(run) else 0.5}) for run in runs
    ]
    return compute("kajitsuka-sato-2025-fig3", found)


@checks("KS25-F3")
def test_the_search_tells_a_square_root_from_a_line(search_runs: list[Run]) -> None:
    def law(power: float, late: float, spread: float) -> Callable[[Run], float]:
        def needed(run: Run) -> float:
            size = run.data["n_samples"]
            return 2.3 * (size / 600) ** power * (late if size > 1400 else 1) * (1 + spread * run.seed)

        return needed

    verdict, computed = plant_search(search_runs, law(0.5, 2.5, 0.15))
    fit = computed.numbers[OWN]["exponent, 600 to 1400"]
    assert fit["exponent"][0] == pytest.approx(0.5, abs=0.15)
    assert claims(verdict, OWN) == {block_search.ROOT: True, block_search.SHARP: True}
    assert verdict.outcome == "holds"
    verdict, _ = plant_search(search_runs, law(1.4, 1, 0))
    assert claims(verdict, OWN)[block_search.ROOT] is False


@checks("KS25-F3")
def test_searches_that_do_not_end_and_floors_are_censored(search_runs: list[Run]) -> None:
    verdict, computed = plant_search(search_runs, lambda run: 100)
    assert verdict.outcome == FAILS
    assert computed.numbers[OWN]["open"] == computed.numbers[OWN]["searches"] == 36
    verdict, computed = plant_search(search_runs, lambda run: 1)
    assert verdict.outcome == FAILS  # one block everywhere: a floor, not an exponent of 0
    assert computed.numbers[OWN]["exponent, 600 to 1400"] is None
    assert computed.numbers[OWN]["floors at one block"] == 36
    (row,) = [row for row in computed.tables[0].rows if row[0] == OWN]
    assert (row[2], row[4]) == ("100%", "censored")
    verdict, computed = plant_search(search_runs, lambda run: 1 if run.seed else 3)
    assert claims(verdict, OWN)[block_search.ROOT] is None
    assert verdict.outcome == "not settled"


def test_a_wide_interval_settles_nothing(search_runs: list[Run]) -> None:
    verdict, _ = plant_search(
        search_runs, lambda run: (2, 4, 12)[(run.seed + run.data["n_samples"] // 100) % 3]
    )
    assert claims(verdict, OWN)[block_search.ROOT] is None
    assert verdict.outcome == "not settled"


def test_the_best_of_all_seeds_counts_them_as_trials(search_runs: list[Run]) -> None:
    _, computed = plant_search(search_runs, lambda run: 3 + run.seed)
    pooled = computed.numbers[f"{OWN}, best of all seeds"]
    assert set(pooled["fewest blocks"].values()) == {3}


def test_beyond_the_small_sizes_growth_is_told_from_the_law() -> None:
    sizes = tuple(float(n) for n in range(600, 1701, 100))
    root = SeedValues(sizes, tuple((math.sqrt(n),) for n in sizes))
    faster = SeedValues(sizes, tuple((math.sqrt(n) * (2 if n > 1400 else 1),) for n in sizes))
    assert block_search.beyond(root) == pytest.approx(1)
    assert block_search.beyond(faster) == pytest.approx(2)
    assert block_search.beyond(SeedValues(sizes[:3], root.values[:3])) is None


@checks("KS25-length")
def test_the_length_study_asks_for_four_blocks_and_no_fewer_at_every_length() -> None:
    name, own = "kajitsuka-sato-2025-length", "m = 2, 1,000 epochs"

    def needs(blocks: int) -> Callable[[Run], dict[str, float]]:
        def measured(run: Run) -> dict[str, float]:
            # one seed of each length is enough: the paper's search takes the best trial
            return {"loss": 0.005 if run.seed == 1 and run.model.sizes["n_blocks"] >= blocks else 0.5}

        return measured

    verdict, computed = compute(name, observations_of(name, needs(4)))
    assert verdict.outcome == "holds"
    assert computed.numbers[own]["10"]["fewest blocks, by seed"] == [None, 4, None]
    verdict, _ = compute(name, observations_of(name, needs(2)))
    assert verdict.outcome == FAILS
    assert claims(verdict, own) == {"four blocks are enough": True, "four are the fewest": False}

    def longer_is_harder(run: Run) -> dict[str, float]:
        return {"loss": 0.1 * math.log10(run.data["seq_len"])}

    verdict, _ = compute(name, observations_of(name, longer_is_harder))
    assert claims(verdict, own) == {"four blocks are enough": False, "four are the fewest": False}


def test_lengths_are_also_compared_on_the_trials_that_all_of_them_have() -> None:
    def by_blocks(run: Run) -> dict[str, float]:  # at m = 6 the longest sequences lack one block
        return {"loss": 0.001 if run.model.sizes["n_blocks"] == 1 else 0.25}

    name = "kajitsuka-sato-2025-length"
    (table,) = compute(name, observations_of(name, by_blocks))[1].tables
    rows = {row[1]: row for row in table.rows if row[0] == "m = 6, 1,000 epochs"}
    assert (rows["1,000"][2], rows["10,000"][2]) == ("1", "none")
    assert {row[-1] for row in rows.values()} == {"0.250"}


def test_the_best_trial_of_each_seed_counts_and_divergence_never_does() -> None:
    runs = [run for run in runs_of("kajitsuka-sato-2025-length", "paper") if run.data["seq_len"] == 10][:4]
    found = [
        planted(run, {"loss": value}) for run, value in zip(runs, (0.3, math.nan, 0.2, 0.4), strict=True)
    ]
    (best,) = best_trials(found, lambda one: (n_blocks(one),))
    assert best.loss == 0.2


def test_fewest_blocks_need_not_be_monotone() -> None:
    runs = [
        run
        for run in runs_of("kajitsuka-sato-2025-length", "paper")
        if (run.data["seq_len"], run.seed, run.training.steps, run.model.sizes["width"]) == (10, 0, 1000, 2)
        and run.training.warmup == 100
    ]
    found = [planted(run, {"loss": 0.001 if run.model.sizes["n_blocks"] == 3 else 0.5}) for run in runs]
    assert list(fewest_blocks(found, lambda one: 0).values()) == [3]


@checks("KS25-F3", "KS25-length")
def test_with_sizes_or_lengths_missing_nothing_is_settled(search_runs: list[Run]) -> None:
    found = observations_of("kajitsuka-sato-2025-length", lambda run: {"loss": 0.5})
    some = [one for one in found if one.config["data"]["seq_len"] == 10]
    assert compute("kajitsuka-sato-2025-length", some)[0].outcome == "not settled"
    found = [planted(run, {"loss": 0.5}) for run in search_runs]
    some = [one for one in found if one.config["data"]["n_samples"] < 1000]
    assert compute("kajitsuka-sato-2025-fig3", some)[0].outcome == "not settled"


def test_the_learning_rates_of_the_length_study_are_those_of_its_runs() -> None:
    """At the paper's scale, three conditions at n = 10 have four rates, and one at n = 10,000 has one."""
    figure = figure_of("kajitsuka-sato-2025-length")
    assert "Learning rates: 0.01, 0.03." in figure.compute("laptop", [], {}).choices
    (said,) = (text for text in figure.compute("paper", [], {}).choices if "Learning rates" in text)
    usual, *others = said.removesuffix(".").split("; for ")
    assert usual == "Learning rates: 0.01, 0.03"
    assert [one.count("n = ") for one in others] == [3, 1]
    assert [one.rpartition(": ")[2] for one in others] == ["0.001, 0.003, 0.01, 0.03", "0.01"]
    assert "10,000 epochs" not in said
    assert "m = 6, 1,000 epochs)" not in said


def test_without_models_no_attention_suffices() -> None:
    trial = figure_of("kajitsuka-sato-2025-fig1").compute("paper", [], {}).trials[-1]
    assert (trial.holds, trial.found) == (None, "no model was trained")
