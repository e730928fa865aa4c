"""How many sequences of equal tokens data can contain, against all data of tiny shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations_with_replacement, product

import pytest

from byheart.bounds import for_shape, table
from byheart.bounds.equal_tokens import equal_token_sequences
from byheart.data.dataset import Dataset
from byheart.data.options import Task
from byheart.data.shape import DataShape
from byheart.theorems import checks
from tests.data.test_possible_contexts import contexts_of

TASKS: tuple[Task, ...] = ("next-token", "set", "seq-to-seq")
Sizes = tuple[int, int, int]
TINY: tuple[Sizes, ...] = (
    *product((1, 2, 3, 4), (1, 2, 3), (1, 2, 3)),
    (6, 2, 2),
    (6, 2, 3),
    (4, 4, 2),
    (4, 2, 4),
)
Kind = frozenset[object]


def kinds(task: Task, length: int, vocab: int) -> dict[Kind, int | None]:
    """The contexts of each sequence of this length, with its token if all its tokens are equal."""
    return {
        frozenset(contexts_of(sequence, task, ordered=False)): sequence[0]
        if len(set(sequence)) == 1
        else None
        for sequence in product(range(vocab), repeat=length)
    }


def most_in_data(task: Task, sizes: Sizes, *, ragged: bool) -> dict[tuple[int, int], int]:
    """For each number of contexts and of labels, the most sequences of equal tokens in data of these sizes."""
    n_samples, seq_len, vocab = sizes
    lengths = range(1, seq_len + 1) if ragged else (seq_len,)
    each = [(length, *kind) for length in lengths for kind in kinds(task, length, vocab).items()]
    found: dict[tuple[int, int], int] = {}
    for chosen in combinations_with_replacement(each, n_samples):
        used = {length for length, _, _ in chosen}
        if max(used) == seq_len and (len(used) > 1) == ragged:
            n_contexts = len(frozenset().union(*(contexts for _, contexts, _ in chosen)))
            n_labels = sum(length for length, _, _ in chosen) if task == "seq-to-seq" else n_samples
            n_constant = len({token for _, _, token in chosen} - {None})
            found[n_contexts, n_labels] = max(found.get((n_contexts, n_labels), 0), n_constant)
    return found


def shapes(task: Task, sizes: Sizes, *, ragged: bool) -> Iterator[tuple[DataShape, int]]:
    n_samples, seq_len, vocab = sizes
    for (n_contexts, n_labels), most in most_in_data(task, sizes, ragged=ragged).items():
        counts = {"n_contexts": n_contexts, "n_labels": n_labels}
        yield DataShape(n_samples, seq_len, 2, task=task, vocab=vocab, ragged=ragged, **counts), most


@checks("KS25-T4.2")
@pytest.mark.parametrize("task", TASKS)
def test_the_number_is_that_of_the_best_data(task: Task) -> None:
    all_others = ((9, 3, 3),) if task == "seq-to-seq" else ()  # there are 7 sequences of different tokens
    for sizes in TINY + all_others:
        for shape, most in shapes(task, sizes, ragged=False):
            assert equal_token_sequences(shape) == most, shape


@checks("KS25-T4.2")
@pytest.mark.parametrize("task", TASKS)
def test_with_several_lengths_the_number_is_never_too_large(task: Task) -> None:
    n_exact = 0
    for sizes in ((3, 2, 3), (4, 2, 3), (4, 3, 3), (5, 2, 4)):
        for shape, most in shapes(task, sizes, ragged=True):
            found = equal_token_sequences(shape)
            assert found <= most, shape
            n_exact += found == most >= 3
            assert found == most or task == "seq-to-seq"
    assert n_exact >= 8


def test_where_positions_matter_no_tokens_are_equal() -> None:
    for task in ("next-token", "seq-to-seq"):
        assert equal_token_sequences(DataShape(3, 2, 2, task=task, vocab=2, n_contexts=2, ordered=True)) == 0
        # there are no positions in sequences of one token
        assert equal_token_sequences(DataShape(3, 1, 2, task=task, vocab=2, n_contexts=2, ordered=True)) == 2


def test_the_most_contexts_leave_no_room_for_sequences_of_equal_tokens() -> None:
    shape = DataShape(89_000, 300, 2, task="seq-to-seq", vocab=300)
    assert equal_token_sequences(shape) == 300
    # 1 sequence of 300 different tokens, and 88,999 of 299 of them: 300 + 88,999 · 299
    most = shape.context_count
    assert most == 26_611_001
    for n_contexts, n_constant in ((most, 0), (most - 297, 0), (most - 298, 1), (most - 596, 2), (300, 300)):
        given = DataShape(89_000, 300, 2, task="seq-to-seq", vocab=300, n_contexts=n_contexts)
        assert equal_token_sequences(given) == n_constant


def test_vectors_are_as_many_as_certainly_fit() -> None:
    # three vectors at distance 1 fit on a line of length 2
    line = DataShape(100, 4, 2, dim=1, radius=1, separation=1)
    assert equal_token_sequences(line) == 3
    assert equal_token_sequences(replace(line, task="seq-to-seq", n_contexts=5)) == 3
    anywhere = replace(line, radius=None, separation=None)
    assert equal_token_sequences(anywhere) == 100
    # 101 contexts are 99 sequences of equal tokens and one of two different tokens
    assert equal_token_sequences(replace(anywhere, task="seq-to-seq", n_contexts=101)) == 99


def test_huge_numbers_are_not_computed() -> None:
    for ragged in (False, True):
        for n_contexts in (10**9, 10**15, 10**18):
            shape = DataShape(
                10**9, 10**9, 2, task="seq-to-seq", vocab=10**9, n_contexts=n_contexts, ragged=ragged
            )
            assert 0 <= equal_token_sequences(shape) <= 10**9


@checks("KS25-T4.2")
def test_a_bound_speaks_only_of_sequences_that_data_can_contain() -> None:
    # 7 contexts of 3 sequences are 3 + 2 + 2 different tokens: none of the sequences has equal tokens
    rows, labels = [[0, 1, 2], [0, 0, 1], [0, 1, 1]], [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    found = table(Dataset.from_arrays(rows, labels, ordered=False))
    assert found.shape.n_contexts == 7
    assert "KS25-T4.2" not in {bound.statement for bound in found.applicable}
    fewer = for_shape(DataShape(3, 3, 2, task="seq-to-seq", vocab=3, n_contexts=6))
    assert "KS25-T4.2" in {bound.statement for bound in fewer.applicable}
