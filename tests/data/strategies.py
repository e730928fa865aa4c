"""Random data sets for the tests of this folder."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from byheart.data import Dataset, TokenSequences, VectorSequences
from byheart.data.sequences import offsets_of

TASKS = ("next-token", "seq-to-seq", "set")


def ragged(rows: list[list[int]], n_vocab: int) -> TokenSequences:
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    ids = np.array([token for row in rows for token in row], dtype=np.int64)
    return TokenSequences(ids, offsets_of(lengths), n_vocab)


def token_rows(min_rows: int = 1, min_len: int = 1, n_vocab: int = 3) -> st.SearchStrategy[list[list[int]]]:
    """Few tokens and short rows, so that equal rows and equal multisets are common."""
    row = st.lists(st.integers(0, n_vocab - 1), min_size=min_len, max_size=4)
    return st.lists(row, min_size=min_rows, max_size=12)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    """Data sets of every task and both kinds of input, conflicts kept."""
    task = draw(st.sampled_from(TASKS))
    ordered = task != "set" and draw(st.booleans())
    if draw(st.booleans()):
        rows = draw(token_rows())
        inputs: TokenSequences | VectorSequences = ragged(rows, 3)
    else:
        shape = (draw(st.integers(1, 8)), draw(st.integers(1, 3)), draw(st.integers(1, 2)))
        flat = draw(
            st.lists(
                st.sampled_from([0.0, -0.0, 1.0, 0.5]),
                min_size=int(np.prod(shape)),
                max_size=int(np.prod(shape)),
            )
        )
        inputs = VectorSequences(np.array(flat).reshape(shape))
    n_labels = int(inputs.lengths.sum()) if task == "seq-to-seq" else len(inputs)
    labels = draw(st.lists(st.integers(0, 2), min_size=n_labels, max_size=n_labels))
    return Dataset(inputs, np.array(labels, dtype=np.int64), task, ("a", "b", "c"), None, ordered)


def naive_contexts(data: Dataset) -> list[object]:
    """The context of every label, straight from its definition."""
    contexts: list[object] = []
    for i in range(data.n_samples):
        if isinstance(data.inputs, TokenSequences):
            tokens: tuple[object, ...] = tuple(data.inputs[i].tolist())
        else:
            tokens = tuple(tuple(vector) for vector in data.inputs[i].tolist())
        bag = tuple(sorted(tokens))
        if data.task == "set":
            contexts.append(bag)
        elif data.task == "next-token":
            contexts.append(tokens if data.ordered else (bag, tokens[-1]))
        else:
            contexts.extend((tokens, k) if data.ordered else (bag, token) for k, token in enumerate(tokens))
    return contexts
