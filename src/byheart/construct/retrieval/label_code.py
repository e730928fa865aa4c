"""Codes for labels: frequent labels have short codes, and bits that a code does not have need no equation.

A word has fields of several kinds. A key reads a field of the first kind; the codes of rarer labels, from `first` on, continue in a
field of the next kind, and so on. Which field of a kind a key reads is a hash of the key, so a word needs fields of each kind in
proportion to the keys that reach it: beside K₁ fields of the first kind, s·K₁ of the second are equally full where a share s of
the keys continues. Classes are numbered by how often they occur, the most frequent first.

With L₁ the number in the first field, and v the number in a field of the next kind:
    L₂ = L₁ for L₁ < first, else first + (L₁ - first)·2^n_bits + v.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log, log2, sqrt

import numpy as np
from jaxtyping import Bool, Int, Shaped

_MOST_ESCAPES = 48  # numbers of first-field codes that go on, tried for each choice of bits
_WORTHWHILE = 0.25  # bits below ⌈log2 C⌉ that the entropy must lie for codes to be tried


@dataclass(frozen=True)
class RareField:
    """A kind of field for the labels from `first` on; a word has `n_planes` of them."""

    n_bits: int
    n_planes: int
    first: int


RareFields = tuple[RareField, ...]


@dataclass(frozen=True)
class LabelField:
    """A kind of field of a word: its planes, each of the same number of bits, from the bit `start` up.

    below  ways to choose a plane of every lower kind: the plane is the digit of that weight in the number that names them all
    """

    n_bits: int
    n_planes: int
    start: int
    below: int

    @property
    def stop(self) -> int:
        """The bit above all planes."""
        return self.start + self.n_planes * self.n_bits


def label_fields(field_bits: int, n_planes: int, rare: RareFields) -> tuple[LabelField, ...]:
    """The kinds of fields of a word, from the lowest bits up: the kind of all labels, then those of rarer labels."""
    found, start, below = [], 0, 1
    for n_bits, n_fields in [(field_bits, n_planes), *((each.n_bits, each.n_planes) for each in rare)]:
        found.append(LabelField(n_bits, n_fields, start, below))
        start, below = found[-1].stop, below * n_fields
    return tuple(found)


def planes_of(
    fields: Sequence[LabelField], places: Int[np.ndarray, " n_keys"]
) -> Int[np.ndarray, "n_keys n_kinds"]:
    """The plane of each kind, of the numbers that name them all."""
    return np.stack([places // field.below % field.n_planes for field in fields], axis=1)


def read_numbers(
    fields: Sequence[LabelField],
    planes: Int[np.ndarray, "n_keys n_kinds"],
    sums: Shaped[np.ndarray, " n_keys"],
) -> list[Int[np.ndarray, " n_keys"]]:
    """What the reading circuit reads from sums of words: the number in a key's field of each kind."""
    gray = (sums << 1) ^ sums  # bit b holds y_b xor y_{b-1}
    found = []
    for field, own in zip(fields, planes.T, strict=True):
        starts = (field.start + own * field.n_bits).astype(sums.dtype)
        found.append(np.asarray((gray >> starts) & ((1 << field.n_bits) - 1)).astype(np.int64))
    return found


def split_labels(
    labels: Int[np.ndarray, " n_keys"], rare: RareFields
) -> list[tuple[Int[np.ndarray, " n_keys"], Bool[np.ndarray, " n_keys"]]]:
    """What every key has in its field of each kind, the first kind first, and whether it reaches it."""
    found = []
    rest = labels
    for field in reversed(rare):
        beyond = rest - field.first
        reaches = beyond >= 0
        found.append((beyond & ((1 << field.n_bits) - 1), reaches))
        rest = np.where(reaches, field.first + (beyond >> field.n_bits), rest)
    return [(rest, np.ones(len(labels), dtype=bool)), *reversed(found)]


def join_labels(
    numbers: Sequence[Int[np.ndarray, " n_keys"]], rare: RareFields
) -> Int[np.ndarray, " n_keys"]:
    """The labels of what was read in a field of each kind: the inverse of `split_labels`."""
    labels = numbers[0]
    for number, field in zip(numbers[1:], rare, strict=True):
        beyond = labels - field.first
        labels = np.where(beyond >= 0, field.first + (beyond << field.n_bits) + number, labels)
    return np.asarray(labels)


