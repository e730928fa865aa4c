"""The size that is told before a network is built is its size: every parameter, non-zero or not, and every bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from byheart.construct.registry import get
from byheart.construct.retrieval import method
from byheart.construct.retrieval.method import plan
from byheart.construct.retrieval.program import describe
from byheart.construct.retrieval.size import ROBUST_FOLDS, RetrievalOptions, layout_of
from byheart.data.dataset import Dataset
from byheart.data.generators import grid_vectors, random_tokens, uniform_vectors
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.size import Size, size_of_network
from byheart.program.construction import ProgramPlan
from byheart.program.count import count

KINDS: dict[str, Callable[[int], Dataset]] = {
    "grid": lambda n: grid_vectors(n, seed=n),
    "tokens": lambda n: random_tokens(n, n_vocab=100, seed=n),
    "real": lambda n: uniform_vectors(n, 3, 4, seed=n),
}
CASES = [
    (kind, n, precision)
    for kind in KINDS
    for n in (10, 100, 1000, 10_000)
    for precision in ("float64", "float32")
    if (kind, n, precision)
    != ("real", 10_000, "float32")  # refused as for 1,000 vectors, after a long search
]


def _plan(data: Dataset, options: Mapping[str, object]) -> ProgramPlan:
    return plan(data, get("retrieval").read_options(options), np.random.default_rng(0))


def _shape(size: Size) -> tuple[int, int, int, int]:
    return size.parameters_dense, size.depth, size.width, size.total_bits


@pytest.mark.parametrize(("kind", "n", "precision"), CASES)
def test_the_size_is_told_beforehand(kind: str, n: int, precision: str) -> None:
    data = KINDS[kind](n)
    # no border of a quantiser is far from all tokens
    if kind == "real" and precision == "float32" and n >= 1000:
        with pytest.raises(AssumptionViolated):
            _plan(data, {"precision": precision})
        return
    found = _plan(data, {"precision": precision})
    assert found.size == size_of_network(found.emit().memoriser.network)
    if kind != "real" and found.notes["hash"] == "usual hash":  # what a quantiser needs, only the data tell
        estimate = get("retrieval").estimate(DataShape.of(data), {"precision": precision})
        assert _shape(estimate) == _shape(found.size)
        # a typical weight is not zero; some drawn ones are
        assert estimate.parameters_nonzero == pytest.approx(found.size.parameters_nonzero, rel=0.1)


OTHERS: dict[str, tuple[Dataset, dict[str, object]]] = {
    "ragged": (random_tokens(200, n_vocab=40, seq_len=6, min_len=1, seed=1), {}),
    "set": (random_tokens(200, n_vocab=40, seq_len=5, task="set", seed=1), {}),
    "seq-to-seq": (random_tokens(60, n_vocab=40, seq_len=4, task="seq-to-seq", seed=1), {}),
    "bag": (random_tokens(200, n_vocab=40, seq_len=5, ordered=False, seed=1), {}),
    "reject": (random_tokens(200, n_vocab=40, seq_len=5, seed=1), {"reject_bits": 8}),
    "dual table": (random_tokens(30_000, n_vocab=40, seed=1), {}),
    "dual table of vectors": (grid_vectors(30_000, seed=1), {"precision": "float32"}),
    "exact": (grid_vectors(500, seed=1), {"precision": "exact"}),
    "exact tokens, long words": (
        random_tokens(500, n_vocab=40, seed=1),
        {"precision": "exact", "word_bits": 200},
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_size_of_a_plan_is_that_of_its_network(name: str) -> None:
    data, options = OTHERS[name]
    found = _plan(data, options)
    assert found.size == size_of_network(found.emit().memoriser.network)
    assert _shape(get("retrieval").estimate(DataShape.of(data), options))[:3] == _shape(found.size)[:3]


@pytest.mark.parametrize("room", [1.0, 1.5])
def test_robust_hashes_have_their_size_too(monkeypatch: pytest.MonkeyPatch, room: float) -> None:
    monkeypatch.setattr(method, "STAGES", (("robust hash", ROBUST_FOLDS, room, 24),))
    data = random_tokens(300, n_vocab=30, seed=1)
    found = _plan(data, {})
    assert found.size == size_of_network(found.emit().memoriser.network)
    assert get("retrieval").estimate(DataShape.of(data)).parameters_dense < found.size.parameters_dense


def test_one_more_row_is_noticed() -> None:
    data = grid_vectors(50, seed=1)
    built = size_of_network(_plan(data, {}).emit().memoriser.network)
    layout = layout_of(DataShape.of(data), RetrievalOptions())
    assert _shape(count(describe(layout), "float64")) == _shape(built)
    assert _shape(count(describe(replace(layout, n_rows=layout.n_rows + 1)), "float64")) != _shape(built)


def test_the_bits_of_exact_words_are_estimated() -> None:
    """Typical words are as long as the longest, so an estimate is above what is built, and not far."""
    data = grid_vectors(3000, seed=1)
    built = _plan(data, {"precision": "exact"}).size
    options = RetrievalOptions("exact")
    estimate = count(describe(layout_of(DataShape.of(data), options)), "exact")
    assert built.total_bits <= 1.1 * estimate.total_bits
    assert estimate.total_bits <= 1.5 * built.total_bits
