"""Small data sets made to break constructions, each for one stated reason.

`ADVERSARIAL["permutations"](seed)` makes one. Those with `refused` cannot be memorised by anything: a
construction has to say so. All others are consistent and finite, and a construction either memorises them
exactly or names the assumption of its own that they break.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations as all_permutations

import numpy as np

from byheart.data.dataset import Dataset
from byheart.data.generators import random_labels
from byheart.data.options import Task
from byheart.data.sequences import Sequences, TokenSequences, VectorSequences, offsets_of


@dataclass(frozen=True)
class Adversary:
    """A seeded data set that is hard for a reason. Called with a seed, it makes the data set."""

    name: str
    why: str
    refused: bool
    make: Callable[[int], Dataset]

    def __call__(self, seed: int) -> Dataset:
        """Make the data set; the same seed always gives the same one."""
        return self.make(seed)


ADVERSARIAL: dict[str, Adversary] = {}


def _adversary(
    why: str, *, refused: bool = False
) -> Callable[[Callable[[int], Dataset]], Callable[[int], Dataset]]:
    def register(make: Callable[[int], Dataset]) -> Callable[[int], Dataset]:
        name = make.__name__.strip("_").replace("_", "-")
        ADVERSARIAL[name] = Adversary(name, why, refused, make)
        return make

    return register


# Sequences that an average of tokens can hardly tell apart


@_adversary("every order of the same tokens has its own label; only positions tell them apart")
def _permutations(seed: int) -> Dataset:
    rows = np.array(list(all_permutations(range(4))))
    return _tokens(rows, 5, 6, seed)


@_adversary("equal multisets may differ in label only because their last tokens differ")
def _equal_multisets(seed: int) -> Dataset:
    rows = np.array(list(all_permutations(range(5))), dtype=np.float64)[:, :, None]
    return _vectors(rows, 5, seed)


@_adversary("different multisets with the same sum, hence the same average")
def _equal_sums(seed: int) -> Dataset:
    low = np.arange(12)
    rows = np.stack([low, 23 - low, np.full(12, 50)], axis=1).astype(np.float64)
    return _vectors(rows[:, :, None], 12, seed)


@_adversary("Prouhet-Tarry-Escott pairs: equal sums of first, second and third powers")
def _equal_power_sums(seed: int) -> Dataset:
    numbers = np.arange(16)
    odious = np.array([bin(k).count("1") % 2 == 1 for k in numbers])
    pair = np.stack([numbers[odious], numbers[~odious]])  # the Thue-Morse split: equal up to the third power
    shifts = np.random.default_rng(seed).choice(64, size=8, replace=False)
    rows = np.concatenate([pair + shift for shift in shifts])
    last = np.full((len(rows), 1), 100)  # the same last token, so that the multiset alone decides
    return _vectors(np.concatenate([rows, last], axis=1).astype(np.float64)[:, :, None], 7, seed)


@_adversary("every sequence sums to the zero vector: each token comes with its opposite")
def _zero_sums(seed: int) -> Dataset:
    half = np.random.default_rng(seed).integers(1, 50, size=(20, 3, 2)).astype(np.float64)
    last = np.zeros((20, 1, 2))
    return _vectors(np.concatenate([half, -half, last], axis=1), 6, seed)


@_adversary("sequences of one token repeated: the average says nothing of the length")
def _all_equal_tokens(seed: int) -> Dataset:
    tokens = np.repeat(np.arange(3), 8)
    lengths = np.tile(np.arange(1, 9), 3)
    ids = np.repeat(tokens, lengths)
    return _label(TokenSequences(ids, offsets_of(lengths), 3), 5, seed, ordered=False)


# Sequences that differ as little as they can


@_adversary("one sequence, and every way of changing one of its tokens")
def _one_token_differs(seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    rows = np.repeat(rng.integers(0, 4, size=(1, 8)), 25, axis=0)
    place = np.arange(24)
    rows[1 + place, place // 3] = (rows[1 + place, place // 3] + 1 + place % 3) % 4
    return _tokens(rows, 4, 5, seed)


@_adversary("all but the last of eight tokens are the same everywhere")
def _common_prefixes(seed: int) -> Dataset:
    rows = np.random.default_rng(seed).integers(0, 9, size=(1, 8)).repeat(40, axis=0)
    rows[:, -1] = np.arange(40)
    return _tokens(rows, 40, 6, seed)


@_adversary("all but the first of eight tokens are the same everywhere, the last one too")
def _common_suffixes(seed: int) -> Dataset:
    rows = np.random.default_rng(seed).integers(0, 9, size=(1, 8)).repeat(40, axis=0)
    rows[:, 0] = np.arange(40)
    return _tokens(rows, 40, 6, seed)


@_adversary("each sequence is a prefix of the next")
def _prefixes_of_one_another(seed: int) -> Dataset:
    word = np.random.default_rng(seed).integers(0, 3, size=16)
    lengths = np.arange(1, 17)
    ids = np.concatenate([word[:length] for length in lengths])
    return _label(TokenSequences(ids, offsets_of(lengths), 3), 6, seed, ordered=True)


@_adversary("neighbouring tokens are exactly delta = 1/8 apart, on a line and on a grid")
def _exactly_delta_apart(seed: int) -> Dataset:
    values = np.random.default_rng(seed).integers(0, 10, size=(40, 4, 2)) / 8
    values[0, :, 0], values[0, :, 1] = np.arange(4) / 8, 0.0
    return _vectors(values, 6, seed)


@_adversary("tokens one unit in the last place apart, near 1")
def _neighbouring_floats(seed: int) -> Dataset:
    steps = np.random.default_rng(seed).integers(0, 6, size=(30, 3, 2))
    return _vectors(1.0 + steps * np.finfo(np.float64).eps, 5, seed)


@_adversary("magnitudes from the smallest denormal float to the largest float")
def _huge_and_denormal(seed: int) -> Dataset:
    smallest, largest = np.nextafter(0.0, 1.0), np.finfo(np.float64).max
    choices = np.array([0.0, smallest, -smallest, 3 * smallest, 1e-160, 1.0, -1e160, largest, -largest])
    return _vectors(np.random.default_rng(seed).choice(choices, size=(30, 3, 2)), 4, seed)


@_adversary("all tokens on one line through the origin, so most projections are the same one")
def _collinear(seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    return _vectors(rng.integers(-30, 30, size=(40, 4, 1)) * np.array([1.0, 2.0, -3.0]), 6, seed)


# Sizes at the edge


@_adversary("a vocabulary of one token: only the length tells sequences apart")
def _vocabulary_of_one(seed: int) -> Dataset:
    lengths = np.arange(1, 13)
    sequences = TokenSequences(np.zeros(int(lengths.sum()), dtype=np.int64), offsets_of(lengths), 1)
    return _label(sequences, 4, seed, ordered=True)


@_adversary("sequences of one token")
def _length_one(seed: int) -> Dataset:
    return _vectors(np.random.default_rng(seed).random((25, 1, 3)), 5, seed)


@_adversary("a single sample: there is nothing to tell apart")
def _one_sample(seed: int) -> Dataset:
    return _vectors(np.random.default_rng(seed).random((1, 4, 2)), 3, seed)


@_adversary("one class: no label bits at all")
def _one_class(seed: int) -> Dataset:
    return _vectors(np.random.default_rng(seed).random((20, 4, 2)), 1, seed)


@_adversary("as many classes as samples, each label once")
def _all_labels_differ(seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    data = _vectors(rng.random((30, 4, 2)), 30, seed)
    return data.with_labels(rng.permutation(30))


@_adversary("a length that is no power of two, so averages are no dyadic numbers")
def _length_seven(seed: int) -> Dataset:
    return _vectors(np.random.default_rng(seed).integers(0, 4, size=(30, 7, 2)).astype(np.float64), 5, seed)


@_adversary("token ids scattered over a vocabulary of a million")
def _sparse_vocabulary(seed: int) -> Dataset:
    rows = np.random.default_rng(seed).integers(0, 10**6, size=(20, 4))
    return _tokens(rows, 10**6, 5, seed)


@_adversary("the same text in two Unicode spellings, with different labels")
def _unicode_twins(seed: int) -> Dataset:
    texts = [
        "caf\u00e9",
        "cafe\u0301",
        "\u212b",
        "\u00c5",
        "A\u030a",
        "\U0001f468\u200d\U0001f469",
        "\u202eabc",
    ]
    labels = np.random.default_rng(seed).permutation(len(texts))
    return Dataset.from_pairs([(text, str(label)) for text, label in zip(texts, labels, strict=True)])


# One label a token


@_adversary("one token repeated, with another label at every position")
def _label_by_position(seed: int) -> Dataset:
    rows = np.repeat(np.arange(3)[:, None], 6, axis=1)
    return _tokens(rows, 3, 8, seed, task="seq-to-seq")


@_adversary("the same tokens in every order, one label a token, order ignored")
def _label_by_token(seed: int) -> Dataset:
    rows = np.array(list(all_permutations(range(4))), dtype=np.float64)[:, :, None]
    return _vectors(rows, 5, seed, task="seq-to-seq")


# What nothing can memorise


@_adversary("two equal inputs with different labels", refused=True)
def _conflicting_labels(seed: int) -> Dataset:
    values = np.random.default_rng(seed).random((10, 4, 2))
    values[7] = values[2]
    data = _vectors(values, 5, seed)
    labels = data.labels.copy()
    labels[7] = (labels[2] + 1) % 5
    return data.with_labels(labels)


@_adversary("one coordinate is NaN", refused=True)
def _not_a_number(seed: int) -> Dataset:
    return _spoilt(seed, np.nan)


@_adversary("one coordinate is infinite", refused=True)
def _infinite(seed: int) -> Dataset:
    return _spoilt(seed, -np.inf)


def _spoilt(seed: int, value: float) -> Dataset:
    values = np.random.default_rng(seed).random((10, 4, 2))
    values[6, 3, 1] = value
    return _vectors(values, 5, seed)


def _vectors(values: np.ndarray, n_classes: int, seed: int, task: Task = "next-token") -> Dataset:
    return _label(VectorSequences(values), n_classes, seed, ordered=False, task=task)


def _tokens(rows: np.ndarray, n_vocab: int, n_classes: int, seed: int, task: Task = "next-token") -> Dataset:
    offsets = np.arange(len(rows) + 1) * rows.shape[1]
    sequences = TokenSequences(rows.reshape(-1), offsets, n_vocab)
    return _label(sequences, n_classes, seed, ordered=True, task=task)


def _label(
    inputs: Sequences, n_classes: int, seed: int, *, ordered: bool, task: Task = "next-token"
) -> Dataset:
    rng = np.random.default_rng([seed, n_classes])
    return random_labels(inputs, n_classes, rng, task, ordered)