def fullest(n_keys: int, n_planes: int, care: int = 1) -> float:
    """Expected keys in the fullest plane: N/K plus a few times √(N/K), as if there were `care` times as many planes."""
    mean = n_keys / n_planes
    return mean if n_planes == 1 else min(float(n_keys), mean + sqrt(2 * log(n_planes * care) * mean) + 1)


def codes_worth_trying(label_counts: Sequence[int], n_planes: int) -> list[tuple[int, RareFields]]:
    """Bits of the first field and fields for rare labels: of two and of three kinds, those with the shortest words.

    label_counts: keys of each label, the most frequent first.
    """
    return list(_codes(tuple(label_counts), n_planes)) if _is_skewed(tuple(label_counts)) else []


@lru_cache(maxsize=16)
def _is_skewed(label_counts: tuple[int, ...]) -> bool:
    shares = np.array([count for count in label_counts if count], dtype=float)
    shares /= shares.sum()
    entropy = -float((shares * np.log2(shares)).sum())
    return entropy < max(1, (len(label_counts) - 1).bit_length()) - _WORTHWHILE


@lru_cache(maxsize=256)
def _codes(label_counts: tuple[int, ...], n_planes: int) -> tuple[tuple[int, RareFields], ...]:
    n_keys = sum(label_counts)
    beyond = _Beyond(label_counts, fullest(n_keys, n_planes))
    found: dict[int, tuple[int, int, RareFields]] = {}
    for first_bits, rare in _candidates(beyond):
        n_bits = first_bits * n_planes + sum(field.n_bits * field.n_planes for field in rare)
        if len(rare) not in found or n_bits < found[len(rare)][0]:
            found[len(rare)] = n_bits, first_bits, rare
    return tuple((first_bits, rare) for _, first_bits, rare in found.values())


class _Beyond:
    """How many keys have a label from some number on, and how many planes they need."""

    def __init__(self, label_counts: tuple[int, ...], room: float) -> None:
        self.n_classes = len(label_counts)
        self._counts = np.append(np.cumsum(np.array(label_counts)[::-1])[::-1], 0)
        self._room = room

    def planes(self, first: int) -> int:
        """Planes that hold the keys with labels from `first` on, each no fuller than those of the first kind."""
        n_keys = int(self._counts[first])
        n_planes = max(1, ceil(n_keys / self._room))
        while fullest(n_keys, n_planes) > self._room:
            n_planes += 1
        return n_planes


def _candidates(beyond: _Beyond) -> Iterator[tuple[int, RareFields]]:
    """Codes that have room for every label and waste no bit of the last field."""
    n_classes = beyond.n_classes
    bits = max(1, (n_classes - 1).bit_length())
    for first_bits in range(1, bits):
        n_first = 1 << first_bits
        for second_bits in range(1, bits):
            n_escapes = ceil((n_classes - n_first) / ((1 << second_bits) - 1))
            if n_escapes <= n_first:
                first = n_first - n_escapes
                yield first_bits, (RareField(second_bits, beyond.planes(first), first),)
            for n_going_on in _some_numbers(min(n_first, n_escapes - 1)):
                first = n_first - n_going_on
                n_second = n_going_on << second_bits
                planes = beyond.planes(first)
                for third_bits in range(1, bits - first_bits + 1):
                    n_further = ceil((n_classes - first - n_second) / ((1 << third_bits) - 1))
                    if not 0 < n_further <= n_second:
                        continue
                    second = first + n_second - n_further
                    third = RareField(third_bits, beyond.planes(second), second)
                    yield first_bits, (RareField(second_bits, planes, first), third)


def _some_numbers(most: int) -> list[int]:
    """1 to `most`, or some of them with growing distances."""
    if most <= _MOST_ESCAPES:
        return list(range(1, most + 1))
    return sorted({int(2 ** (i * log2(most) / _MOST_ESCAPES)) for i in range(_MOST_ESCAPES + 1)})
