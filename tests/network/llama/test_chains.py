"""Windows laid out as texts: every window is read at its asked token, and nothing is read twice that need not be."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byheart.data.sequences import offsets_of
from byheart.network.llama.chains import ChainedTexts, chain_windows, follow_texts

PAD, BOS = 9, 8


def windows_of(documents: list[list[int]], width: int) -> np.ndarray:
    """Every window of the documents, filled up on the left."""
    rows = [[PAD] * width + document[: i + 1] for document in documents for i in range(len(document))]
    return np.array([row[-width:] for row in rows])


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=5),
    st.integers(1, 6),
    st.integers(3, 14),
)
def test_every_window_ends_at_its_asked_token(
    documents: list[list[int]], width: int, max_positions: int
) -> None:
    windows = windows_of(documents, width)
    texts = chain_windows(windows, pad=PAD, bos=BOS, max_positions=max_positions, window=width)
    ends = np.flatnonzero(texts.asked)
    assert len(ends) == len(windows)
    assert (texts.ids[texts.offsets[:-1]] == BOS).all()
    assert np.diff(texts.offsets).max() <= max(max_positions, width + 2)
    for end, window in zip(ends, windows, strict=True):
        tokens = window[window != PAD]
        start = texts.offsets[np.searchsorted(texts.offsets, end, side="right") - 1]
        assert start <= end - len(tokens)
        assert texts.ids[end + 1 - len(tokens) : end + 1].tolist() == tokens.tolist()


def test_a_document_is_read_once() -> None:
    windows = windows_of([[0, 1, 2, 3, 0, 1], [3, 3]], 3)
    texts = chain_windows(windows, pad=PAD, bos=BOS, max_positions=64, window=3)
    assert texts.ids.tolist() == [BOS, 0, 1, 2, 3, 0, 1, BOS, 3, 3]
    assert texts.offsets.tolist() == [0, 7, 10]


def test_short_contexts_that_overlap_stay_apart() -> None:
    """Nothing precedes `1 2` in its context, but `0` would in the joined text."""
    for window in (None, 3):
        texts = chain_windows(np.array([[0, 1], [1, 2]]), pad=PAD, bos=BOS, max_positions=64, window=window)
        assert texts.ids.tolist() == [BOS, 0, 1, BOS, 1, 2]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 40))
def test_batches_put_every_answer_in_its_place(lengths: list[int], n_tokens: int) -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 100, sum(lengths))
    texts = ChainedTexts(ids, offsets_of(np.array(lengths)), rng.random(len(ids)) < 0.5)
    found = follow_texts(lambda ids, asked: ids[asked] + 1, texts, n_tokens=n_tokens)
    assert np.array_equal(found, ids[texts.asked] + 1)
