"""What KS25's figures conclude from planted losses."""

from __future__ import annotations

import math

import pytest

from byheart.measure.records import Run
from byheart.measure.text_samples import Samples
from byheart.reproduce.figure import Verdict
from byheart.reproduce.kajitsuka_sato_2025 import block_search
from byheart.reproduce.kajitsuka_sato_2025.runs import best_trials, fewest_blocks, n_blocks
from byheart.reproduce.seed_values import SeedValues
from byheart.theorems import checks
from tests.reproduce.planted import compute, observations_of, planted, runs_of, trial_of

FROZEN = "words, frozen table of width 256"


@checks("KS25-F1", "KS25-F2")
@pytest.mark.parametrize("name", ["kajitsuka-sato-2025-fig1", "kajitsuka-sato-2025-fig2"])
def test_training_holds_where_accuracy_nears_one_with_blocks(name: str, samples: Samples) -> None:
    def better(run: Run) -> dict[str, float]:
        trial = 0.0 if run.training.learning_rate == 0.01 else 0.3  # one learning rate is good
        depth = run.model.sizes["n_blocks"]
        return {"loss": 1 / depth + trial, "accuracy": 1 - 0.2 / depth - trial}

    verdict, computed = compute(name, observations_of(name, better, samples))
    assert verdict.outcome == "holds"
    assert len(verdict.trials) == 4  # words and sub-words, frozen and learned
    assert computed.numbers[FROZEN]["accuracy by seed"][0] == pytest.approx([0.8] * 3)

    def worse(run: Run) -> dict[str, float]:
        return {"loss": 1.0, "accuracy": 0.9 - 0.01 * run.model.sizes["n_blocks"]}

    assert compute(name, observations_of(name, worse, samples))[0].outcome == "does not hold"

    def one_block_is_enough(run: Run) -> dict[str, float]:
        return {"loss": 0.001, "accuracy": 1.0}

    assert compute(name, observations_of(name, one_block_is_enough, samples))[0].outcome == "does not hold"


def plant_search(samples: Samples, power: float, factor: float) -> tuple[Verdict, float]:
    """The verdict, and the exponent where the table is 512 wide, from planted needs factor (N / 600)^power."""

    def law(run: Run) -> dict[str, float]:
        needed = factor * (run.data["n_samples"] / 600) ** power * (1 + 0.02 * run.seed)
        return {"loss": 0.001 if run.model.sizes["n_blocks"] >= needed else 0.5}

    name = "kajitsuka-sato-2025-fig3"
    verdict, computed = compute(name, observations_of(name, law, samples))
    fit = computed.numbers["words, frozen table of width 512"]["exponent, 600 to 1400"]
    return verdict, math.nan if fit is None else fit["exponent"][0]


@checks("KS25-F3")
def test_the_search_tells_a_square_root_from_a_line(samples: Samples) -> None:
    verdict, exponent = plant_search(samples, 0.5, 4.6)
    assert exponent == pytest.approx(0.5, abs=0.1)
    assert trial_of(verdict, "words, frozen table of width 512") is True
    verdict, exponent = plant_search(samples, 1.1, 4.6)
    assert exponent == pytest.approx(1.1, abs=0.15)
    assert trial_of(verdict, "words, frozen table of width 512") is False


@checks("KS25-F3")
def test_the_search_says_so_where_nothing_memorises(samples: Samples) -> None:
    verdict, exponent = plant_search(samples, 0.5, 100)
    assert verdict.outcome == "does not hold"
    assert math.isnan(exponent)


def test_a_wide_interval_settles_nothing(samples: Samples) -> None:
    def noisy(run: Run) -> dict[str, float]:
        needed = (1, 4, 15)[(run.seed + run.data["n_samples"] // 100) % 3]
        return {"loss": 0.001 if run.model.sizes["n_blocks"] >= needed else 0.5}

    name = "kajitsuka-sato-2025-fig3"
    verdict, computed = compute(name, observations_of(name, noisy, samples))
    assert trial_of(verdict, FROZEN) is None
    assert verdict.outcome == "not settled"
    said = next(trial.found for trial in verdict.trials if trial.condition == FROZEN)
    low, high = computed.numbers[FROZEN]["exponent, 600 to 1400"]["exponent"][1:]
    n_seeds = math.ceil(3 * ((high - low) / block_search.WIDEST) ** 2)
    n_runs = (n_seeds - 3) * 4 * len(block_search.BLOCKS) * 2  # four sizes, two learning rates
    assert said.endswith(f"to settle it takes {n_runs:,} (up to {n_seeds} seeds) more runs")


def test_beyond_the_small_sizes_growth_is_told_from_the_law() -> None:
    sizes = tuple(float(n) for n in range(600, 1701, 100))
    root = SeedValues(sizes, tuple((math.sqrt(n),) for n in sizes))
    faster = SeedValues(sizes, tuple((math.sqrt(n) * (2 if n > 1400 else 1),) for n in sizes))
    assert block_search.beyond(root) == pytest.approx(1)
    assert block_search.beyond(faster) == pytest.approx(2)
    assert block_search.beyond(SeedValues(sizes[:3], root.values[:3])) is None


@checks("KS25-length")
def test_the_length_study_asks_for_four_blocks_at_every_length() -> None:
    name = "kajitsuka-sato-2025-length"

    def four(run: Run) -> dict[str, float]:
        needed = 4 if run.model.sizes["width"] == 2 else 2
        return {"loss": 0.005 if run.model.sizes["n_blocks"] >= needed else 0.5}

    verdict, computed = compute(name, observations_of(name, four))
    assert verdict.outcome == "holds"
    assert computed.numbers["m = 2, 1,000 epochs"]["10"]["fewest blocks, by seed"] == [4, 4, 4]

    def longer_is_harder(run: Run) -> dict[str, float]:
        return {"loss": 0.1 * math.log10(run.data["seq_len"])}

    assert compute(name, observations_of(name, longer_is_harder))[0].outcome == "does not hold"


def test_lengths_are_also_compared_on_the_trials_that_all_of_them_have() -> None:
    def by_blocks(run: Run) -> dict[str, float]:  # at m = 6 the longest sequences lack one block
        return {"loss": 0.001 if run.model.sizes["n_blocks"] == 1 else 0.25}

    name = "kajitsuka-sato-2025-length"
    (table,) = compute(name, observations_of(name, by_blocks))[1].tables
    rows = {row[1]: row for row in table.rows if row[0].startswith("m = 6")}
    assert (rows["1,000"][2], rows["10,000"][2]) == ("1/1/1", "none")
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
    ]
    found = [planted(run, {"loss": 0.001 if run.model.sizes["n_blocks"] == 3 else 0.5}) for run in runs]
    assert list(fewest_blocks(found, lambda one: 0).values()) == [3]


@checks("KS25-F3", "KS25-length")
def test_with_sizes_or_lengths_missing_nothing_is_settled(samples: Samples) -> None:
    found = observations_of("kajitsuka-sato-2025-length", lambda run: {"loss": 0.5})
    some = [one for one in found if one.config["data"]["seq_len"] == 10]
    assert compute("kajitsuka-sato-2025-length", some)[0].outcome == "not settled"
    found = observations_of("kajitsuka-sato-2025-fig3", lambda run: {"loss": 0.5}, samples)
    some = [one for one in found if one.config["data"]["n_samples"] < 1000]
    assert compute("kajitsuka-sato-2025-fig3", some)[0].outcome == "not settled"
