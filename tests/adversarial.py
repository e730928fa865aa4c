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
from byheart.data.sequences import TokenSequences, VectorSequences

Rng = np.random.Generator
Labels = np.ndarray


@dataclass(frozen=True)
class Adversary:
    """A seeded data set that is hard for a reason. Called with a seed, it makes the data set.

    draw     its inputs: vectors, or token ids, whose order counts unless `ordered` says otherwise
    relabel  what becomes of labels drawn at random, where they are not to stay so
    """

    name: str
    why: str
    n_classes: int
    draw: Callable[[Rng], np.ndarray | TokenSequences | Dataset]
    relabel: Callable[[Labels, Rng], Labels] | None = None
    ordered: bool = True
    task: Task = "next-token"
    refused: bool = False

    def __call__(self, seed: int) -> Dataset:
        """Make the data set; the same seed always gives the same one."""
        rng = np.random.default_rng(seed)
        drawn = self.draw(rng)
        if isinstance(drawn, Dataset):
            return drawn
        are_ids = isinstance(drawn, TokenSequences)
        inputs = drawn if isinstance(drawn, TokenSequences) else VectorSequences(drawn)
        labels_rng = np.random.default_rng([seed, self.n_classes])
        data = random_labels(inputs, self.n_classes, labels_rng, self.task, self.ordered and are_ids)
        return data if self.relabel is None else data.with_labels(self.relabel(data.labels.copy(), rng))


def _orders(n_tokens: int) -> np.ndarray:
    """Every order of the same tokens."""
    return np.array(list(all_permutations(range(n_tokens))))


def _on_a_line(rows: np.ndarray) -> np.ndarray:
    """Whole numbers as vectors of dimension one."""
    return rows.astype(np.float64)[:, :, None]


def _equal_power_sums(rng: Rng) -> np.ndarray:
    numbers = np.arange(16)
    odious = np.array([bin(k).count("1") % 2 == 1 for k in numbers])
    pair = np.stack([numbers[odious], numbers[~odious]])  # the Thue-Morse split: equal up to the third power
    rows = np.concatenate([pair + shift for shift in rng.choice(64, size=8, replace=False)])
    last = np.full((len(rows), 1), 100)  # the same last token, so that the multiset alone decides
    return _on_a_line(np.concatenate([rows, last], axis=1))


def _zero_sums(rng: Rng) -> np.ndarray:
    half = rng.integers(1, 50, size=(20, 3, 2)).astype(np.float64)
    return np.concatenate([half, -half, np.zeros((20, 1, 2))], axis=1)


