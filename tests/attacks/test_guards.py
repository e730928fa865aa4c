"""Guards that nothing else would miss if they were gone: each test fails when its guard is taken out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from byheart.bounds import kajitsuka_sato_2025_lower
from byheart.bounds.enclosures import Interval
from byheart.measure import cluster
from byheart.measure.records import Run
from byheart.measure.store import Store
from byheart.network.decoder.architecture import Decoder, TokenAveraging
from byheart.network.protocol import UNKNOWN, Evaluation
from byheart.network.transformer.architecture import Embedding
from tests.measure.test_sweep import runs_of


@pytest.mark.parametrize("spoilt", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("backend", ["module", "equations"])
def test_logits_that_are_not_finite_answer_nothing(spoilt: float, backend: Any) -> None:
    rng = np.random.default_rng(0)
    output = rng.normal(size=(5, 3))
    network = Decoder(
        Embedding(rng.normal(size=(4, 3)), None),
        TokenAveraging(np.array([1.0, 0.5])),
        rng.normal(size=(3, 5)),
        rng.normal(size=5),
        output,
        "tanh",
    )
    inputs = np.array([[0, 1], [2, 3]])
    names = ["a", "b", "c"]
    assert (network.answer(inputs, names, Evaluation(backend)) != UNKNOWN).all()
    output[0, 2] = spoilt
    assert (network.answer(inputs, names, Evaluation(backend)) == UNKNOWN).all()


def test_a_record_that_was_stored_survives_a_power_cut(tmp_path: Path) -> None:
    """SQLite promises it for `synchronous = FULL` (2) with a write-ahead log; no test can cut the power."""
    with Store(tmp_path / "runs.sqlite") as store:
        assert store.connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert store.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_lower_bound_is_never_raised_by_a_wide_enclosure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known less well may only make a lower bound smaller: the upper end of the logarithm counts."""
    exact = kajitsuka_sato_2025_lower.theorem_4_3(10**4, 8).value
    enclose = kajitsuka_sato_2025_lower.log2_e_times

    def wide(value: int) -> Interval:
        found = enclose(value)
        return Interval(found.low - 10, found.high + 10)

    monkeypatch.setattr(kajitsuka_sato_2025_lower, "log2_e_times", wide)
    assert kajitsuka_sato_2025_lower.theorem_4_3(10**4, 8).value < exact


@dataclass
class _LosingRay:
    """A cluster on which every worker is lost."""

    n_started: int = 0

    class exceptions:
        class RayError(Exception): ...

        class RayTaskError(RayError): ...

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def remote(self, **_: object) -> Any:
        return lambda _task: SimpleNamespace(remote=self._start)

    def _start(self, _configs: object) -> int:
        self.n_started += 1
        return self.n_started

    def wait(self, references: list[int], **_: object) -> tuple[list[int], list[int]]:
        return references[:1], references[1:]

    def get(self, _reference: int) -> None:
        raise self.exceptions.RayError("the worker died")


def test_a_stack_that_is_lost_again_and_again_ends_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = _LosingRay()
    monkeypatch.setattr(cluster, "_ray", lambda: ray)
    runs: list[Run] = runs_of([1], 2, 20)
    with (
        Store(tmp_path / "runs.sqlite") as store,
        pytest.raises(cluster.ClusterLost, match=f"lost its worker {cluster.MOST_LOSSES} times"),
    ):
        cluster.train_on_cluster(runs, store)
    assert ray.n_started == cluster.MOST_LOSSES
