"""Labels with reject bits too long for one word of float32 lie in several words, read one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from byheart.construct.retrieval import search, size
from byheart.construct.retrieval.search import find_layout
from byheart.construct.retrieval.size import RetrievalOptions, layout_of, size_of
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.memoriser import UNKNOWN
from byheart.network.size import size_of_network
from byheart.network.transformer.interpreter import interpret
from byheart.program.construction import Construction
from tests.construct.retrieval.layouts import memorise
from tests.construct.retrieval.test_unknown_inputs import change_one, exchange, rotate
from tests.refusal import refused

DATA = random_tokens(300, seq_len=12, n_vocab=20, n_classes=1000, seed=1)


@pytest.fixture(scope="module")
def built() -> Construction:
    return memorise(DATA, {"precision": "float32", "reject_bits": 16}, 0)


def test_float32_holds_sixteen_reject_bits(built: Construction) -> None:
    memoriser = built.memoriser
    encoded = memoriser.encode(DATA.inputs)
    assert (built.notes["parts"], built.notes["reject_bits"]) == (2, 16)
    assert (memoriser.answer(encoded, backend="module") == DATA.labels).all()
    for row in range(2):  # the definition, over the rationals
        assert interpret(memoriser.network, encoded[row])[-1][0] == DATA.labels[row] + 1


def test_the_size_is_known_before(built: Construction) -> None:
    found = size_of(DataShape.of(DATA), RetrievalOptions("float32", 16))
    assert found.parameters_dense == size_of_network(built.memoriser.network).parameters_dense


@pytest.mark.parametrize("disturb", [exchange, rotate, change_one])
def test_near_misses_are_turned_away(disturb, built: Construction) -> None:
    """2^-16 of 20,000 is 0.3; more than five has a probability below one in a million."""
    keys, rng = DATA.inputs.pad(0, 12), np.random.default_rng(1)
    asked = disturb(keys[rng.integers(0, len(keys), 20_000)], rng)
    stored = {row.tobytes() for row in keys}
    unknown = np.array([row for row in asked if row.tobytes() not in stored])
    assert (built.memoriser.answer(unknown, backend="module") != UNKNOWN).sum() <= 5
    assert len(unknown) > 10_000


def test_the_pruned_search_answers_as_the_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_RATIO", 1.5)
    monkeypatch.setattr(search, "_GROUPS", (1, 2, 4, 8))
    find_layout.cache_clear()
    entrance = replace(layout_of(DataShape.of(DATA), RetrievalOptions("float32", 8)).entrance, least_fields=4)
    both = [
        find_layout(entrance, 300, 18, 24, reject_bits=8, n_parts=2, prune=prune) for prune in (True, False)
    ]
    find_layout.cache_clear()
    assert both[0] == both[1]
    assert len(both[0].hashed_fields) == 4


def test_one_word_is_used_where_it_suffices() -> None:
    shape = DataShape.of(DATA)
    assert layout_of(shape, RetrievalOptions("float64", 16)).n_parts == 1
    assert layout_of(shape, RetrievalOptions("float32", 4)).n_parts == 1


def test_what_does_not_fit_is_said_of_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "_SPREADS", ((1, 2), (1, 3)))
    with refused(AssumptionViolated, n_keys=300, field_bits=26):
        layout_of(DataShape.of(DATA), RetrievalOptions("float32", 16))
