from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byheart.data import Dataset, Multiset
from byheart.theorems import checks
from tests.examples import examples

ELEMENTS = st.lists(st.integers(0, 4), max_size=8)


@checks("KS25-D A.1", "KS25-D A.2", "KS25-D B.1")
@examples(200)
@given(ELEMENTS, ELEMENTS, st.sets(st.integers(0, 4)))
def test_multisets_count(elements: list[int], others: list[int], subset: set[int]) -> None:
    multiset = Multiset.of(elements)
    assert all(multiset[x] == elements.count(x) for x in range(5))
    assert multiset.support == set(elements)
    assert len(multiset) == len(elements)
    restricted = multiset.restrict(subset)
    assert all(restricted[x] == (elements.count(x) if x in subset else 0) for x in range(5))
    assert (multiset == Multiset.of(others)) == (Counter(elements) == Counter(others))
    assert hash(multiset) == hash(Multiset.of(reversed(elements)))


def test_equal_contexts_without_order_are_equal_multisets_with_one_last_token() -> None:
    data = Dataset.from_pairs(
        [([0, 1, 1, 2], "a"), ([1, 0, 1, 2], "a"), ([1, 0, 2, 1], "b"), ([0, 1, 2], "c")], ordered=False
    )
    seen = [(data.multiset(i), int(data.inputs[i][-1])) for i in range(4)]
    for i in range(4):
        for j in range(4):
            assert (seen[i] == seen[j]) == bool(data.context_ids[i] == data.context_ids[j])
    assert data.multiset(0)[1] == 2
    vectors = Dataset.from_arrays(np.array([[[1.0], [2.0], [1.0]]]), np.array([0]))
    assert len(vectors.multiset(0)) == 3
    assert len(vectors.multiset(0).support) == 2
