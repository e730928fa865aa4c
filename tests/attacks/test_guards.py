"""Guards that nothing else would miss if they were gone: each test fails when its guard is taken out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import byheart as bh
from byheart.bounds import kajitsuka_sato_2025_lower
from byheart.bounds.enclosures import Interval
from byheart.errors import CorruptModel
from byheart.measure import cluster
from byheart.measure.records import Run
from byheart.measure.store import Store
from byheart.network.decoder.architecture import Decoder, TokenAveraging
from byheart.network.exact.dyadic import Dyadic, SparseMatrix
from byheart.network.protocol import UNKNOWN, Evaluation
from byheart.network.transformer.architecture import Embedding, Transformer
from byheart.process import task_runner
from byheart.storage.sparse_weights import FEW_BITS, decode_sparse, encode_sparse
from byheart.storage.tensor_file import read_header
from byheart.verify.digest import weights_digest
from tests.measure.test_sweep import runs_of
from tests.refusal import refused

FIXTURES = Path(__file__).resolve().parents[1] / "storage" / "fixtures"


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
    monkeypatch.setitem(sys.modules, "ray", ray)
    runs: list[Run] = runs_of([1], 2, 20)
    with (
        Store(tmp_path / "runs.sqlite") as store,
        pytest.raises(task_runner.WorkersLost),
    ):
        cluster.train_on_cluster(runs, store)
    assert ray.n_started == task_runner.MOST_LOSSES


@pytest.fixture(scope="module")
def forked_text() -> tuple[bh.Dataset, bh.Model]:
    """`a` is followed by `b` or `c`, each half of the time."""
    data = bh.Dataset.from_documents(["a b", "a c"])
    return data, bh.compile(data, method="madden-2024", precision="float64")


def _with_logits(model: bh.Model, change: Callable[[np.ndarray], np.ndarray]) -> bh.Model:
    network = model.network
    assert isinstance(network, Decoder)
    spoilt = replace(network, logits=change(network.logits.copy()))
    return replace(model, memoriser=replace(model.memoriser, network=spoilt))


def test_a_distribution_is_wrong_though_no_token_is_certain(forked_text: tuple[bh.Dataset, bh.Model]) -> None:
    data, model = forked_text

    def prefer_one(logits: np.ndarray) -> np.ndarray:
        logits[:, model.memoriser.label_names.index("b")] *= 1.1
        return logits

    assert bh.verify(model, data, rule="contexts").holds
    found = bh.verify(_with_logits(model, prefer_one), data, rule="contexts")
    assert (found.holds, found.wrong) == (False, 1)
    assert found.distribution is not None
    assert found.distribution.wrong_tokens == 0


def test_one_unknown_successor_of_two_is_infinitely_far(forked_text: tuple[bh.Dataset, bh.Model]) -> None:
    _, model = forked_text
    more = bh.Dataset.from_documents(["a b", "a c", "a d"])
    found = bh.verify(replace(model, certificate=None), more, rule="contexts")
    assert not found.holds
    assert found.distribution is not None
    assert found.distribution.max_divergence > 1e300


def test_logits_that_are_off_by_more_than_rounding_are_a_problem(
    forked_text: tuple[bh.Dataset, bh.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, model = forked_text
    compute = type(model.network).compute_logits

    def off(self: Any, *arguments: Any, **more: Any) -> np.ndarray:
        return compute(self, *arguments, **more) + 1e-9  # moves no probability

    monkeypatch.setattr(type(model.network), "compute_logits", off)
    found = bh.verify(model, data, rule="contexts")
    assert found.wrong == 0
    assert not found.holds
    assert "disagree on context" in found.problems[0]


def test_a_header_that_ends_within_its_own_length_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes((20).to_bytes(8, "little") + b"{}" + b" " * 14)
    with refused(CorruptModel, "file", "problem"):
        read_header(path)


def test_the_first_id_beyond_the_vocabulary_is_unknown() -> None:
    model = bh.load(FIXTURES / "retrieval-tokens")
    assert model.network.n_vocab is not None
    assert model.predict([[model.network.n_vocab, 0, 1]]) == [None]


def test_the_digest_sees_the_last_bit_of_a_weight() -> None:
    one, same = (np.array([[1.0]]) for _ in range(2))
    other = np.nextafter(one, 2)
    digests = {weights_digest(Transformer(weights, (), one, 1)) for weights in (one, same, other)}
    assert len(digests) == 2


def test_an_exponent_just_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    for exponent, is_allowed in ((FEW_BITS, True), (FEW_BITS + 1, False)):
        tensors = encode_sparse([SparseMatrix((1, 1), {(0, 0): Dyadic(1, 1)})])
        tensors["exponents"] = np.array([exponent], np.int16)
        read = partial(list, decode_sparse(tensors, [(1, 1)], tmp_path))
        if is_allowed:
            assert len(read()) == 1
        else:
            with refused(CorruptModel, "file", "problem"):
                read()


def test_the_total_gap_is_a_rule_too(forked_text: tuple[bh.Dataset, bh.Model]) -> None:
    data, model = forked_text
    assert bh.verify(model, data, rule="total-gap").fitted
    found = bh.verify(_with_logits(model, np.zeros_like), data, rule="total-gap")
    assert (found.holds, found.fitted) == (False, False)
    assert "nats above the entropy" in found.problems[-1]
