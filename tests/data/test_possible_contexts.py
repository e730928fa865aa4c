"""The largest number of contexts that sequences can have, against all choices of tiny sequences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import pytest

from byheart.data.options import Task
from byheart.data.possible_contexts import SequenceSizes
from byheart.data.shape import DataShape

Sequence = tuple[int, ...]
KINDS: tuple[tuple[Task, bool], ...] = (
    ("next-token", False),
    ("next-token", True),
    ("set", False),
    ("seq-to-seq", False),
    ("seq-to-seq", True),
    ("distribution", True),
)


def sizes() -> Iterator[SequenceSizes]:
    for (task, ordered), ragged in product(KINDS, (False, True)):
        for n_sequences, length, n_tokens in product((1, 2, 3), repeat=3):
            if not ragged or (n_sequences > 1 and (length > 1 or task == "distribution")):
                yield SequenceSizes(task, n_sequences, length, n_tokens, ordered, ragged)


def contexts_of(sequence: Sequence, task: Task, ordered: bool) -> set[object]:
    """The contexts of one sequence; for a document, the prefixes that are followed by a token."""
    if task == "distribution":
        return {sequence[:n] for n in range(1, len(sequence))}
    whole = sequence if ordered else tuple(sorted(sequence))
    if task == "set":
        return {whole}
    if task == "next-token":
        return {(whole, sequence[-1])}
    return {(whole, place if ordered else token) for place, token in enumerate(sequence)}


def most(given: SequenceSizes) -> int:
    """The most contexts of all choices of sequences with these sizes."""
    assert given.n_tokens is not None
    longest = given.length + (given.task == "distribution")
    lengths = range(1, longest + 1) if given.ragged else (longest,)
    each = {
        (frozenset(contexts_of(sequence, given.task, given.ordered)), len(sequence))
        for length in lengths
        for sequence in product(range(given.n_tokens), repeat=length)
    }
    found = 0
    for chosen in combinations_with_replacement(sorted(each, key=str), given.n_sequences):
        used = {length for _, length in chosen}
        if longest in used and (len(used) > 1) == given.ragged:
            found = max(found, len(frozenset().union(*(contexts for contexts, _ in chosen))))
    return found


@pytest.mark.parametrize("given", list(sizes()), ids=str)
def test_the_number_is_that_of_the_best_choice(given: SequenceSizes) -> None:
    assert given.most_contexts() == most(given)


def test_more_tokens_than_any_sequence_has_are_no_limit() -> None:
    for task, ordered in KINDS:
        for n_tokens in (None, 10**9):
            given = SequenceSizes(task, 7, 5, n_tokens, ordered, ragged=False)
            assert given.most_contexts() == (7 if task in ("next-token", "set") else 35)


def test_huge_numbers_are_not_computed() -> None:
    for task, ordered in KINDS:
        given = SequenceSizes(task, 10**9, 10**9, 10**9, ordered, ragged=True)
        assert 10**9 <= given.most_contexts() <= 10**18


def test_a_shape_whose_contexts_are_not_counted_has_as_many_as_fit() -> None:
    assert DataShape(1, 8, 16, vocab=2, task="seq-to-seq").context_count == 2
    assert DataShape(1, 100, 16, vocab=4, task="seq-to-seq").context_count == 4
    assert DataShape(480, 3, 31, vocab=31, task="distribution").context_count == 31 + 480
    # vectors at distance 1 in a ball of radius 1: three on a line
    assert DataShape(1000, 1, 2, dim=1, radius=1, separation=1).context_count == 3
    assert DataShape(1000, 1, 2, dim=1).context_count == 1000
    assert DataShape(1000, 1, 2, dim=1, n_contexts=2).context_count == 2
