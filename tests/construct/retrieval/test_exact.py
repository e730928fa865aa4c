"""Precision exact: words as long as one likes, judged by exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from byheart.construct.retrieval import exactness, table_solver
from byheart.construct.retrieval.size import RetrievalOptions, size_of
from byheart.data.dataset import Dataset
from byheart.data.generators import grid_vectors, random_tokens, uniform_vectors
from byheart.data.shape import DataShape
from byheart.errors import InexactWeights, UsageError
from byheart.network.size import size_of_network
from byheart.network.transformer.interpreter import interpret
from byheart.network.transformer.module import to_module
from byheart.program.construction import Construction
from tests.construct.retrieval.layouts import memorise
from tests.refusal import refused

DATA = {
    "grid": grid_vectors(600, seed=1),
    "tokens": random_tokens(600, n_vocab=30, seed=1),
    "ragged": random_tokens(200, n_vocab=30, seq_len=5, min_len=1, seed=1),
    "set": random_tokens(200, n_vocab=30, seq_len=5, task="set", seed=1),
    "seq-to-seq": random_tokens(60, n_vocab=30, seq_len=4, task="seq-to-seq", seed=1),
    "real": uniform_vectors(60, 2, 3, seed=1),
}


@pytest.mark.parametrize("name", DATA)
def test_every_kind_of_data_is_memorised_exactly(name: str) -> None:
    data = DATA[name]
    memoriser = memorise(data, {"precision": "exact"}, 0).memoriser
    assert memoriser.network.precision == "exact"
    encoded = memoriser.encode(data.inputs)
    answers = memoriser.answer(encoded, backend="exact")
    assert (answers.reshape(-1) == data.labels).all()
    last = interpret(memoriser.network, encoded[0])[-1][0]
    assert last == data.labels.reshape(len(encoded), -1)[0, -1] + 1


def _built(data: Dataset, word_bits: int | None) -> Construction:
    return memorise(data, {"precision": "exact", "word_bits": word_bits}, 0)


def test_longer_words_make_smaller_networks_and_the_room_is_used() -> None:
    """Weights are as long as allowed: by one bit more at most, since a power of two up to 2^b counts b + 1 digits."""
    data = grid_vectors(10_000, seed=2)
    for word_bits in (24, 53):
        size = size_of_network(_built(data, word_bits).memoriser.network)
        assert word_bits - 10 < size.weight_bits <= word_bits + 1
    shape = DataShape(1_000_000, 8, 16, dim=4)
    sizes = [
        size_of(shape, RetrievalOptions("exact", word_bits=word_bits)).parameters_dense
        for word_bits in (24, 53, 96, None)
    ]
    assert sizes[0] > 1.3 * sizes[1] > 1.3 * sizes[2]
    assert sizes[2] >= sizes[3]


def test_words_beyond_machine_integers_are_solved_plane_by_plane() -> None:
    """Limbs: sums of words of several hundred bits carry over limb borders, and every label is read back."""
    data = random_tokens(10_000, seq_len=4, task="seq-to-seq", seed=3)
    built = _built(data, None)
    assert int(str(built.notes["word_bits"])) > 2 * table_solver._LIMB_BITS
    some = data.subset(np.arange(0, 10_000, 40))
    assert (built.memoriser.answer(built.memoriser.encode(some.inputs)).reshape(-1) == some.labels).all()


def test_long_words_do_not_run_in_floats() -> None:
    built = _built(random_tokens(10_000, seq_len=4, task="seq-to-seq", seed=3), 150)
    with pytest.raises(InexactWeights):
        to_module(built.memoriser.network)


def test_word_bits_are_checked() -> None:
    data = grid_vectors(5, seed=1)
    with pytest.raises(UsageError):
        memorise(data, {"word_bits": 64}, 0)
    for wrong in (3, True, "64"):
        with refused(UsageError, "problem"):
            memorise(data, {"precision": "exact", "word_bits": wrong}, 0)
    margin = exactness.Margin("a sum", exactness.HALF, 2**60)
    assert margin.bits == 61
    with pytest.raises(exactness.NotExactInFloats):
        exactness.require_exact((margin,), 60)
    exactness.require_exact((margin,), 61)
