"""Lemmas B.1 and B.2 of KS25: choose tokens to count, and weights for the counts, so that every multiset gets its own number."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from byheart.data.multiset import Multiset
from byheart.errors import AssumptionViolated
from byheart.theorems import realises

_DRAWS_BEFORE_WIDENING = 6
_DRAWS_BEFORE_ENUMERATING = 200


@realises("KS25-L B.1")
def distinguishing_tokens(multisets: Sequence[Multiset[int]]) -> list[int]:
    """Choose tokens whose counts distinguish all multisets. Fewer tokens are chosen than there are multisets.

    Source:     KS25 Lemma B.1.
    Assumes:    distinct multisets.
    Guarantee:  the N multisets remain distinct if only the returned tokens are counted. At most N - 1 tokens are returned (the
                lemma: N).
    Departs:    the lemma adds one token for each new multiset. Here each token is tried at most once, starting with those that
                occur in about half of the multisets. A token is kept if it separates multisets that are still equal. Each kept
                token adds at least one class of equal multisets, so at most N - 1 are kept. On text this needs far fewer tokens.
    """
    occurrences = _occurrences(multisets)
    classes = _Classes(len(multisets))
    kept: list[int] = []
    for token in sorted(occurrences, key=lambda t: (abs(2 * len(occurrences[t]) - len(multisets)), t)):
        if classes.n_classes == len(multisets):
            break
        before = classes.n_classes
        classes.split(classes.parts(occurrences[token]))
        if classes.n_classes > before:
            kept.append(token)
    if classes.n_classes < len(multisets):
        raise AssumptionViolated(
            "two of the multisets are equal, so counts cannot distinguish them.\n  Pass every multiset only once."
        )
    return kept


@realises("KS25-L B.2", "KS25-eq9", "KS25-fn1")
def sequence_weights(
    multisets: Sequence[Multiset[int]], tokens: Sequence[int], rng: np.random.Generator
) -> dict[int, int]:
    """Choose positive integers f(token) such that Σ count · f(token) is different for every multiset.

    Source:     KS25 Lemma B.2.
    Assumes:    the multisets restricted to `tokens` are distinct.
    Guarantee:  for N multisets the weighted sums are distinct integers, and no weight exceeds N(N - 1)/2 + 1 (the lemma: 4N³√π).
    Departs:    the paper's proof fails when cardinalities differ, because adding a constant to make f positive shifts
                multisets by different amounts (erratum 1). Here the tokens get their weights one by one. At each step,
                multisets that differ on the tokens so far have different sums. Two such multisets with different counts of the
                next token collide for at most one value of its weight, so one of N(N - 1)/2 + 1 values avoids all collisions.
                The search draws random values from a range that grows after failures, and so finds a small weight.
    """
    ceiling = len(multisets) * (len(multisets) - 1) // 2 + 1
    occurrences = _occurrences(multisets)
    classes = _Classes(len(multisets))
    sum_of = {0: 0}  # the sum of each class
    used = {0}
    weights: dict[int, int] = {}
    widest = 1
    for token in tokens:
        parts = classes.parts(occurrences[token])
        leaving = Counter[int]()
        for part in parts:
            leaving[part.old] += len(part.members)
        vacated = {sum_of[old] for old, n_left in leaving.items() if n_left == classes.size[old]}
        places = [(sum_of[part.old], part.count) for part in parts]

        draws = 0
        weight = int(rng.integers(1, widest, endpoint=True))
        while not _is_free(weight, places, used, vacated):
            draws += 1
            if draws % _DRAWS_BEFORE_WIDENING == 0:
                widest = min(2 * widest, ceiling)
            if draws > _DRAWS_BEFORE_ENUMERATING and widest == ceiling:
                candidates = range(1, ceiling + 1)
                weight = next(value for value in candidates if _is_free(value, places, used, vacated))
                break
            weight = int(rng.integers(1, widest, endpoint=True))
        weights[token] = weight
        used -= vacated
        for new, (start, count) in zip(classes.split(parts), places, strict=True):
            sum_of[new] = start + count * weight
            used.add(sum_of[new])
    if classes.n_classes < len(multisets):
        raise AssumptionViolated(
            "two of the multisets contain each of the chosen tokens equally often, so these tokens do not distinguish "
            "them.\n  Choose the tokens with `distinguishing_tokens`."
        )
    return weights


def _is_free(weight: int, places: Sequence[tuple[int, int]], used: Set[int], vacated: Set[int]) -> bool:
    """Return whether `weight` gives each (start, count) in `places` a different sum that is free.

    The sum is start + count · weight. It is free if it is not in `used`, or if it is in `vacated`.
    """
    sums = [start + count * weight for start, count in places]
    return len(set(sums)) == len(sums) and all(s not in used or s in vacated for s in sums)


def sequence_id(multiset: Multiset[int], weights: Mapping[int, int]) -> int:
    """Return the sum of the weights of all tokens in the multiset. Tokens that are not in `weights` have weight zero."""
    return sum(weights[token] * count for token, count in multiset.restrict(weights.keys()).items)


def _occurrences(multisets: Sequence[Multiset[int]]) -> dict[int, list[tuple[int, int]]]:
    """For each token, return the multisets in which it occurs, as pairs (number of the multiset, count of the token)."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, multiset in enumerate(multisets):
        for token, count in multiset.items:
            found[token].append((number, count))
    return found


@dataclass(frozen=True)
class _Part:
    """Those multisets of one class that contain a certain token `count` times.

    A class holds multisets that are equal on the tokens seen so far. `old` is the number of the class, and `members` holds the
    numbers of the multisets.
    """

    old: int
    count: int
    members: tuple[int, ...]


class _Classes:
    """A division of the multisets into classes. Multisets that are equal on the tokens seen so far are in the same class."""

    def __init__(self, n_multisets: int) -> None:
        self.class_of = [0] * n_multisets
        self.size = {0: n_multisets}

    @property
    def n_classes(self) -> int:
        return len(self.size)

    def parts(self, occurrences: Sequence[tuple[int, int]]) -> list[_Part]:
        """Group the multisets that contain a certain token. Two of them are in the same group if they are in the same class
        and contain the token equally often.

        `occurrences` has a pair for each of these multisets: the number of the multiset, and the count of the token in it.
        """
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, count in occurrences:
            groups[self.class_of[number], count].append(number)
        return [_Part(old, count, tuple(members)) for (old, count), members in groups.items()]

    def split(self, parts: Sequence[_Part]) -> list[int]:
        """Take each part out of its class and make it a new class, unless it already is the whole class. Return the number of
        each part's class.
        """
        numbers = []
        for part in parts:
            # the part is the whole class, which keeps its number
            if len(part.members) == self.size[part.old]:
                numbers.append(part.old)
                continue
            new = len(self.size)
            self.size[part.old] -= len(part.members)
            self.size[new] = len(part.members)
            for number in part.members:
                self.class_of[number] = new
            numbers.append(new)
        return numbers
