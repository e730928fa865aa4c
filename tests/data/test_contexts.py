from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.data import Contexts, Dataset, TokenSequences, contexts_of
from byheart.errors import DataError, UsageError
from byheart.theorems import checks
from tests.data.strategies import ragged, token_rows
from tests.effort import at_most_calls
from tests.examples import examples

Prefix = tuple[int, ...]


def naive(rows: list[list[int]]) -> dict[Prefix, Counter[int]]:
    """Every prefix with a token after it, in order of first appearance, and what follows it how often."""
    table: dict[Prefix, Counter[int]] = defaultdict(Counter)
    for row in rows:
        for t in range(1, len(row)):
            table[tuple(row[:t])][row[t]] += 1
    return table


def naive_entropy(table: dict[Prefix, Counter[int]]) -> float:
    """H of MFT24 section 3, term by term, with 60 digits in every logarithm."""
    mpmath = pytest.importorskip("mpmath", reason="comes with torch; the oracle of this test")
    with mpmath.workdps(60):
        total = mpmath.mpf(0)
        for following in table.values():
            count = sum(following.values())
            for n in following.values():
                total -= n * mpmath.log(mpmath.mpf(n) / count)
        return float(total)


def documents() -> st.SearchStrategy[list[list[int]]]:
    return token_rows(min_len=0).filter(lambda rows: any(len(row) > 1 for row in rows))


@checks("MFT24-eq1")
@examples(300)
@given(documents())
def test_contexts_are_those_of_a_dictionary(rows: list[list[int]]) -> None:
    table = naive(rows)
    contexts = contexts_of(ragged(rows, 3))
    assert [tuple(contexts[i].tolist()) for i in range(len(contexts))] == list(table)
    assert contexts.counts.tolist() == [following.total() for following in table.values()]
    assert contexts.n_predictions == sum(max(len(row) - 1, 0) for row in rows)
    for i, following in enumerate(table.values()):
        part = slice(contexts.offsets[i], contexts.offsets[i + 1])
        assert contexts.next_tokens[part].tolist() == sorted(following)
        assert contexts.next_counts[part].tolist() == [following[token] for token in sorted(following)]
        exact = [Fraction(following[token], following.total()) for token in sorted(following)]
        assert contexts.probabilities[part].tolist() == [float(p) for p in exact]


@examples(200)
@given(documents())
def test_the_tree_and_the_written_out_contexts_agree(rows: list[list[int]]) -> None:
    contexts = contexts_of(ragged(rows, 3))
    written = contexts.as_sequences()
    numbers = {tuple(contexts[i].tolist()): i for i in range(len(contexts))}
    for i in range(len(contexts)):
        own = contexts[i].tolist()
        assert written[i].tolist() == own
        assert (contexts.lengths[i], contexts.last_tokens[i]) == (len(own), own[-1])
        assert contexts.parents[i] == (numbers[tuple(own[:-1])] if len(own) > 1 else -1)
        assert rows[int(contexts.documents[i])][: len(own)] == own
    assert contexts.dense_probabilities().sum(axis=1) == pytest.approx(np.ones(len(contexts)), abs=1e-15)


@checks("MFT24-eq1")
@examples(300)
@given(documents())
def test_entropy_is_right_to_the_last_digits(rows: list[list[int]]) -> None:
    contexts = contexts_of(ragged(rows, 3))
    expected = naive_entropy(naive(rows))
    # Every term has a relative error of at most 4 units in the last place, none is negative, and the sum is
    # rounded once: 5 units bound the error of the whole.
    assert abs(contexts.entropy_nats - expected) <= 5 * 2**-53 * expected
    assert contexts.entropy_nats_per_token == contexts.entropy_nats / contexts.n_predictions
    weighted = float(contexts.counts @ contexts.context_entropies)
    assert weighted == pytest.approx(expected, rel=1e-13, abs=1e-15)


def test_entropy_is_right_where_a_ratio_is_near_one() -> None:
    rows = [[0, 1]] * 99_999 + [[0, 2]]
    contexts = contexts_of(ragged(rows, 3))
    assert contexts.entropy_nats == pytest.approx(naive_entropy(naive(rows)), rel=5 * 2**-53)


def test_entropy_of_many_terms_is_rounded_once() -> None:
    rows = np.random.default_rng(0).integers(0, 7, size=(6000, 8)).tolist()
    contexts = contexts_of(ragged(rows, 7))
    assert contexts.next_tokens.size > 10_000
    assert contexts.entropy_nats == pytest.approx(naive_entropy(naive(rows)), rel=5 * 2**-53)


@checks("MFT24-L2")
@examples(200)
@given(documents(), st.integers(0, 2**32 - 1), st.floats(0.1, 5))
def test_no_model_has_a_loss_below_the_entropy(rows: list[list[int]], seed: int, scale: float) -> None:
    contexts = contexts_of(ragged(rows, 3))
    logits = np.random.default_rng(seed).normal(scale=scale, size=(len(contexts), 3))
    scores = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    loss = contexts.cross_entropy_nats(scores)
    assert loss >= contexts.entropy_nats - 1e-12 * (1 + loss)
    # The loss over distinct contexts is the loss over every position of every document.
    number = {tuple(contexts[i].tolist()): i for i in range(len(contexts))}
    everywhere = math.fsum(
        -scores[number[tuple(row[:t])], row[t]] for row in rows for t in range(1, len(row))
    )
    assert loss == pytest.approx(everywhere, rel=1e-12)


@checks("MFT24-L2")
@examples(200)
@given(documents())
def test_the_empirical_distribution_has_the_entropy_as_its_loss(rows: list[list[int]]) -> None:
    contexts = contexts_of(ragged(rows, 3))
    with np.errstate(divide="ignore"):
        scores = np.log(contexts.dense_probabilities())
    assert contexts.cross_entropy_nats(scores) == pytest.approx(contexts.entropy_nats, rel=1e-14, abs=1e-15)


def test_an_example_by_hand() -> None:
    data = Dataset.from_documents(["a b c", "a b d", "a c", "b"])
    contexts = data.contexts()
    assert data.tokenizer is not None
    assert [data.tokenizer.decode(contexts[i].tolist()) for i in range(len(contexts))] == ["a", "a b"]
    assert contexts.counts.tolist() == [3, 2]
    assert contexts.entropy_nats == pytest.approx(
        3 * math.log(3) - 2 * math.log(2) + 2 * math.log(2), rel=1e-15
    )
    assert contexts.n_vocab == 4


def test_documents_without_a_context_are_refused() -> None:
    with pytest.raises(DataError):
        contexts_of(ragged([[0], [], [1]], 2))


def test_log_probabilities_of_another_shape_are_refused() -> None:
    contexts = contexts_of(ragged([[0, 1]], 2))
    with pytest.raises(UsageError):
        contexts.cross_entropy_nats(np.zeros((2, 2)))
    with pytest.raises(IndexError):
        contexts[1]
    with pytest.raises(ValueError, match="read-only"):
        contexts.counts[0] = 2


def million(n_documents: int, n_vocab: int) -> TokenSequences:
    ids = np.random.default_rng(0).integers(0, n_vocab, 10**6)
    return TokenSequences(ids, np.linspace(0, 10**6, n_documents + 1).astype(np.int64), n_vocab)


@pytest.mark.slow
@pytest.mark.parametrize("n_documents", [1, 1_000, 100_000, 500_000])
def test_a_million_tokens_take_seconds(n_documents: int) -> None:
    with at_most_calls(1_000_000):
        contexts = contexts_of(million(n_documents, 50))
        assert isinstance(contexts, Contexts)
        assert contexts.entropy_nats >= 0
