"""`size_of` of the statistics a construction reports is its size: every parameter, non-zero or not, and every bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from byheart.construct.retrieval import method, size
from byheart.construct.retrieval.method import memorise
from byheart.construct.retrieval.size import size_of
from byheart.data.dataset import Dataset
from byheart.data.generators import grid_vectors, random_tokens, uniform_vectors
from byheart.errors import AssumptionViolated
from byheart.network.size import size_of_network
from byheart.program.construction import Statistics, statistics_of

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


@pytest.mark.parametrize(("kind", "n", "precision"), CASES)
def test_the_size_is_foretold_exactly(kind: str, n: int, precision: str) -> None:
    data = KINDS[kind](n)
    if (
        kind == "real" and precision == "float32" and n >= 1000
    ):  # no border of a quantiser is far from all tokens
        with pytest.raises(AssumptionViolated, match="no quantiser"):
            memorise(data, {"precision": precision}, np.random.default_rng(0))
        return
    built = memorise(data, {"precision": precision}, np.random.default_rng(0))
    size = size_of_network(built.memory.network)
    assert built.statistics is not None
    assert size_of(built.statistics) == size
    if kind != "real" and built.notes["hash"] == "usual hash":  # what a quantiser needs, only the data tell
        known = replace(statistics_of(data), precision=precision)
        foretold = size_of(known)
        assert (foretold.parameters_dense, foretold.depth, foretold.width, foretold.total_bits) == (
            size.parameters_dense,
            size.depth,
            size.width,
            size.total_bits,
        )


OTHERS: dict[str, tuple[Dataset, dict[str, object]]] = {
    "ragged": (random_tokens(200, n_vocab=40, seq_len=6, min_len=1, seed=1), {}),
    "set": (random_tokens(200, n_vocab=40, seq_len=5, task="set", seed=1), {}),
    "seq-to-seq": (random_tokens(60, n_vocab=40, seq_len=4, task="seq-to-seq", seed=1), {}),
    "bag": (random_tokens(200, n_vocab=40, seq_len=5, ordered=False, seed=1), {}),
    "reject": (random_tokens(200, n_vocab=40, seq_len=5, seed=1), {"reject_bits": 8}),
    "twin": (random_tokens(30_000, n_vocab=40, seed=1), {}),
    "twin of vectors": (grid_vectors(30_000, seed=1), {"precision": "float32"}),
    "exact": (grid_vectors(500, seed=1), {"precision": "exact"}),
    "exact tokens, long words": (
        random_tokens(500, n_vocab=40, seed=1),
        {"precision": "exact", "word_bits": 200},
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_size_follows_from_what_is_reported(name: str) -> None:
    data, options = OTHERS[name]
    built = memorise(data, options, np.random.default_rng(0))
    assert built.statistics is not None
    assert size_of(built.statistics) == size_of_network(built.memory.network)


@pytest.mark.parametrize("room", [1.0, 1.5])
def test_robust_hashes_have_their_size_too(monkeypatch: pytest.MonkeyPatch, room: float) -> None:
    monkeypatch.setattr(method, "_STAGES", (("robust hash", True, room),))
    data = random_tokens(300, n_vocab=30, seed=1)
    built = memorise(data, {}, np.random.default_rng(0))
    assert built.statistics is not None
    size = size_of_network(built.memory.network)
    assert size_of(built.statistics) == size
    assert size_of(statistics_of(data)).parameters_dense < size.parameters_dense


def test_one_more_word_is_noticed() -> None:
    built = memorise(grid_vectors(50, seed=1), {}, np.random.default_rng(0))
    assert built.statistics is not None
    assert built.statistics.numbers is not None
    words = built.statistics.numbers["words"]
    more = {**built.statistics.numbers, "words": replace(words, count=words.count + 1)}
    assert size_of(replace(built.statistics, numbers=more)) != size_of_network(built.memory.network)


def test_many_rows_are_counted_by_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate for tables nobody builds is near the count."""
    for n in (10**5, 10**6):
        exact = size_of(Statistics(n, 8, 16, dim=4))
        monkeypatch.setattr(size, "_MOST_ENTRIES", 10_000)
        near = size_of(Statistics(n, 8, 16, dim=4))
        monkeypatch.undo()
        assert near.parameters_dense == exact.parameters_dense
        assert near.parameters_nonzero == pytest.approx(exact.parameters_nonzero, rel=0.1)
