"""Random data for the constructions KS25 is compared with: single vectors, and one label for every token."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import strategies as st

from byheart.construct.registry import get, names
from byheart.data import Dataset, TokenSequences, VectorSequences
from byheart.data.options import Task
from byheart.program.construction import Construction, Plan


def example_of(method: str) -> Dataset:
    example = get(method).example
    assert example is not None
    return example().data


# The methods that plan a program from a theorem, by the pages that describe them: KS25's own, and its rivals.
THEOREMS = tuple(name for name in names() if get(name).page in ("how-it-works.md", "rivals.md"))
SINGLE = tuple(name for name in THEOREMS if example_of(name).seq_len == 1)  # one vector per sample
SEQUENCES = tuple(name for name in THEOREMS if name not in SINGLE)


def planned(method: str, data: Dataset, seed: int = 0, **options: object) -> Plan:
    chosen = get(method)
    return chosen.plan(data, chosen.read_options(options), np.random.default_rng(seed), None)


def compiled(method: str, data: Dataset, seed: int = 0, **options: object) -> Construction:
    return planned(method, data, seed, **options).emit()


def answers(construction: Construction, data: Dataset, backend: str | None = None) -> np.ndarray:
    """One class for every label of `data`, flat."""
    memoriser = construction.memoriser
    chosen = backend or ("exact" if memoriser.network.precision == "exact" else "module")
    table = memoriser.answer(memoriser.encode(data.inputs), backend=chosen)
    if memoriser.answers_last_token_only:
        return table
    seq_len = table.shape[1]
    return np.concatenate([row[seq_len - length :] for row, length in zip(table, data.lengths, strict=True)])


def flattened(data: Dataset) -> Dataset:
    """Each sequence of vectors joined into one vector."""
    assert isinstance(data.inputs, VectorSequences)
    values = data.inputs.values.reshape(data.n_samples, 1, -1)
    return Dataset(VectorSequences(values), data.labels, "next-token", data.label_names, None, False)


def numbers(draw: st.DrawFn) -> st.SearchStrategy[float]:
    """Small whole numbers, floats of ordinary size, or, less often because they make long weights, of any size."""
    small = st.integers(-3, 3).map(float)
    ordinary = st.one_of(small, st.floats(-8, 8, width=32), st.floats(0, 1, width=32))
    any_size = st.one_of(small, st.floats(allow_nan=False, allow_infinity=False, width=64))
    return draw(st.sampled_from([small, ordinary, ordinary, ordinary, any_size]))


@st.composite
def single_vectors(draw: st.DrawFn) -> Dataset:
    """One vector or one token per sample, some of them repeated, consistently labelled."""
    n_classes, task = draw(st.integers(1, 5)), draw(st.sampled_from(["next-token", "set"]))
    labels: dict[object, int] = {}
    if draw(st.booleans()):
        n_vocab = draw(st.integers(1, 30))
        ids = draw(st.lists(st.integers(0, n_vocab - 1), min_size=1, max_size=12))
        inputs: TokenSequences | VectorSequences = TokenSequences(
            np.array(ids), np.arange(len(ids) + 1), n_vocab
        )
        keys: list[object] = list(ids)
    else:
        dim = draw(st.integers(1, 3))
        rows = draw(st.lists(st.tuples(*([numbers(draw)] * dim)), min_size=1, max_size=12))
        inputs = VectorSequences(np.array(rows, dtype=np.float64)[:, None, :])
        keys = [tuple(value + 0.0 for value in row) for row in rows]
    chosen = [labels.setdefault(key, draw(st.integers(0, n_classes - 1))) for key in keys]
    names = tuple(f"class {c}" for c in range(n_classes))
    ordered = task == "next-token" and draw(st.booleans())
    return Dataset(inputs, np.array(chosen), task, names, None, ordered)


@st.composite
def token_sequences(draw: st.DrawFn) -> Dataset:
    """Ragged sequences over a small alphabet, ordered or not, with a label a token or a label a sequence."""
    n_vocab, n_classes = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    task: Task = draw(st.sampled_from(["seq-to-seq", "next-token"]))
    rows = draw(
        st.lists(st.lists(st.integers(0, n_vocab - 1), min_size=1, max_size=4), min_size=1, max_size=6)
    )
    ordered = draw(st.booleans())
    inputs = TokenSequences(
        np.array([token for row in rows for token in row]), np.cumsum([0, *map(len, rows)]), n_vocab
    )
    return _labelled(draw, inputs, rows, n_classes, task, ordered)


@st.composite
def vector_sequences(draw: st.DrawFn, wild: bool = True) -> Dataset:
    """Vectors from a small pool, so that tokens repeat and multisets coincide."""
    seq_len, dim, n_classes = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    task: Task = draw(st.sampled_from(["seq-to-seq", "next-token"]))
    number = numbers(draw) if wild else st.integers(-3, 3).map(float)
    pool = draw(st.lists(st.tuples(*([number] * dim)), min_size=1, max_size=5))
    rows = draw(
        st.lists(st.lists(st.sampled_from(pool), min_size=seq_len, max_size=seq_len), min_size=1, max_size=6)
    )
    tokens = [[tuple(value + 0.0 for value in token) for token in row] for row in rows]
    return _labelled(
        draw, VectorSequences(np.array(rows, dtype=np.float64)), tokens, n_classes, task, ordered=False
    )


def _labelled(
    draw: st.DrawFn,
    inputs: TokenSequences | VectorSequences,
    rows: list[list[object]],
    n_classes: int,
    task: Task,
    ordered: bool,
) -> Dataset:
    labels: dict[object, int] = {}
    chosen = []
    for row in rows:
        for place, token in enumerate(row) if task == "seq-to-seq" else [(len(row) - 1, row[-1])]:
            context = (tuple(row), place) if ordered else (token, frozenset(Counter(row).items()))
            chosen.append(labels.setdefault(context, draw(st.integers(0, n_classes - 1))))
    names = tuple(f"class {c}" for c in range(n_classes))
    return Dataset(inputs, np.array(chosen), task, names, None, ordered)
