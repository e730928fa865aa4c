"""String ids: one number for every sequence of tokens, whatever their order.

A sequence is sorted in rounds. Each round finds the largest value that remains and its multiplicity (how often it occurs), and
erases it. The string id is a weighted sum of these values and multiplicities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from byheart.program.projection import spread_of

_DRAWS_PER_RANGE = 8
_GOOD_SPREAD = 4  # times N²: the ratio of range to smallest gap of N random numbers is about N²

SortedCounts = tuple[tuple[Fraction, int], ...]
"""The distinct token values of a sequence, the largest first, each with its multiplicity."""


@dataclass(frozen=True, eq=False)
class StringIds:
    """Integer weights of the sorting rounds, and the id Σ_t place_weights[t] · M_t + count_weights[t] · c_t of every sequence.

    (M_t, c_t) is the result of round t: the largest value that remains, and its multiplicity (see `sorted_counts`).
    """

    place_weights: tuple[int, ...]
    count_weights: tuple[int, ...]
    ids: list[Fraction]


def sorted_counts(places: Sequence[Fraction], n_rounds: int) -> SortedCounts:
    """Return the result of each of `n_rounds` sorting rounds for the token values `places`.

    A round finds the largest value that remains. Its result is this value and the number of times it occurs. The value is then
    erased. When all n values are erased, the result of each further round is (0, n).
    """
    counts = sorted(Counter(places).items(), reverse=True)
    return (*counts, *([(Fraction(0), len(places))] * (n_rounds - len(counts))))


def string_ids(sequences: Sequence[SortedCounts], rng: np.random.Generator) -> StringIds:
    """Choose weights that give different sorted sequences different ids, with gaps that are large relative to the range of ids.

    Source:     the string id of KKM23. Random integers replace its projection lemma (our own argument).
    Guarantee:  different sequences have different ids. If weights are drawn uniformly from 1 to P, two given sequences collide
                with probability at most 1/P, so P > N(N - 1)/2 suffices for N sequences. Usually far smaller weights work.
    """
    n_rounds = len(sequences[0])
    distinct = list(dict.fromkeys(sequences))
    frac_bits = max(place.denominator.bit_length() - 1 for rounds in distinct for place, _ in rounds)
    table = np.array(
        [
            [int(place * (1 << frac_bits)) for place, _ in rounds]
            + [count << frac_bits for _, count in rounds]
            for rounds in distinct
        ],
        dtype=object,
    )
    best: tuple[Fraction, list[int], list[int]] | None = None
    for number, weights in enumerate(_weights(2 * n_rounds, rng)):
        ids = [int(value) for value in table @ np.array(weights, dtype=object)]
        spread = spread_of(ids)
        if spread is not None and (best is None or spread < best[0]):
            best = (spread, weights, ids)
        is_last_of_range = number % _DRAWS_PER_RANGE == _DRAWS_PER_RANGE - 1
        good = _GOOD_SPREAD * len(distinct) ** 2
        if best is not None and is_last_of_range and (best[0] <= good or number > 6 * _DRAWS_PER_RANGE):
            break
    assert best is not None
    _, weights, ids = best
    unit = Fraction(1, 1 << frac_bits)
    id_of = {rounds: value * unit for rounds, value in zip(distinct, ids, strict=True)}
    return StringIds(tuple(weights[:n_rounds]), tuple(weights[n_rounds:]), [id_of[s] for s in sequences])


def _weights(n_weights: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Yield lists of random positive weights. The iterator never ends.

    No weight exceeds a limit, which is 1 at first and doubles after every `_DRAWS_PER_RANGE` lists.
    """
    largest = 1
    while True:
        for _ in range(_DRAWS_PER_RANGE):
            digits = rng.integers(0, 1 << 62, size=(n_weights, largest.bit_length() // 62 + 1)).tolist()
            yield [1 + sum(d << (62 * k) for k, d in enumerate(row)) % largest for row in digits]
        largest *= 2