def _one_token_differs(rng: Rng) -> TokenSequences:
    rows = np.repeat(rng.integers(0, 4, size=(1, 8)), 25, axis=0)
    place = np.arange(24)
    rows[1 + place, place // 3] = (rows[1 + place, place // 3] + 1 + place % 3) % 4
    return TokenSequences.of(rows, 4)


def _alike_but_at(rng: Rng, place: int) -> TokenSequences:
    rows = rng.integers(0, 9, size=(1, 8)).repeat(40, axis=0)
    rows[:, place] = np.arange(40)
    return TokenSequences.of(rows, 40)


def _prefixes(rng: Rng) -> TokenSequences:
    word = rng.integers(0, 3, size=16)
    return TokenSequences.of([word[:length] for length in range(1, 17)], 3)


def _exactly_delta_apart(rng: Rng) -> np.ndarray:
    values = rng.integers(0, 10, size=(40, 4, 2)) / 8
    values[0, :, 0], values[0, :, 1] = np.arange(4) / 8, 0.0
    return values


def _huge_and_denormal(rng: Rng) -> np.ndarray:
    smallest, largest = np.nextafter(0.0, 1.0), np.finfo(np.float64).max
    choices = np.array([0.0, smallest, -smallest, 3 * smallest, 1e-160, 1.0, -1e160, largest, -largest])
    return rng.choice(choices, size=(30, 3, 2))


def _unicode_twins(rng: Rng) -> Dataset:
    family = "\U0001f468\u200d\U0001f469"
    texts = ["caf\u00e9", "cafe\u0301", "\u212b", "\u00c5", "A\u030a", family, "\u202eabc"]
    return Dataset.from_pairs(zip(texts, map(str, rng.permutation(len(texts))), strict=True))


def _with_equal_inputs(rng: Rng) -> np.ndarray:
    values = rng.random((10, 4, 2))
    values[7] = values[2]
    return values


def _disagree(labels: Labels, rng: Rng) -> Labels:
    labels[7] = (labels[2] + 1) % 5
    return labels


def _spoil(rng: Rng, value: float) -> np.ndarray:
    values = rng.random((10, 4, 2))
    values[6, 3, 1] = value
    return values


_ALL = (
    # Sequences that an average of tokens can hardly tell apart
    Adversary("permutations", "every order of the same tokens has its own label; only positions tell them apart",
        6, lambda rng: TokenSequences.of(_orders(4), 5)),
    Adversary("equal-multisets", "equal multisets may differ in label only because their last tokens differ",
        5, lambda rng: _on_a_line(_orders(5))),
    Adversary("equal-sums", "different multisets with the same sum, hence the same average",
        12, lambda rng: _on_a_line(np.array([[low, 23 - low, 50] for low in range(12)]))),
    Adversary("equal-power-sums", "Prouhet-Tarry-Escott pairs: equal sums of first, second and third powers",
        7, _equal_power_sums),
    Adversary("zero-sums", "every sequence sums to the zero vector: each token comes with its opposite",
        6, _zero_sums),
    Adversary("all-equal-tokens", "sequences of one token repeated: the average says nothing of the length",
        5, lambda rng: TokenSequences.of([[token] * n for token in range(3) for n in range(1, 9)], 3),
        ordered=False),
    # Sequences that differ as little as they can
    Adversary("one-token-differs", "one sequence, and every way of changing one of its tokens",
        5, _one_token_differs),
    Adversary("common-prefixes", "all but the last of eight tokens are the same everywhere",
        6, lambda rng: _alike_but_at(rng, -1)),
    Adversary("common-suffixes", "all but the first of eight tokens are the same everywhere, the last one too",
        6, lambda rng: _alike_but_at(rng, 0)),
    Adversary("prefixes-of-one-another", "each sequence is a prefix of the next", 6, _prefixes),
    Adversary("exactly-delta-apart", "neighbouring tokens are exactly delta = 1/8 apart, on a line and on a grid",
        6, _exactly_delta_apart),
    Adversary("neighbouring-floats", "tokens one unit in the last place apart, near 1",
        5, lambda rng: 1.0 + rng.integers(0, 6, size=(30, 3, 2)) * np.finfo(np.float64).eps),
    Adversary("huge-and-denormal", "magnitudes from the smallest denormal float to the largest float",
        4, _huge_and_denormal),
    Adversary("collinear", "all tokens on one line through the origin, so most projections are the same one",
        6, lambda rng: rng.integers(-30, 30, size=(40, 4, 1)) * np.array([1.0, 2.0, -3.0])),
    # Sizes at the edge
    Adversary("vocabulary-of-one", "a vocabulary of one token: only the length tells sequences apart",
        4, lambda rng: TokenSequences.of([[0] * length for length in range(1, 13)], 1)),
    Adversary("length-one", "sequences of one token", 5, lambda rng: rng.random((25, 1, 3))),
    Adversary("one-sample", "a single sample: there is nothing to tell apart",
        3, lambda rng: rng.random((1, 4, 2))),
    Adversary("one-class", "one class: no label bits at all", 1, lambda rng: rng.random((20, 4, 2))),
    Adversary("all-labels-differ", "as many classes as samples, each label once",
        30, lambda rng: rng.random((30, 4, 2)), relabel=lambda labels, rng: rng.permutation(30)),
    Adversary("length-seven", "a length that is no power of two, so averages are no dyadic numbers",
        5, lambda rng: rng.integers(0, 4, size=(30, 7, 2)).astype(np.float64)),
    Adversary("sparse-vocabulary", "token ids scattered over a vocabulary of a million",
        5, lambda rng: TokenSequences.of(rng.integers(0, 10**6, size=(20, 4)), 10**6)),
    Adversary("unicode-twins", "the same text in two Unicode spellings, with different labels",
        7, _unicode_twins),
    # One label a token
    Adversary("label-by-position", "one token repeated, with another label at every position",
        8, lambda rng: TokenSequences.of([[token] * 6 for token in range(3)], 3), task="seq-to-seq"),
    Adversary("label-by-token", "the same tokens in every order, one label per token, order ignored",
        5, lambda rng: _on_a_line(_orders(4)), task="seq-to-seq"),
    # What nothing can memorise
    Adversary("conflicting-labels", "two equal inputs with different labels",
        5, _with_equal_inputs, relabel=_disagree, refused=True),
    Adversary("not-a-number", "one coordinate is NaN", 5, lambda rng: _spoil(rng, np.nan), refused=True),
    Adversary("infinite", "one coordinate is infinite", 5, lambda rng: _spoil(rng, -np.inf), refused=True),
)  # fmt: skip
ADVERSARIAL: dict[str, Adversary] = {adversary.name: adversary for adversary in _ALL}
