"""Lemmas B.1 and B.2: few words, small weights, distinct sums."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byheart.construct.kajitsuka_sato_2025.sequence_ids import distinguishing_words, sequence_weights
from byheart.errors import AssumptionViolated
from byheart.theorems import checks

multisets = st.lists(
    st.lists(st.integers(0, 6), max_size=5).map(lambda words: tuple(sorted(words))),
    min_size=1,
    max_size=14,
    unique=True,
).map(lambda rows: [Counter(row) for row in rows])


def restricted(counts: Counter[int], words: set[int]) -> frozenset[tuple[int, int]]:
    return frozenset((word, count) for word, count in counts.items() if word in words)


@checks("KS25-L B.1")
@settings(max_examples=400, deadline=None)
@given(multisets)
def test_fewer_words_than_multisets_tell_them_apart(rows: list[Counter[int]]) -> None:
    words = distinguishing_words(rows)
    assert len(words) <= max(0, len(rows) - 1)
    assert len(set(words)) == len(words)
    assert len({restricted(row, set(words)) for row in rows}) == len(rows)


@checks("KS25-L B.2")
@settings(max_examples=400, deadline=None)
@given(multisets, st.integers(0, 2**32))
def test_weighted_sums_are_distinct(rows: list[Counter[int]], seed: int) -> None:
    words = distinguishing_words(rows)
    weights = sequence_weights(rows, words, np.random.default_rng(seed))
    assert set(weights) == set(words)
    ceiling = len(rows) * (len(rows) - 1) // 2 + 1
    assert all(1 <= weight <= ceiling for weight in weights.values())
    sums = [sum(count * weights.get(word, 0) for word, count in row.items()) for row in rows]
    assert len(set(sums)) == len(rows)


@checks("KS25-L B.2")
def test_the_papers_shift_fails_on_the_counterexample_and_ours_does_not() -> None:
    rows = [Counter({1: 1, 2: 1}), Counter({3: 1, 4: 1, 5: 1})]
    h = dict(zip(range(1, 6), (17, 3, -9, -20, -21), strict=True))
    plain = [sum(h[word] for word in row) for row in rows]
    assert plain[0] != plain[1]
    shift = plain[0] - plain[1]  # adding a constant moves a triple further than a pair
    assert len({sum(h[word] + shift for word in row) for row in rows}) == 1
    weights = sequence_weights(rows, distinguishing_words(rows), np.random.default_rng(0))
    assert len({sum(weights.get(word, 0) for word in row) for row in rows}) == 2


def test_equal_multisets_are_refused() -> None:
    with pytest.raises(AssumptionViolated):
        distinguishing_words([Counter({1: 2}), Counter({1: 2})])
    with pytest.raises(AssumptionViolated):
        sequence_weights([Counter({1: 2}), Counter({2: 1})], [], np.random.default_rng(0))
