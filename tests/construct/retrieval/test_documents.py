"""Reciting: greedy decoding returns the texts word for word."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from byheart.construct.retrieval.documents import END, recitation, recitation_of_tokens, recite
from byheart.data.sequences import TokenSequences, offsets_of
from byheart.errors import DataError, UsageError
from byheart.network.memoriser import Memoriser
from tests.construct.retrieval.layouts import memorise
from tests.examples import examples

TEXTS = (
    "the cat sat on the mat and the dog sat on the log",
    "the dog ran and the cat ran and the mat ran away",
    "one two three one two four one two three five",
)


def _memory(texts: tuple[str, ...], **options: object) -> Memoriser:
    return memorise(recitation(texts), options, np.random.default_rng(0)).memoriser


def test_recites_every_text_from_where_it_differs() -> None:
    memoriser = _memory(TEXTS)
    for text in TEXTS:
        words = text.split()
        assert list(recite(memoriser, " ".join(words[:2]))) == words[2:]


@examples(200)
@given(
    documents=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=6),
)
# as many undecided tokens for short windows as for whole texts, but other ones
@example(documents=[[1, 1, 0], [0, 0], [0], [0]])
def test_windows_decide_all_that_whole_texts_decide(documents: list[list[int]]) -> None:
    ids = np.array([token for document in documents for token in document])
    sequences = TokenSequences(ids, offsets_of(np.array([len(document) for document in documents])), 4)
    data = recitation_of_tokens(sequences)
    data.require_consistent()
    known = {tuple(data.inputs[i].tolist()): int(data.labels[i]) for i in range(data.n_samples)}
    first: dict[tuple[int, ...], int] = {}
    for document in documents:
        for place in range(len(document)):
            prefix = tuple(document[: place + 1])
            first.setdefault(prefix, document[place + 1] if place + 1 < len(document) else 4)
    undecided = {
        tuple(document[: place + 1])
        for document in documents
        for place in range(len(document))
        if (document[place + 1] if place + 1 < len(document) else 4) != first[tuple(document[: place + 1])]
    }
    for prefix, label in first.items():
        if prefix not in undecided and not any(
            other != prefix and other[-data.seq_len :] == prefix[-data.seq_len :] for other in undecided
        ):
            assert known[prefix[-data.seq_len :]] == label


def test_the_window_is_no_longer_than_needed() -> None:
    assert recitation(("a b c d e",)).seq_len == 1
    assert recitation(("a b c a b d",)).seq_len == 3


def test_a_text_ends_where_it_ends() -> None:
    data = recitation(("a b c",))
    assert data.label_names[int(data.labels[-1])] == END
    assert list(recite(_memory(("a b c",)), "b c")) == []


def test_unknown_prompts_end_at_once_with_reject_bits() -> None:
    memoriser = _memory(TEXTS, reject_bits=16)
    assert list(recite(memoriser, "mat mat mat")) == []


def test_refuses_nothing_and_empty_prompts() -> None:
    with pytest.raises(DataError):
        recitation(())
    with pytest.raises(UsageError):
        list(recite(_memory(TEXTS), " "))


@pytest.mark.slow
def test_openings_of_stories_are_recited_word_for_word(shared_data: Path) -> None:
    """1,000 openings of ten words, each from its distinguishing prefix."""
    lines = (shared_data / "tinystories.jsonl").read_text(encoding="utf-8").splitlines()
    stories = [json.loads(line) for line in lines]
    whole = [story["text"] for story in stories if story["whole"]][:1000]
    openings = [" ".join(text.split()[:10]) for text in whole]
    data = recitation(openings)
    memoriser = memorise(data, {}, 0).memoriser
    answers = memoriser.answer(memoriser.encode(data.inputs), backend="module")
    assert (answers == memoriser.expected_labels(data)).all()
    assert data.tokenizer is not None
    encoded = [data.tokenizer.encode(text) for text in openings]
    for ids in encoded[::50]:
        prefix = next(
            n
            for n in range(1, len(ids) + 1)
            if sum(other[:n] == ids[:n] for other in encoded) == sum(other == ids for other in encoded)
        )
        words = [data.tokenizer.vocabulary[token] for token in ids]
        prompt = data.tokenizer.decode(ids[:prefix])
        assert list(recite(memoriser, prompt)) == words[prefix:]
