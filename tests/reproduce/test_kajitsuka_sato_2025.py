"""What KS25's figures conclude from planted losses."""

from __future__ import annotations

import math

import pytest

from byheart.measure.records import Run
from byheart.reproduce.kajitsuka_sato_2025 import fig3, length
from byheart.reproduce.kajitsuka_sato_2025.trials import best_trials, fewest_blocks, loss, n_blocks
from byheart.reproduce.registry import figure_of
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import SeedValues
from byheart.theorems import checks
from tests.reproduce.planted import planted, records_of, runs_of


@checks("KS25-F1", "KS25-F2")
@pytest.mark.parametrize("name", ["kajitsuka-sato-2025-fig1", "kajitsuka-sato-2025-fig2"])
def test_training_holds_where_accuracy_nears_one_with_blocks(name: str, samples: Samples) -> None:
    figure = figure_of(name)

    def better(run: Run) -> dict[str, float]:
        trial = 0.0 if run.training.learning_rate == 0.01 else 0.3  # one learning rate is good
        depth = run.model.sizes["n_blocks"]
        return {"loss": 1 / depth + trial, "accuracy": 1 - 0.2 / depth - trial}

    computed = figure.compute("paper", records_of(name, better, samples), samples)
    assert computed.verdict.outcome == "holds"
    assert computed.numbers["frozen"]["accuracy"][0] == pytest.approx(0.8)

    def worse(run: Run) -> dict[str, float]:
        return {"loss": 1.0, "accuracy": 0.9 - 0.01 * run.model.sizes["n_blocks"]}

    assert (
        figure.compute("paper", records_of(name, worse, samples), samples).verdict.outcome == "does not hold"
    )


def planted_fig3(samples: Samples, power: float, factor: float) -> tuple[str, dict[str, bool], float]:
    """The verdict, what holds, and the exponent where the table is 512 wide, from planted needs factor (N / 600)^power."""

    def law(run: Run) -> dict[str, float]:
        needed = factor * (run.data["n_samples"] / 600) ** power * (1 + 0.02 * run.seed)
        return {"loss": 0.001 if run.model.sizes["n_blocks"] >= needed else 0.5}

    records = records_of("kajitsuka-sato-2025-fig3", law, samples)
    computed = fig3.compute("paper", records, samples)
    fit = computed.numbers["frozen, width 512"]["exponent, 600 to 1400"]
    exponent = math.nan if fit is None else fit["exponent"][0]
    holds = {check.name: check.holds for check in computed.verdict.checks}
    return computed.verdict.outcome, holds, exponent


GROWTH = "√N growth over 600 to 1400, table frozen, width 512"
MEMORISED = "every size is memorised by some number of blocks, table frozen, width 512"


@checks("KS25-F3")
def test_fig3_tells_a_square_root_from_a_square(samples: Samples) -> None:
    _, holds, exponent = planted_fig3(samples, 0.5, 3.6)
    # rungs are a factor of two apart; at this need their rounding evens out best
    assert exponent == pytest.approx(0.5, abs=0.25)
    assert holds[GROWTH]
    assert holds[MEMORISED]
    _, holds, exponent = planted_fig3(samples, 1.4, 1.5)
    assert exponent > 1
    assert not holds[GROWTH]
    assert holds[MEMORISED]


@checks("KS25-F3")
def test_fig3_says_so_where_nothing_memorises(samples: Samples) -> None:
    outcome, holds, exponent = planted_fig3(samples, 0.5, 100)
    assert outcome == "does not hold"
    assert not any(holds.values())
    assert math.isnan(exponent)


def test_beyond_the_small_sizes_growth_is_told_from_the_law() -> None:
    sizes = tuple(float(n) for n in range(600, 1701, 100))
    root = SeedValues(sizes, tuple((math.sqrt(n),) for n in sizes))
    faster = SeedValues(sizes, tuple((math.sqrt(n) * (2 if n > 1400 else 1),) for n in sizes))
    assert fig3.beyond(root) == pytest.approx(1)
    assert fig3.beyond(faster) == pytest.approx(2)
    assert fig3.beyond(SeedValues(sizes[:3], root.values[:3])) is None


@checks("KS25-length")
def test_the_length_study_asks_for_four_blocks_at_every_length() -> None:
    def four(run: Run) -> dict[str, float]:
        needed = 4 if run.model.sizes["width"] == 2 else 2
        return {"loss": 0.005 if run.model.sizes["n_blocks"] >= needed else 0.5}

    records = records_of("kajitsuka-sato-2025-length", four)
    computed = length.compute("paper", records)
    assert computed.verdict.outcome == "holds"
    assert computed.numbers["m = 2, 1000 epochs"]["fewest blocks"]["10"] == [4, 4, 4]

    def longer_is_harder(run: Run) -> dict[str, float]:
        return {"loss": 0.1 * math.log10(run.data["seq_len"])}

    records = records_of("kajitsuka-sato-2025-length", longer_is_harder)
    assert length.compute("paper", records).verdict.outcome == "does not hold"


def test_lengths_are_also_compared_on_the_trials_that_all_of_them_have() -> None:
    def by_blocks(run: Run) -> dict[str, float]:  # at m = 6 the longest sequences lack one block
        return {"loss": 0.001 if run.model.sizes["n_blocks"] == 1 else 0.25}

    records = records_of("kajitsuka-sato-2025-length", by_blocks)
    because = length.compute("paper", records).verdict.because
    m_6 = because[because.index("m = 6") :]
    assert "n = 1,000: 1/1/1, n = 10,000: none of 2, 3, 4" in m_6
    assert "0.250 (n = 10), 0.250 (n = 100), 0.250 (n = 1,000), 0.250 (n = 10,000)" in m_6


def test_the_best_trial_of_each_seed_counts_and_divergence_never_does() -> None:
    runs = [run for run in runs_of("kajitsuka-sato-2025-length", "paper") if run.data["seq_len"] == 10][:4]
    records = [
        planted(run, {"loss": value}) for run, value in zip(runs, (0.3, math.nan, 0.2, 0.4), strict=True)
    ]
    (best,) = best_trials(records, lambda record: (n_blocks(record),))
    assert loss(best) == 0.2


def test_fewest_blocks_need_not_be_monotone() -> None:
    runs = [
        run
        for run in runs_of("kajitsuka-sato-2025-length", "paper")
        if (run.data["seq_len"], run.seed, run.training.steps, run.model.sizes["width"]) == (10, 0, 1000, 2)
    ]
    records = [planted(run, {"loss": 0.001 if run.model.sizes["n_blocks"] == 3 else 0.5}) for run in runs]
    assert list(fewest_blocks(records, n_blocks_setting).values()) == [3]


def n_blocks_setting(record: object) -> int:
    return 0


@checks("KS25-F3", "KS25-length")
def test_with_sizes_or_lengths_missing_nothing_is_settled(samples: Samples) -> None:
    records = records_of("kajitsuka-sato-2025-length", lambda run: {"loss": 0.5})
    some = [record for record in records if record.config["data"]["seq_len"] == 10]
    assert length.compute("paper", some).verdict.outcome == "not settled"
    records = records_of("kajitsuka-sato-2025-fig3", lambda run: {"loss": 0.5}, samples)
    some = [record for record in records if record.config["data"]["n_samples"] < 1000]
    assert fig3.compute("paper", some).verdict.outcome == "not settled"
