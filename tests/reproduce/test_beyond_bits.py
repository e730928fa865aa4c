from __future__ import annotations

import math

import pytest

from byheart.measure.records import Run
from byheart.reproduce.beyond_bits import gather_facts, memorised_bits
from tests.reproduce.planted import compute, observations_of, planted, runs_of


def test_bits_are_what_a_model_saves_in_telling_the_labels() -> None:
    run = next(iter(runs_of("beyond-bits", "paper")))
    assert memorised_bits(planted(run, {"loss": 0.0})) == pytest.approx(math.log2(50))  # of one sample
    assert memorised_bits(planted(run, {"loss": math.log(50)})) == pytest.approx(0, abs=1e-12)
    assert memorised_bits(planted(run, {"loss": 10.0})) == 0
    assert memorised_bits(planted(run, {"loss": math.nan})) == 0


@pytest.mark.parametrize(("loss", "outcome"), [(3.0, "holds"), (-1e4, "does not hold as the paper has it")])
def test_the_verdict_compares_training_with_compiling(loss: float, outcome: str) -> None:
    def measured(run: Run) -> dict[str, float]:
        return {"loss": loss, "accuracy_tail": 0.5}

    found = observations_of("beyond-bits", measured)
    verdict, computed = compute("beyond-bits", found, gather_facts("paper", found, None))
    assert verdict.outcome == outcome
    row = next(row for row in computed.tables[0].rows if row[0] == "compiled: retrieval")
    assert float(row[1]) == pytest.approx(float(row[2]) / 64, rel=0.01)  # per stored bit, per parameter


@pytest.mark.parametrize(("optimiser", "weights"), [("adam", "float32"), ("lbfgs", "float64")])
def test_the_counterargument_names_the_weights_of_the_best_model(optimiser: str, weights: str) -> None:
    found = observations_of(
        "beyond-bits", lambda run: {"loss": 0.0 if run.training.optimiser == optimiser else 3.0}
    )
    _, computed = compute("beyond-bits", found, gather_facts("paper", found, None))
    assert computed.counter.endswith(f"per bit of its {weights} weights.")
