"""Lemmas B.1 and B.2: few tokens, small weights, distinct sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.kajitsuka_sato_2025.sequence_ids import (
    distinguishing_tokens,
    sequence_id,
    sequence_weights,
)
from byheart.data import Multiset
from byheart.errors import AssumptionViolated
from byheart.theorems import checks
from tests.examples import examples

multisets = st.lists(
    st.lists(st.integers(0, 6), max_size=5).map(lambda tokens: tuple(sorted(tokens))),
    min_size=1,
    max_size=14,
    unique=True,
).map(lambda rows: [Multiset.of(row) for row in rows])


@checks("KS25-L B.1", "KS25-D B.1")
@examples(150)
@given(multisets)
def test_fewer_tokens_than_multisets_tell_them_apart(rows: list[Multiset[int]]) -> None:
    tokens = distinguishing_tokens(rows)
    assert len(tokens) <= max(0, len(rows) - 1)
    assert len(set(tokens)) == len(tokens)
    assert len({row.restrict(set(tokens)) for row in rows}) == len(rows)


@checks("KS25-L B.2", "KS25-D A.1")
@examples(150)
@given(multisets, st.integers(0, 2**32))
def test_weighted_sums_are_distinct(rows: list[Multiset[int]], seed: int) -> None:
    tokens = distinguishing_tokens(rows)
    weights = sequence_weights(rows, tokens, np.random.default_rng(seed))
    assert set(weights) == set(tokens)
    ceiling = len(rows) * (len(rows) - 1) // 2 + 1
    assert all(1 <= weight <= ceiling for weight in weights.values())
    sums = [sum(row[token] * weights.get(token, 0) for token in row.support) for row in rows]
    assert len(set(sums)) == len(rows)
    assert sums == [sequence_id(row, weights) for row in rows]


@checks("KS25-L B.2", "KS25-eq9", "KS25-fn1")
def test_the_papers_shift_fails_on_the_counterexample_and_ours_does_not() -> None:
    rows = [Multiset.of([1, 2]), Multiset.of([3, 4, 5])]
    h = dict(zip(range(1, 6), (17, 3, -9, -20, -21), strict=True))
    plain = [sum(h[token] for token in row.support) for row in rows]
    assert plain[0] != plain[1]
    shift = plain[0] - plain[1]  # adding a constant moves a triple further than a pair
    assert len({sum(h[token] + shift for token in row.support) for row in rows}) == 1
    weights = sequence_weights(rows, distinguishing_tokens(rows), np.random.default_rng(0))
    assert len({sequence_id(row, weights) for row in rows}) == 2


def test_equal_multisets_are_refused() -> None:
    with pytest.raises(AssumptionViolated):
        distinguishing_tokens([Multiset.of([1, 1]), Multiset.of([1, 1])])
    with pytest.raises(AssumptionViolated):
        sequence_weights([Multiset.of([1, 1]), Multiset.of([2])], [], np.random.default_rng(0))
