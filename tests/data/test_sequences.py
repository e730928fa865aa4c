from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.data import TokenSequences, VectorSequences
from byheart.data.sequences import as_vectors
from byheart.errors import DataError, NonFiniteInput, UsageError
from tests.data.strategies import ragged, token_rows
from tests.examples import examples
from tests.refusal import refused


@examples(200)
@given(token_rows(min_rows=0, min_len=0))
def test_sequences_come_back_as_they_went_in(rows: list[list[int]]) -> None:
    sequences = ragged(rows, 3)
    assert [sequences[i].tolist() for i in range(len(sequences))] == rows
    assert sequences.lengths.tolist() == [len(row) for row in rows]
    assert sequences.positions.tolist() == [k for row in rows for k in range(len(row))]
    assert sequences.max_len == max(map(len, rows), default=0)


@examples(200)
@given(token_rows(min_len=0), st.integers(0, 3), st.data())
def test_padding_is_on_the_left_and_take_takes(
    rows: list[list[int]], extra: int, data: st.DataObject
) -> None:
    sequences = ragged(rows, 3)
    width = sequences.max_len + extra
    expected = [[-1] * (width - len(row)) + row for row in rows]
    assert sequences.pad(-1, width).tolist() == expected
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
    taken = sequences.take(np.array(chosen, dtype=np.int64))
    assert [taken[i].tolist() for i in range(len(taken))] == [rows[i] for i in chosen]


def test_arrays_cannot_be_written_to_and_are_not_the_callers() -> None:
    ids, offsets, values = np.array([0, 1]), np.array([0, 2]), np.zeros((1, 2, 1))
    tokens, vectors = TokenSequences(ids, offsets, 2), VectorSequences(values)
    ids[0], values[0, 0, 0] = 1, 7.0
    assert tokens.ids.tolist() == [0, 1]
    assert vectors.values[0, 0, 0] == 0.0
    for array in (tokens.ids, tokens.offsets, tokens[0], vectors.values, vectors[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    view = np.array([0, 1, 0])[:2]
    view.flags.writeable = False
    held = TokenSequences(view, offsets, 2)
    view.base[0] = 1
    assert held.ids.tolist() == [0, 1]


def test_bad_ids_and_offsets_are_refused() -> None:
    with refused(DataError, sample=1, position=1, token=2, n_vocab=2):
        ragged([[0], [1, 2]], 2)
    with refused(DataError, sample=0, position=0, token=-1, n_vocab=2):
        ragged([[-1]], 2)
    for offsets in ([0, 1], [1, 2], [0, 2, 1, 2], []):
        with refused(UsageError, n_tokens=2):
            TokenSequences(np.array([0, 1]), np.array(offsets, dtype=np.int64), 2)
    with pytest.raises(UsageError):
        ragged([[0]], 2**53 + 1)
    with refused(UsageError, seq_len=1, longest=2):
        ragged([[0, 1]], 2).pad(0, 1)
    with pytest.raises(IndexError):
        ragged([[0]], 1)[1]


def test_vectors_have_a_length_and_a_dimension() -> None:
    for shape in ((2, 0, 1), (2, 1, 0)):
        with refused(UsageError, "shape"):
            VectorSequences(np.zeros(shape))


def test_equal_vectors_are_one_token_whatever_the_sign_of_zero() -> None:
    vectors = VectorSequences(np.array([[[0.0, 1.0], [-0.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]]]))
    assert vectors.token_ids.tolist() == [[0, 0], [1, 0]]
    assert vectors.distinct_tokens.tolist() == [[0.0, 1.0], [2.0, 0.0]]
    assert not np.signbit(vectors.values).any()


def test_single_precision_is_widened_exactly() -> None:
    values = np.array([[[0.1]]], dtype=np.float32)
    assert VectorSequences(values).values[0, 0, 0] == float(values[0, 0, 0])


def test_non_finite_values_are_found_and_refused() -> None:
    values = np.zeros((3, 2, 2))
    VectorSequences(values).require_finite()
    values[1, 0, 1], values[2, 1, 0] = np.nan, -np.inf
    vectors = VectorSequences(values)
    assert vectors.non_finite.tolist() == [[1, 0, 1], [2, 1, 0]]
    with refused(NonFiniteInput, sample=1, position=0, coordinate=1, n_non_finite=2) as raised:
        vectors.require_finite()
    assert raised.value.facts["sample"] == 1
    assert raised.value.facts["coordinate"] == 1


def test_which_arrays_are_vectors() -> None:
    floats, ids = np.ones((4, 3)), np.ones((4, 3), dtype=np.int64)
    assert as_vectors(floats).shape == (4, 1, 3)
    assert as_vectors(ids) is None
    grid = as_vectors(ids.reshape(2, 2, 3) - 5)
    assert grid is not None
    assert (grid.dtype, grid.shape, grid[0, 0, 0]) == (np.float64, (2, 2, 3), -4)
    with pytest.raises(UsageError):
        as_vectors(ids.reshape(2, 2, 3) << 54)


def test_long_sequences_are_padded_as_short_ones_are() -> None:
    lengths = (1, 0, 300, 41)
    rows = [[k + 1] * n for k, n in enumerate(lengths)]
    padded = ragged(rows, 5).pad(0)
    assert padded.tolist() == [[0] * (300 - n) + row for n, row in zip(lengths, rows, strict=True)]
