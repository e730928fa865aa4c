from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from byheart.data import Multiset
from byheart.theorems import checks

ELEMENTS = st.lists(st.integers(0, 4), max_size=8)


@checks("KS25-D A.1", "KS25-D A.2", "KS25-D B.1")
@settings(max_examples=200)
@given(ELEMENTS, ELEMENTS, st.sets(st.integers(0, 4)))
def test_multisets_count(elements: list[int], others: list[int], subset: set[int]) -> None:
    multiset = Multiset.of(elements)
    assert all(multiset[x] == elements.count(x) for x in range(5))
    assert multiset.support == set(elements)
    assert len(multiset) == len(elements)
    restricted = multiset.restricted(subset)
    assert all(restricted[x] == (elements.count(x) if x in subset else 0) for x in range(5))
    assert (multiset == Multiset.of(others)) == (Counter(elements) == Counter(others))
    assert hash(multiset) == hash(Multiset.of(reversed(elements)))
