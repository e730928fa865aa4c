"""No model holds more than one bit in a stored bit: label bits count a context once, stored bits what a file needs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import byheart as bh
from byheart.construct.registry import get, names
from byheart.data.dataset import Dataset
from byheart.errors import ByheartError
from byheart.network.size import Size

from .random_data import random_data, structured_data

CONSTRUCTIONS = tuple(name for name in names() if name != "llama")  # which takes texts; see below
SEEDS = [
    seed if seed < len(CONSTRUCTIONS) else pytest.param(seed, marks=pytest.mark.slow) for seed in range(1000)
]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_density_is_above_one(seed: int) -> None:
    """Each construction in turn, on random data that it takes and, every other time, on data far easier than they look."""
    method = get(CONSTRUCTIONS[seed % len(CONSTRUCTIONS)])
    is_easy = bool(seed // len(CONSTRUCTIONS) % 2)
    for draw in range(200):
        rng = Random(1000 * seed + draw)
        task = rng.choice(method.tasks)
        is_easy &= draw < 20  # some take no such data
        data = structured_data(rng, task) if is_easy else random_data(rng, task)
        try:
            model = bh.compile(data, method=method.name, precision=rng.choice(method.precisions), seed=seed)
        except ByheartError:
            continue
        break
    else:
        pytest.fail(f"{method.name} takes none of 200 data sets")
    label_bits, density = model.label_bits, model.bits_per_stored_bit
    assert label_bits == data.n_contexts * np.log2(data.n_classes)
    if density is None:
        # the weights are a shorter code: the labels are not arbitrary
        assert label_bits > model.size.stored_bits
        assert model.bits_per_parameter is None
        assert is_easy
    else:
        assert 0 <= density <= 1
        assert model.certificate is not None
        assert model.certificate.bits_per_stored_bit == density


def test_texts_have_a_density_too() -> None:
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    model = bh.compile({"a": "one", "b": "two"}, method="llama", check=False)
    assert model.bits_per_stored_bit is not None
    assert 0 < model.bits_per_stored_bit < 1


def test_a_threshold_over_many_points_has_no_density() -> None:
    """3,000 points in 11 weights: 34 bits of digits, 88 label bits for each, since their places cost nothing."""
    values = np.arange(3000.0).reshape(-1, 1, 1)
    data = Dataset.from_arrays(values, (values[:, 0, 0] > 1500).astype(int))
    model = bh.compile(data, method="two-layer-relu")
    assert data.label_bits / model.size.total_bits > 80
    assert model.size.stored_bits > 11 * np.log2(model.size.parameters_dense)
    assert (model.bits_per_stored_bit, model.bits_per_parameter) == (None, None)


def test_repeated_documents_are_no_more_information() -> None:
    once = [f"c{i} s{j}" for i in range(40) for j in range(8)]
    many = Dataset.from_documents(once * 60, tokenizer="word")
    assert many.label_bits == Dataset.from_documents(once, tokenizer="word").label_bits
    assert many.label_entropy == pytest.approx(Dataset.from_documents(once, tokenizer="word").label_entropy)
    model = bh.compile(many, method="madden-2024", solver="convex", hidden_width=1, dim=1)
    assert model.bits_per_stored_bit is not None
    assert model.bits_per_stored_bit < 1
    repeated = Dataset.from_pairs([("a", 0), ("b", 1)] * 5)
    assert (repeated.label_bits, repeated.label_entropy) == (2, 2)


def test_stored_bits_are_those_of_the_shorter_file() -> None:
    floats = Size(100, 3, 1, 1, 64, 6400)
    assert floats.stored_bits == 6400
    # digits, sign, length and point of 3 bits each, and a place among 1000
    sparse = Size(1000, 2, 1, 1, 7, 10)
    assert sparse.stored_bits == 10 + 2 * (1 + 3 + 3 + 10)
    dense = Size(4, 4, 1, 1, 7, 20)
    assert dense.stored_bits == min(20 + 4 * (1 + 6 + 2), 4 * (1 + 3 + 7))


def test_short_weights_are_stored_in_their_own_types() -> None:
    """The integers of an int8 network are stored with their zeros, so no weight needs an index."""
    data = Dataset.from_pairs([(f"key {number}", number % 5) for number in range(60)])
    model = bh.compile(data, precision="int8")
    assert model.size.stored_bits == model.network.stored_bits == model.size.total_bits
    mostly_zero = Size(1000, 2, 1, 1, 32, 40)
    assert mostly_zero.stored_bits == 40 + 2 * (1 + 6 + 6 + 10)
