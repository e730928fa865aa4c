"""What is kept of a run, and that files give back what they were given."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from byheart.measure.records import Record, Run
from byheart.reproduce.observation import Observation, from_groups, observe, to_groups
from tests.reproduce.planted import observations_of, runs_of


def record(run: Run, losses: list[float], *, n_samples: float = 10.0, entropy: float = 5.0) -> Record:
    """A record whose loss fell as `losses` say, one a step."""
    gap = losses[-1] * n_samples - entropy
    measured = {"loss": losses[-1], "gap": gap, "relative_gap": gap / entropy, "accuracy": 1 / 3}
    steps = np.arange(len(losses))
    curve = {"loss": np.array(losses), "accuracy": np.linspace(0.9, 1 / 3, len(losses))}
    return Record(
        run.key, run.config, "done", 3, measured, 7, n_samples, 0.1, "here", {}, "now", steps, curve
    )


@pytest.fixture(scope="module")
def run() -> Run:
    return next(iter(runs_of("dana-2024-fig4", "smoke")))


def test_the_first_step_within_a_hundredth_of_the_entropy_is_told(run: Run) -> None:
    assert observe(record(run, [2.0, 0.504, 0.6])).measured["first_within"] == 1.0  # 0.04 nats above 5
    assert math.isnan(observe(record(run, [2.0, 0.506, 0.6])).measured["first_within"])
    assert observe(record(run, [2.0, 0.6])).measured["best_accuracy"] == 0.9
    assert observe(record(run, [2.0, 0.6])).measured["accuracy"] == 0.333333333


@pytest.mark.parametrize(("last", "status"), [(4e10, "diverged"), (199.0, "done"), (201.0, "diverged")])
def test_a_loss_far_above_the_first_counts_as_diverged(run: Run, last: float, status: str) -> None:
    found = observe(record(run, [2.0, last]))
    assert found.status == status
    assert found.loss == (math.inf if status == "diverged" else last)


def test_files_give_back_what_they_were_given() -> None:
    found = observations_of("dana-2024-fig4", lambda run: {"loss": run.seed + 0.5}, scale="smoke")
    found[0] = replace(found[0], status="diverged")
    found[1] = _without_curve(found[1])
    groups = to_groups(found)
    again = from_groups(groups)
    assert to_groups(again) == groups
    assert len(again) == len(found)

    def key(one: Observation) -> str:
        parts = {name: one.config[name] for name in ("sizes", "options", "training", "seed")}
        return json.dumps(parts, sort_keys=True)

    before = {key(one): one for one in found}
    for one in again:
        assert one.measured["loss"] == before[key(one)].measured["loss"]
        assert one.status == before[key(one)].status
        assert one.config["data"]["seed"] == one.seed
    assert from_groups([]) == ()


def _without_curve(one: Observation) -> Observation:
    return replace(one, curve={})
