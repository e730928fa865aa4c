"""KKM23: sorting by hard attention gives every multiset its id, and every context its label."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.kim_2023.string_ids import sorted_counts, string_ids
from byheart.data import Dataset
from byheart.network import Attention
from byheart.theorems import checks
from tests.examples import examples

from .rival_data import answers, compiled, token_sequences, vector_sequences

METHOD = "kim-2023"


def test_sorted_counts_are_what_the_rounds_see() -> None:
    two, five = Fraction(2), Fraction(5)
    assert sorted_counts([two, five, two], 3) == ((five, 1), (two, 2), (Fraction(0), 3))


@examples(60)
@given(
    st.lists(st.lists(st.integers(1, 6), min_size=3, max_size=3), min_size=1, max_size=8), st.integers(0, 99)
)
def test_ids_differ_where_multisets_differ(rows: list[list[int]], seed: int) -> None:
    seen = [sorted_counts([Fraction(2 * value) for value in row], 3) for row in rows]
    found = string_ids(seen, np.random.default_rng(seed))
    for (left, left_id), (right, right_id) in product(zip(seen, found.ids, strict=True), repeat=2):
        assert (left == right) == (left_id == right_id)
    for rounds, value in zip(seen, found.ids, strict=True):
        weights = zip(found.place_weights, found.count_weights, rounds, strict=True)
        assert value == sum((w * place + u * count for w, u, (place, count) in weights), Fraction(0))


@checks("KS25-eq12")
@examples(60)
@given(st.one_of(token_sequences(), vector_sequences()), st.integers(0, 2**32))
def test_every_label_is_memorised(data: Dataset, seed: int) -> None:
    construction = compiled(METHOD, data, seed)
    assert (answers(construction, data) == data.labels).all()
    layers = construction.memoriser.network.layers
    assert sum(isinstance(layer, Attention) for layer in layers) == 2 * data.seq_len


@examples(30)
@given(st.one_of(token_sequences(), vector_sequences()))
def test_the_interpreter_agrees(data: Dataset) -> None:
    assert (answers(compiled(METHOD, data), data, "interpreter") == data.labels).all()


def test_all_multisets_of_three_over_four_words() -> None:
    rows = np.array(list(combinations_with_replacement(range(4), 3)))
    rng = np.random.default_rng(0)
    # one label a multiset: {a, a, b} is not {a, b, b}
    labels = np.array([[rng.integers(0, 9)] * 3 for _ in rows])
    data = Dataset.from_arrays(rows, labels, task="seq-to-seq", ordered=False)
    assert (answers(compiled(METHOD, data), data) == data.labels).all()
