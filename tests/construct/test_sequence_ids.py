"""Lemmas B.1 and B.2: few tokens, small weights, distinct sums."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byheart.construct.kajitsuka_sato_2025.sequence_ids import distinguishing_tokens, sequence_weights
from byheart.errors import AssumptionViolated
from byheart.theorems import checks

multisets = st.lists(
    st.lists(st.integers(0, 6), max_size=5).map(lambda tokens: tuple(sorted(tokens))),
    min_size=1,
    max_size=14,
    unique=True,
).map(lambda rows: [Counter(row) for row in rows])


def restricted(counts: Counter[int], tokens: set[int]) -> frozenset[tuple[int, int]]:
    return frozenset((token, count) for token, count in counts.items() if token in tokens)


@checks("KS25-L B.1")
@settings(max_examples=150, deadline=None)
@given(multisets)
def test_fewer_tokens_than_multisets_tell_them_apart(rows: list[Counter[int]]) -> None:
    tokens = distinguishing_tokens(rows)
    assert len(tokens) <= max(0, len(rows) - 1)
    assert len(set(tokens)) == len(tokens)
    assert len({restricted(row, set(tokens)) for row in rows}) == len(rows)


@checks("KS25-L B.2")
@settings(max_examples=150, deadline=None)
@given(multisets, st.integers(0, 2**32))
def test_weighted_sums_are_distinct(rows: list[Counter[int]], seed: int) -> None:
    tokens = distinguishing_tokens(rows)
    weights = sequence_weights(rows, tokens, np.random.default_rng(seed))
    assert set(weights) == set(tokens)
    ceiling = len(rows) * (len(rows) - 1) // 2 + 1
    assert all(1 <= weight <= ceiling for weight in weights.values())
    sums = [sum(count * weights.get(token, 0) for token, count in row.items()) for row in rows]
    assert len(set(sums)) == len(rows)


@checks("KS25-L B.2")
def test_the_papers_shift_fails_on_the_counterexample_and_ours_does_not() -> None:
    rows = [Counter({1: 1, 2: 1}), Counter({3: 1, 4: 1, 5: 1})]
    h = dict(zip(range(1, 6), (17, 3, -9, -20, -21), strict=True))
    plain = [sum(h[token] for token in row) for row in rows]
    assert plain[0] != plain[1]
    shift = plain[0] - plain[1]  # adding a constant moves a triple further than a pair
    assert len({sum(h[token] + shift for token in row) for row in rows}) == 1
    weights = sequence_weights(rows, distinguishing_tokens(rows), np.random.default_rng(0))
    assert len({sum(weights.get(token, 0) for token in row) for row in rows}) == 2


def test_equal_multisets_are_refused() -> None:
    with pytest.raises(AssumptionViolated):
        distinguishing_tokens([Counter({1: 2}), Counter({1: 2})])
    with pytest.raises(AssumptionViolated):
        sequence_weights([Counter({1: 2}), Counter({2: 1})], [], np.random.default_rng(0))
