"""The map of memory: flipping one bit changes exactly the facts named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from byheart.construct.retrieval import search
from byheart.construct.retrieval.locate import locate
from byheart.data.dataset import Dataset
from byheart.data.generators import grid_vectors, random_tokens
from byheart.errors import UsageError
from tests.construct.retrieval.layouts import memorise

DATA = {"tokens": random_tokens(300, n_vocab=50, seed=1), "grid": grid_vectors(300, seed=2)}


@pytest.mark.parametrize("precision", ["float64", "float32", "exact"])
@pytest.mark.parametrize("kind", ["chain", "dual table"])
@pytest.mark.parametrize("name", DATA)
def test_flipping_a_bit_changes_exactly_the_facts_named(
    name: str, kind: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data: Dataset = DATA[name]
    if kind == "dual table":
        monkeypatch.setattr(search, "_SEGMENTS", ())
        monkeypatch.setattr(search, "_LEAST_DUAL", 1)
    search.find_layout.cache_clear()
    built = memorise(data, {"precision": precision}, 0)
    search.find_layout.cache_clear()
    memoriser = built.memoriser
    encoded = memoriser.encode(data.inputs)
    found = locate(memoriser, built.notes, encoded)
    answers = memoriser.answer(encoded, backend="module")
    rng = np.random.default_rng(1)
    n_changed = 0
    for fact in rng.choice(len(encoded), 6, replace=False).tolist():
        cells = found.cells(fact)
        assert cells
        assert all(fact in found.readers(cell) for cell in cells)
        cell = cells[int(rng.integers(len(cells)))]
        (own,) = found.bits(fact)
        bit = own[int(rng.integers(len(own)))]
        named = found.changed_by(memoriser.network, cell, bit)
        assert fact in named
        assert set(named) <= set(found.readers(cell))
        other = replace(memoriser, network=found.flip(memoriser.network, cell, bit))
        changed = np.flatnonzero(other.answer(encoded, backend="module") != answers)
        assert changed.tolist() == named.tolist()
        n_changed += len(changed)
        shares = found.sharing(fact)
        assert fact not in shares
        assert (found.planes[shares] == found.planes[fact]).all()
    assert n_changed > 6  # words are shared: some flip changed more than the fact it was aimed at


def test_the_words_of_a_fact_add_up_to_its_label() -> None:
    data = DATA["tokens"]
    built = memorise(data, {}, 0)
    found = locate(built.memoriser, built.notes, built.memoriser.encode(data.inputs))
    assert (found.labels(built.memoriser.network) == data.labels).all()


def test_needs_the_notes_of_a_retrieval_network() -> None:
    built = memorise(DATA["tokens"], {}, 0)
    with pytest.raises(UsageError):
        locate(built.memoriser, {}, built.memoriser.encode(DATA["tokens"].inputs))
