"""Codes of different lengths for labels: frequent labels have short codes, which need fewer equations.

A word has fields of several kinds. Every key reads a field of the first kind. Classes are numbered by frequency, the most frequent
first. The codes of the rarer labels, `first` and above, continue in a field of the second kind, and so on. A hash of the key
determines which field of each kind it reads. So a word has fields of each kind in proportion to the keys that use them. For
example, if half of the keys have codes that continue, a word has about half as many fields of the second kind as of the first.

Let L₁ be the number in the field of the first kind, and v the number in the field of the second kind, which has n_bits bits. The
label is
    L₂ = L₁ for L₁ < first, else first + (L₁ - first)·2^n_bits + v.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log, log2, sqrt

import numpy as np
from jaxtyping import Bool, Int, Shaped

_MOST_ESCAPES = 48  # about how many values are tried for the number of first-field codes that continue
_WORTHWHILE = 0.25  # codes are tried if the entropy of C labels is more than this far below ⌈log2 C⌉ bits


@dataclass(frozen=True)
class RareField:
    """A kind of bit field in a word, which is used only for rare labels. A word has `n_planes` fields of this kind, of `n_bits`
    bits each.

    Labels are numbered by frequency, the most frequent first. The codes of the labels from number `first` on are too long for the
    fields of the earlier kinds, so they continue in a field of this kind.
    """

    n_bits: int
    n_planes: int
    first: int


RareFields = tuple[RareField, ...]


@dataclass(frozen=True)
class LabelField:
    """One kind of field in a word: `n_planes` planes (bit fields) of `n_bits` bits each, starting at bit `start`. A key
    uses at most one plane of each kind, which holds the code of its label or a part of this code.

    below  the place value of this kind in the number that encodes which planes a key uses. The number has one digit for each
           kind of field, which says which plane of this kind is used. `below` is the product of `n_planes` over all kinds that
           start at lower bits
    """

    n_bits: int
    n_planes: int
    start: int
    below: int

    @property
    def stop(self) -> int:
        """The number of the first bit above the planes (bit fields) of this kind. The planes of the next kind start there."""
        return self.start + self.n_planes * self.n_bits


def label_fields(field_bits: int, n_planes: int, rare: RareFields) -> tuple[LabelField, ...]:
    """Return the kinds of fields of a word, from the lowest bits up: the kind that every label uses, then those of rarer labels."""
    found, start, below = [], 0, 1
    for n_bits, n_fields in [(field_bits, n_planes), *((each.n_bits, each.n_planes) for each in rare)]:
        found.append(LabelField(n_bits, n_fields, start, below))
        start, below = found[-1].stop, below * n_fields
    return tuple(found)


def planes_of(
    fields: Sequence[LabelField], places: Int[np.ndarray, " n_keys"]
) -> Int[np.ndarray, "n_keys n_kinds"]:
    """Decode each of the numbers `places` into one plane (bit field of a word) of each kind. See `LabelField.below`."""
    return np.stack([places // field.below % field.n_planes for field in fields], axis=1)


def read_numbers(
    fields: Sequence[LabelField],
    planes: Int[np.ndarray, "n_keys n_kinds"],
    sums: Shaped[np.ndarray, " n_keys"],
) -> list[Int[np.ndarray, " n_keys"]]:
    """For each kind of field, return the number in each key's field, as the reading circuit reads it from the sums of words."""
    gray = (sums << 1) ^ sums  # bit b is y_b xor y_{b-1}
    found = []
    for field, own in zip(fields, planes.T, strict=True):
        starts = (field.start + own * field.n_bits).astype(sums.dtype)
        found.append(np.asarray((gray >> starts) & ((1 << field.n_bits) - 1)).astype(np.int64))
    return found


def split_labels(
    labels: Int[np.ndarray, " n_keys"], rare: RareFields
) -> list[tuple[Int[np.ndarray, " n_keys"], Bool[np.ndarray, " n_keys"]]]:
    """Return two arrays for each kind of field, with one entry for each key: the part of the key's label that a field of this
    kind holds, and whether the key uses such a field.
    """
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
    """Return the labels, given the numbers that were read from each kind of field. This is the inverse of `split_labels`."""
    labels = numbers[0]
    for number, field in zip(numbers[1:], rare, strict=True):
        beyond = labels - field.first
        labels = np.where(beyond >= 0, field.first + (beyond << field.n_bits) + number, labels)
    return np.asarray(labels)


def fullest(n_keys: int, n_planes: int, care: int = 1) -> float:
    """Return an estimate for the number of keys in the fullest of `n_planes` planes (bit fields of the words).

    Let m = n_keys / n_planes be the mean number of keys per plane. The estimate is m + √(2·ln(n_planes · care)·m) + 1, but at
    most n_keys. A larger `care` gives a larger, safer estimate.
    """
    mean = n_keys / n_planes
    return mean if n_planes == 1 else min(float(n_keys), mean + sqrt(2 * log(n_planes * care) * mean) + 1)


def codes_worth_trying(label_counts: Sequence[int], n_planes: int) -> list[tuple[int, RareFields]]:
    """Return at most two codes for labels: the best one with two kinds of fields, and the best one with three, among those that are
    tried. The best code is the one with the shortest words.

    Return no code if the frequencies of the labels differ too little for a code to save much. A code is given as a pair: the number
    of bits of the kind of field that every label uses, and the kinds of fields for rare labels.

    label_counts: the number of keys with each label, the most frequent first.
    n_planes: the number of fields in a word of the kind that every label uses.
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
    """Compute how many planes (bit fields of a word) are needed for the keys with a given label or a higher one."""

    def __init__(self, label_counts: tuple[int, ...], room: float) -> None:
        self.n_classes = len(label_counts)
        self._counts = np.append(np.cumsum(np.array(label_counts)[::-1])[::-1], 0)
        self._room = room

    def planes(self, first: int) -> int:
        """Return the number of planes (bit fields of a word) that the keys with labels `first` and above need.

        The result is so large that each plane for these keys is expected to hold at most as many keys as the fullest plane of the
        first kind, which every label uses.
        """
        n_keys = int(self._counts[first])
        n_planes = max(1, ceil(n_keys / self._room))
        while fullest(n_keys, n_planes) > self._room:
            n_planes += 1
        return n_planes


def _candidates(beyond: _Beyond) -> Iterator[tuple[int, RareFields]]:
    """Yield codes (see `codes_worth_trying`) that have room for every label. Rare labels use further kinds of fields, and as few
    labels as possible use the last of these kinds.
    """
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
    """Return the numbers 1 to `most`, or, if there are many, a selection of them with growing gaps."""
    if most <= _MOST_ESCAPES:
        return list(range(1, most + 1))
    return sorted({int(2 ** (i * log2(most) / _MOST_ESCAPES)) for i in range(_MOST_ESCAPES + 1)})
