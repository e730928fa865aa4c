"""Bisection finds what is there, in few runs; tuning asks whole rounds; both resume from the store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import byheart as bh
from byheart.errors import MissingExtra, UsageError
from byheart.measure.capacity import Bracket, bisect, capacity_of
from byheart.measure.fits import mean_interval
from byheart.measure.measurement import carry_out
from byheart.measure.records import Record, Run
from byheart.measure.specification import specification_of
from byheart.measure.store import Store
from byheart.measure.tuner import best, tune
from byheart.measure.workers import train_here
from tests.examples import examples
from tests.refusal import refused


@examples(200)
@given(st.integers(0, 1000), st.integers(1, 5000), st.lists(st.integers(0, 6000), min_size=1, max_size=5))
def test_bisection_brackets_every_threshold(low: int, span: int, thresholds: list[int]) -> None:
    high = low + span
    asked: set[tuple[int, int]] = set()

    def judge(pairs: Sequence[tuple[int, int]]) -> list[bool]:
        assert asked.isdisjoint(pairs)  # nothing is trained twice
        asked.update(pairs)
        return [value >= thresholds[search] for search, value in pairs]

    for threshold, bracket in zip(
        thresholds, bisect(len(thresholds), low, high, "smallest", judge), strict=True
    ):
        assert bracket.n_runs <= 2 + (span - 1).bit_length()
        if threshold <= low:
            assert (bracket.passes, bracket.fails) == (low, None)
        elif threshold > high:
            assert (bracket.passes, bracket.fails) == (None, low)
        else:
            assert (bracket.passes, bracket.fails) == (threshold, threshold - 1)


@examples(200)
@given(st.integers(1, 500), st.integers(1, 500), st.integers(0, 1200))
def test_bisection_finds_the_largest(low: int, span: int, threshold: int) -> None:
    high = low + span
    (bracket,) = bisect(1, low, high, "largest", lambda pairs: [value <= threshold for _, value in pairs])
    if low <= threshold < high:
        assert (bracket.passes, bracket.fails) == (threshold, threshold + 1)
    else:
        assert not bracket.is_closed


def test_intervals_over_seeds() -> None:
    brackets = [Bracket(value, value - 1, 5) for value in (10, 12, 14)] + [Bracket(None, 3, 2)]
    found = capacity_of(brackets, "smallest")
    assert found.estimate == 12
    assert found.interval == mean_interval([10, 12, 14])
    assert found.n_open == 1
    assert capacity_of(brackets[3:], "smallest").estimate is None
    assert capacity_of(brackets[:1], "smallest").interval is None


def specification(**changes: Any) -> Any:
    table = {
        "seeds": 2,
        "model": {"family": "attention-only", "dim": 2, "head_dim": 2, "n_heads": 0},
        "data": {"kind": "facts", "n_vocab": 8, "n_classes": 4, "n_samples": 6},
        "training": {"steps": 150, "optimiser": "lbfgs", "dtype": "float64"},
        "pass": {"metric": "accuracy", "threshold": 1.0},
    }
    return specification_of(table | changes, Path())


@pytest.mark.slow
def test_linear_memory_has_a_known_answer(tmp_path: Path) -> None:
    """With no heads the model is U(e(t) + pos): free logits of rank d per token.

    SeedValues on a circle are all extreme, so d = 2 stores any labels of 24 facts; with d = 1 two classes at most win for
    large |e|, and one more between them in any order of slopes without offsets never does: 4 classes cannot be stored.
    """
    spec = specification(
        model={"family": "attention-only", "dim": 1, "head_dim": 1, "n_heads": 0},
        data={"kind": "facts", "n_vocab": 24, "n_classes": 4, "n_samples": 24},
        training={"steps": 600, "optimiser": "lbfgs", "dtype": "float64"},
        search={"axis": "model.dim", "low": 1, "high": 16},
    )
    with Store(tmp_path / "runs.sqlite") as store:

        def trainer(runs: Sequence[Run]) -> list[Record]:
            return train_here(runs, store, device="cpu")

        (found,) = carry_out(spec, trainer).capacities
        assert [(bracket.passes, bracket.fails) for bracket in found.capacity.brackets] == [(2, 1), (2, 1)]
        assert all(bracket.n_runs <= 20 for bracket in found.capacity.brackets)
        count = store.count()
        carry_out(spec, trainer)
        assert store.count() == count  # a search resumes from the store


@pytest.mark.parametrize(("threshold", "end"), [(1.0, "high"), (0.0, "low")])
def test_a_search_that_leaves_its_range_says_why(threshold: float, end: str) -> None:
    """One step learns nothing, and an accuracy of 0 always passes."""
    spec = specification(
        training={"steps": 1},
        search={"axis": "model.dim", "low": 1, "high": 2},
        **{"pass": {"metric": "accuracy", "threshold": threshold}},
    )
    measured = bh.measure(spec)
    (found,) = measured.capacities
    (why,) = found.why_open
    assert found.capacity.n_open == 2
    assert f"`{end}`" in why
    assert {row["sizes.dim"] for row in measured} == {1, 2}


def test_a_search_whose_ends_are_reversed_says_so() -> None:
    """Only the smallest model passes, so a larger or a smaller range would not help."""
    spec = specification(training={"steps": 1}, search={"axis": "model.dim", "low": 1, "high": 3})

    def trainer(runs: Sequence[Run]) -> list[Record]:
        with Store(":memory:") as store:
            return [
                replace(record, measured={"accuracy": float(record.config["sizes"]["dim"] == 1)})
                for record in train_here(runs, store, device="cpu")
            ]

    (found,) = carry_out(spec, trainer).capacities
    assert [(one.passes, one.fails, one.n_runs) for one in found.capacity.brackets] == [(1, None, 2)] * 2
    assert found.capacity.n_open == 2
    (why,) = found.why_open
    assert "2 of 2 seeds passed with model.dim = 1, but not with model.dim = 3" in why


def test_tuning_asks_whole_rounds_and_resumes(tmp_path: Path) -> None:
    spec = specification(
        training={"steps": 20, "learning_rate": 1e-3},
        tuning={"trials": 5, "per_round": 2, "learning_rate": [1e-4, 1e-1], "warmup": [0, 10]},
    )
    rounds: list[int] = []
    with Store(tmp_path / "runs.sqlite") as store:

        def trainer(runs: Sequence[Run]) -> list[Record]:
            rounds.append(len(runs))
            return train_here(runs, store, device="cpu")

        first = carry_out(spec, trainer)
        assert rounds == [4, 4, 2]  # two seeds, 2 + 2 + 1 trials each
        assert store.count() == 10
        again = carry_out(spec, trainer)
        assert store.count() == 10
        assert [record.key for record in first.records] == [record.key for record in again.records]
        trials = tune(spec, [(spec.points[0], 0)], trainer)[0]
    rates = [record.config["training"]["learning_rate"] for record in trials]
    assert len(set(rates)) == 5
    assert all(1e-4 <= rate <= 1e-1 for rate in rates)
    assert best(trials).measured["loss"] == min(record.measured["loss"] for record in trials)


def test_without_optuna_or_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("optuna", "ray"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    spec = specification(training={"steps": 2}, tuning={"trials": 1})
    with refused(MissingExtra, package="optuna", extra="measure", purpose="tuning the learning rate"):
        tune(spec, [(spec.points[0], 0)], lambda runs: [])
    from byheart.measure.cluster import train_on_cluster

    with refused(MissingExtra, package="ray", extra="ray", purpose="training on a cluster"):
        train_on_cluster([], None)


def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ray says it of `auto`; asked in earnest, it would join whatever cluster another test has just started."""
    ray = pytest.importorskip("ray", reason="needs the extra `ray`")
    from byheart.process.task_runner import ray_cluster

    def refuse(address: str, **options: Any) -> None:
        raise ConnectionError(f"Could not find any running Ray instance at {address}")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(UsageError), ray_cluster("auto", "training"):
        pass
