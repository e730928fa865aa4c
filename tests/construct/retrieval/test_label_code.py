"""Codes for labels: frequent ones are short, and what a model so made answers is the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.retrieval.label_code import codes_worth_trying, fullest, join_labels, split_labels
from byheart.construct.retrieval.size import RetrievalOptions, size_of
from byheart.data.dataset import Dataset
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.network.size import size_of_network
from tests.construct.retrieval.layouts import memorise
from tests.examples import examples

SLOW = pytest.mark.slow


def skewed(n_samples: int, n_classes: int, n_vocab: int = 60) -> Dataset:
    """Class c has a share of about 1/(c + 1)², but for their names, which are shuffled."""
    rng = np.random.default_rng(5)
    shares = 1 / np.arange(1, n_classes + 1) ** 2
    labels = rng.choice(n_classes, size=n_samples, p=shares / shares.sum())
    labels[:n_classes] = np.arange(n_classes)
    data = random_tokens(n_samples, n_vocab=n_vocab, n_classes=n_classes, seed=1)
    return data.with_labels(rng.permutation(n_classes)[labels])


@examples(100)
@given(counts=st.lists(st.integers(1, 5000), min_size=3, max_size=60), n_planes=st.integers(1, 12))
def test_every_label_has_a_code_of_its_own_and_no_field_is_too_full(counts: list[int], n_planes: int) -> None:
    counts = sorted(counts, reverse=True)
    labels = np.arange(len(counts))
    room = fullest(sum(counts), n_planes)
    for first_bits, rare in codes_worth_trying(counts, n_planes):
        split = split_labels(labels, rare)
        assert (split[0][0] < 1 << first_bits).all()
        for (numbers, reaches), field in zip(split[1:], rare, strict=True):
            assert (numbers[reaches] < 1 << field.n_bits).all()
            assert fullest(int(np.array(counts)[reaches].sum()), field.n_planes) <= room
        assert (join_labels([numbers for numbers, _ in split], rare) == labels).all()


@pytest.mark.parametrize("precision", ["float64", "int8"])
def test_codes_go_with_reject_bits(precision: str) -> None:
    data, unknown = skewed(2000, 60), random_tokens(8000, n_vocab=60, n_classes=60, seed=77)
    built = memorise(data, {"precision": precision, "reject_bits": 4}, 0)
    assert built.notes["rare_fields"]
    memoriser = built.memoriser
    answers = memoriser.answer(memoriser.encode(data.inputs), backend="module")
    assert (answers == memoriser.expected_labels(data)).all()
    share = (memoriser.answer(memoriser.encode(unknown.inputs), backend="module") >= 0).mean()
    # four deviations: once in 30,000 seeds
    assert share < 2.0**-4 + 4 * (2.0**-4 / len(unknown.labels)) ** 0.5


def test_uniform_labels_have_no_code() -> None:
    assert codes_worth_trying([50] * 16, 4) == []


@pytest.mark.parametrize(
    ("precision", "n_samples"),
    [
        ("float64", 1_500),
        pytest.param("float64", 8_000, marks=SLOW),
        pytest.param("float32", 3_000, marks=SLOW),
    ],
)
def test_skewed_labels_are_memorised_in_fewer_parameters(precision: str, n_samples: int) -> None:
    data = skewed(n_samples, 40)
    built = memorise(data, {"precision": precision})
    assert built.notes["rare_fields"]
    memoriser = built.memoriser
    encoded = memoriser.encode(data.inputs)
    expected = memoriser.expected_labels(data)
    assert (memoriser.answer(encoded, backend="module") == expected).all()
    frequent = [data.label_names[c] for c, _ in Counter(data.labels.tolist()).most_common(3)]
    assert list(memoriser.label_names[:3]) == frequent
    size, options = size_of_network(memoriser.network), RetrievalOptions(precision=precision)
    if built.notes["hash"] == "usual hash":
        assert size_of(DataShape.of(data), options).parameters_dense == size.parameters_dense
    uniform = data.with_labels(np.arange(n_samples) % 40)
    assert size.parameters_dense < size_of(DataShape.of(uniform), options).parameters_dense
