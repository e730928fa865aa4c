from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.data import row_groups
from byheart.data.row_groups import (
    flat_ranges,
    gather_ranges,
    group_rows,
    number_values,
    pair_ids,
    representatives,
    sort_within_rows,
)
from byheart.data.sequences import offsets_of
from tests.data.strategies import token_rows
from tests.examples import examples

WORDS = st.sampled_from([0, 1, -1, 2**62, -(2**63), 2**63 - 1])


def first_appearance(rows: list[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(row, len(numbers)) for row in rows]


def flat(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    words = np.array([word for row in rows for word in row], dtype=np.int64)
    return words, offsets_of(np.array([len(row) for row in rows], dtype=np.int64))


@examples(200)
@given(st.lists(st.lists(WORDS, max_size=3), max_size=12))
def test_equal_rows_share_a_number_in_order_of_first_appearance(rows: list[list[int]]) -> None:
    assert group_rows(*flat(rows)).tolist() == first_appearance([tuple(row) for row in rows])


@examples(200)
@given(st.lists(st.lists(WORDS, min_size=2, max_size=2), min_size=1, max_size=12), st.integers(1, 5))
def test_blocks_do_not_change_the_answer(rows: list[list[int]], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_groups, "_BLOCK_WORDS", block)
        assert group_rows(*flat(rows)).tolist() == first_appearance([tuple(row) for row in rows])


@examples(200)
@given(st.lists(st.lists(WORDS, max_size=3), max_size=12))
def test_the_answer_never_rests_on_the_hash(rows: list[list[int]]) -> None:
    def all_collide(words: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return np.zeros(offsets.size - 1, dtype=np.uint64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_groups, "_row_hashes", all_collide)
        assert group_rows(*flat(rows)).tolist() == first_appearance([tuple(row) for row in rows])


def test_rows_of_zeros_of_different_lengths_differ() -> None:
    words, offsets = flat([[], [0], [0, 0], [0]])
    assert group_rows(words, offsets).tolist() == [0, 1, 2, 1]


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), max_size=8))
def test_pairs_and_values_are_numbered_alike(pairs: list[tuple[int, int]]) -> None:
    left = np.array([a for a, _ in pairs], dtype=np.int64)
    right = np.array([b for _, b in pairs], dtype=np.int64)
    assert pair_ids(left, right).tolist() == first_appearance(list(pairs))
    few = left % max(1, len(pairs))  # a table, where `left` may need sorting
    assert number_values(left).tolist() == first_appearance([a for a, _ in pairs])
    assert number_values(few).tolist() == first_appearance(few.tolist())


@examples(200)
@given(token_rows(min_rows=0, min_len=0), st.sampled_from([0, 2**61]))
def test_rows_are_sorted_where_they_are(rows: list[list[int]], shift: int) -> None:
    shifted = [[word + shift for word in row] for row in rows]
    words, offsets = flat(shifted)
    assert sort_within_rows(words, offsets).tolist() == [word for row in shifted for word in sorted(row)]


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=8))
def test_flat_ranges_are_ranges_one_after_the_other(ranges: list[tuple[int, int]]) -> None:
    starts = np.array([a for a, _ in ranges], dtype=np.int64)
    sizes = np.array([n for _, n in ranges], dtype=np.int64)
    assert flat_ranges(starts, sizes).tolist() == [k for a, n in ranges for k in range(a, a + n)]


def test_representatives_are_the_first_members() -> None:
    assert representatives(np.array([0, 1, 0, 2, 1])).tolist() == [0, 1, 3]


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=8), st.sampled_from([1, 100]))
def test_ranges_of_words_are_gathered_row_by_row_and_word_by_word(
    ranges: list[tuple[int, int]], factor: int
) -> None:
    """Long rows and short ones take different ways."""
    words = np.arange(500) * 7
    starts = np.array([a for a, _ in ranges], dtype=np.int64)
    sizes = np.array([n for _, n in ranges], dtype=np.int64) * factor
    found = gather_ranges(words, starts, sizes)
    assert found.tolist() == words[flat_ranges(starts, sizes)].tolist()
    assert not found.flags.writeable
