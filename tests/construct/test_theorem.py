"""Theorem 4.1: whatever the data, if the assumptions hold, every label comes out exactly."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.kajitsuka_sato_2025.context_ids import measure_context_ids
from byheart.construct.kajitsuka_sato_2025.contextual_mapping import contextual_mapping
from byheart.data import Dataset, TokenSequences, VectorSequences
from byheart.data.generators import grid_vectors, random_tokens, uniform_vectors
from byheart.errors import AssumptionViolated, ConflictingLabels, UsageError
from byheart.network import size_of_network
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.transformer.architecture import Attention
from byheart.network.transformer.equations import NotExact
from byheart.network.transformer.evaluator import evaluate
from byheart.program.construction import Construction
from byheart.theorems import checks
from tests.examples import THOROUGH, examples
from tests.refusal import refused

from .rival_data import compiled as compiled_by
from .rival_data import planned


def compiled(data: Dataset, seed: int = 0, **options: object) -> Construction:
    return compiled_by("kajitsuka-sato-2025", data, seed, **options)


def answers(construction: Construction, data: Dataset, backend: str = "exact") -> np.ndarray:
    """One answer for each label of the data."""
    memoriser = construction.memoriser
    found = memoriser.answer(memoriser.encode(data.inputs), backend=backend)
    if data.task != "seq-to-seq":
        return found
    is_token = np.arange(data.seq_len) >= data.seq_len - np.asarray(data.lengths)[:, None]
    return found[is_token]


tasks = st.sampled_from(("next-token", "seq-to-seq", "set"))
sequence_tasks = st.sampled_from(("next-token", "seq-to-seq"))


def labelled(
    draw: st.DrawFn, rows: list[list[object]], task: str, ordered: bool, n_classes: int
) -> np.ndarray:
    """Random labels, equal where the contexts are."""
    known: dict[object, int] = {}
    labels = []
    for row in rows:
        whole = tuple(row) if ordered else frozenset(Counter(row).items())
        contexts = {
            "next-token": [whole if ordered else (row[-1], whole)],
            "seq-to-seq": [(place if ordered else None, token, whole) for place, token in enumerate(row)],
            "set": [whole],
        }[task]
        labels += [known.setdefault(context, draw(st.integers(0, n_classes - 1))) for context in contexts]
    return np.array(labels)


@st.composite
def token_data(draw: st.DrawFn, tasks: st.SearchStrategy[str] = tasks) -> Dataset:
    """Ragged sequences over a small alphabet, ordered or not, consistently labelled."""
    n_vocab, n_classes, task = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(tasks)
    row = st.lists(st.integers(0, n_vocab - 1), min_size=1, max_size=5)
    rows = draw(st.lists(row, min_size=1, max_size=8))
    ordered = task != "set" and draw(st.booleans())
    offsets = np.cumsum([0, *map(len, rows)])
    return Dataset(
        TokenSequences(np.array([token for row in rows for token in row]), offsets, n_vocab),
        labelled(draw, rows, task, ordered, n_classes),
        task,
        tuple(f"class {c}" for c in range(n_classes)),
        None,
        ordered,
    )


@st.composite
def vector_data(draw: st.DrawFn, tasks: st.SearchStrategy[str] = tasks) -> Dataset:
    """Vectors from a small pool, so that tokens repeat and multisets coincide; floats of every magnitude."""
    seq_len, dim, n_classes = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    task = draw(tasks)
    number = st.one_of(
        st.integers(-3, 3).map(float), st.floats(allow_nan=False, allow_infinity=False, width=64)
    )
    token = st.tuples(*([number.map(lambda value: value + 0.0)] * dim))
    pool = draw(st.lists(token, min_size=1, max_size=5))
    row = st.lists(st.sampled_from(pool), min_size=seq_len, max_size=seq_len)
    rows = draw(st.lists(row, min_size=1, max_size=6))
    return Dataset(
        VectorSequences(np.array(rows, dtype=np.float64)),
        labelled(draw, rows, task, False, n_classes),
        task,
        tuple(f"class {c}" for c in range(n_classes)),
        None,
        False,
    )


@checks("KS25-T4.1", "KS25-T B.1", "KS25-C4.1", "KS25-T D.1", "KS25-T E.1", "KS25-eq39")
@examples(80)
@given(st.one_of(token_data(), vector_data()), st.integers(0, 2**32))
def test_every_label_is_memorised(data: Dataset, seed: int) -> None:
    construction = compiled(data, seed)
    assert (answers(construction, data) == data.labels).all()
    size = size_of_network(construction.memoriser.network)
    assert size.width == 10  # the theorem: 14
    assert construction.theorem_size is not None
    assert size.weight_bits <= construction.theorem_size.weight_bits


def test_points_that_nearly_coincide_along_an_axis_need_no_long_weights() -> None:
    tiny = 1e-263
    data = Dataset.from_arrays(np.array([[[0.0, 0.0, 1.0]], [[0.0, tiny, 0.0]]]), np.array([0, 0]))
    construction = compiled(data, 0)
    assert (answers(construction, data) == data.labels).all()
    assert construction.theorem_size is not None
    assert (
        size_of_network(construction.memoriser.network).weight_bits <= construction.theorem_size.weight_bits
    )


TINY, HUGE = 5e-324, 1e308


@pytest.mark.parametrize(
    ("method", "task"),
    [
        *((name, "next-token") for name in ("kajitsuka-sato-2025", "kajitsuka-sato-2025-bits", "vardi-2022")),
        ("kajitsuka-sato-2025", "set"),
        ("kajitsuka-sato-2025", "seq-to-seq"),
        ("kajitsuka-sato-2025-sparse", "seq-to-seq"),
    ],
)
@pytest.mark.parametrize("value", [TINY, HUGE, 0.0, -1.0])
def test_one_sequence_needs_no_more_bits_than_promised_whatever_its_number(
    method: str, task: str, value: float
) -> None:
    data = Dataset.from_arrays(np.array([[[value]]]), np.array([0]), task=task)
    construction = compiled_by(method, data)
    assert (answers(construction, data) == data.labels).all()
    assert construction.theorem_size is not None
    bits = size_of_network(construction.memoriser.network).weight_bits
    assert bits <= 5 <= construction.theorem_size.weight_bits


@pytest.mark.parametrize("task", ["next-token", "set"])
def test_numbers_2000_bits_apart_take_no_more_bits_than_promised(task: str) -> None:
    rows = [[[HUGE], [TINY]], [[TINY], [TINY]], [[HUGE], [HUGE]], [[TINY], [HUGE]]]
    labels = [0, 1, 2, 0 if task == "set" else 3]
    data = Dataset.from_arrays(np.array(rows), np.array(labels), task=task)
    construction = compiled(data)
    assert (answers(construction, data) == data.labels).all()
    size, promised = size_of_network(construction.memoriser.network), construction.theorem_size
    assert promised is not None
    assert size.weight_bits <= promised.weight_bits
    assert size.parameters_dense <= promised.parameters


@examples(60)
@given(st.one_of(token_data(), vector_data()), st.integers(0, 2**32))
def test_the_interpreter_agrees(data: Dataset, seed: int) -> None:
    construction = compiled(data, seed)
    memoriser = construction.memoriser
    few = memoriser.encode(data.inputs)[:2]
    assert (memoriser.answer(few, backend="interpreter") == memoriser.answer(few)).all()


@checks("KS25-D4.1")
@examples(60)
@given(st.one_of(token_data(), vector_data()), st.integers(0, 2**32))
def test_context_ids_differ_by_two_exactly_where_contexts_differ(data: Dataset, seed: int) -> None:
    mapping = contextual_mapping(data, np.random.default_rng(seed))
    line = sorted(mapping.labels)
    assert all(after - before >= 2 for before, after in pairwise(line))
    assert len(line) == len(np.unique(data.context_ids))
    rows = [tuple(sorted(row)) for row in mapping.tokens.sequences.tolist()]
    assert len(set(mapping.sequence_ids)) == len(set(rows))


def as_seq_to_seq(data: Dataset) -> Dataset:
    """The same sequences, every context of every token with a label of its own."""
    bare = Dataset(
        data.inputs,
        np.zeros(int(np.sum(data.lengths)), dtype=np.int64),
        "seq-to-seq",
        ("a",),
        None,
        data.ordered,
    )
    contexts = bare.context_ids
    return bare.with_labels(contexts, [f"context {c}" for c in range(int(contexts.max()) + 1)])


@checks("KS25-D4.1")
@examples(40)
@given(st.one_of(token_data(), vector_data()), st.integers(0, 2**32))
def test_the_built_network_computes_a_contextual_mapping(data: Dataset, seed: int) -> None:
    data = as_seq_to_seq(data)
    for method in ("kajitsuka-sato-2025", "kajitsuka-sato-2025-sparse"):
        construction = compiled_by(method, data, seed)
        found = measure_context_ids(construction.memoriser, data)
        assert found.is_consistent
        assert found.separation is None or found.separation >= 2
        assert found.radius < 2 ** construction.notes["context_key_bits"]


@checks("KS25-D4.1")
def test_contexts_are_measured_if_vectors_enter_without_a_map() -> None:
    data = uniform_vectors(12, 3, 2, 3, seed=0)
    found, same = (
        measure_context_ids(compiled(data, input_map=form).memoriser, data) for form in ("linear", "none")
    )
    assert found == same


@checks("KS25-D4.1")
def test_contexts_that_collide_are_measured() -> None:
    data = as_seq_to_seq(random_tokens(8, 3, 5, seed=0))
    memoriser = compiled(data).memoriser
    network = memoriser.network
    mixing = next(at for at, layer in enumerate(network.layers) if isinstance(layer, Attention))
    blind = replace(network, layers=(*network.layers[:mixing], *network.layers[mixing + 1 :]))
    # attention before φ: sums of nothing
    blind = replace(blind, layers=(network.layers[mixing], *blind.layers))
    assert measure_context_ids(memoriser, data).separation >= 2
    found = measure_context_ids(replace(memoriser, network=blind), data)
    assert found.separation == 0 or not found.is_consistent


@checks("KS25-T D.1", "KS25-D A.2", "KS25-D B.1")
@examples(60)
@given(token_data(st.just("set")), st.integers(0, 2**32))
def test_a_deep_set_of_ids_needs_no_padding(data: Dataset, seed: int) -> None:
    construction = compiled(data, seed)
    network = construction.memoriser.network
    for sample in range(data.n_samples):
        tokens = np.asarray(data.inputs[sample])
        assert len(tokens) == len(data.multiset(sample))
        (output,) = evaluate(network, tokens[None, ::-1], last_only=True).all()
        assert output == data.labels[sample] + 1


@checks("KS25-eq2", "KS25-eq39")
@examples(40)
@given(st.one_of(token_data(sequence_tasks), vector_data(sequence_tasks)), st.integers(0, 2**32))
def test_softmax_attention_gives_the_same_numbers(data: Dataset, seed: int) -> None:
    plan = planned("kajitsuka-sato-2025", data, seed, attention="softmax")
    construction = plan.emit()
    (layer,) = (each for each in construction.memoriser.network.layers if isinstance(each, Attention))
    assert layer.kind == "softmax"
    assert all(head.key is not None and head.query is not None for head in layer.heads)
    assert (answers(construction, data) == data.labels).all()
    memoriser = construction.memoriser
    few = memoriser.encode(data.inputs)[:2]
    # the interpreter computes every score and takes softmax of them; it has no value where they differ
    assert (memoriser.answer(few, backend="interpreter") == memoriser.answer(few)).all()
    assert plan.size == size_of_network(memoriser.network)


@checks("KS25-eq2")
def test_softmax_of_scores_that_differ_is_not_taken_for_the_mean() -> None:
    data = random_tokens(4, 3, 6, seed=0)
    memoriser = compiled(data, attention="softmax").memoriser
    at = next(n for n, layer in enumerate(memoriser.network.layers) if isinstance(layer, Attention))
    layer = memoriser.network.layers[at]
    one = SparseMatrix.of(layer.heads[0].key.shape, {(0, 0): 1})
    scored = replace(layer, heads=(replace(layer.heads[0], key=one, query=one),))
    layers = (*memoriser.network.layers[:at], scored, *memoriser.network.layers[at + 1 :])
    with pytest.raises(NotExact):
        replace(memoriser, network=replace(memoriser.network, layers=layers)).answer(
            memoriser.encode(data.inputs)
        )


@checks("KS25-eq2")
@pytest.mark.parametrize("seq_len", [3, 4, 5, 8])
def test_softmax_in_floats_is_exact_for_powers_of_two_and_refused_elsewhere(seq_len: int) -> None:
    data = random_tokens(12, seq_len, 9, seed=1)
    options = {"precision": "float64", "attention": "softmax"}
    if seq_len in (4, 8):
        construction = compiled_by("kajitsuka-sato-2025-bits", data, **options)
        assert (answers(construction, data, "module") == data.labels).all()
        assert (answers(construction, data, "interpreter") == data.labels).all()
    else:
        with refused(AssumptionViolated, "reason"):
            compiled_by("kajitsuka-sato-2025-bits", data, **options)


@checks("KS25-R3.1")
@examples(40)
@given(vector_data(), st.integers(0, 2**32))
def test_vectors_may_enter_without_a_linear_map(data: Dataset, seed: int) -> None:
    plan = planned("kajitsuka-sato-2025", data, seed, input_map="none")
    construction = plan.emit()
    network = construction.memoriser.network
    assert (answers(construction, data) == data.labels).all()
    assert plan.size == size_of_network(network)
    w_in, w_out = network.w_in, network.w_out
    assert {value.fraction for value in (*w_in.entries.values(), *w_out.entries.values())} == {1}  # both copy
    assert sorted(column for _, column in w_in.entries) == list(range(network.dim))  # each coordinate once
    # as many channels as the registers and the coordinates, in every block: that is the cost
    assert network.model_width == 10 + network.dim


@pytest.mark.slow
@checks("KS25-R4.3")
def test_only_the_matrix_in_grows_with_the_dimension() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 40)
    others = {}
    for dim in (1, 11, 101, 1009):  # primes that no other side has by chance
        vectors = rng.integers(-(2**20), 2**20, size=(40, 2, dim)).astype(np.float64)
        construction = compiled(Dataset.from_arrays(vectors, labels))
        assert (answers(construction, Dataset.from_arrays(vectors, labels)) == labels).all()
        shapes = {name: weights.shape for name, weights in construction.memoriser.network.parameters()}
        assert shapes.pop("w_in") == (10, dim)
        assert dim == 1 or all(dim not in shape for shape in shapes.values())
        others[dim] = sum(rows * columns for rows, columns in shapes.values())
        assert construction.theorem_size is not None
        assert 10 * dim + others[dim] <= construction.theorem_size.parameters
    # what is left depends on d by the bits of a projected token alone
    assert max(others.values()) <= 1.25 * min(others.values())


@checks("KS25-T4.1")
@examples(60)
@given(st.one_of(token_data(), vector_data()))
def test_the_size_is_known_before_building(data: Dataset) -> None:
    plan = planned("kajitsuka-sato-2025", data)
    assert plan.size == size_of_network(plan.emit().memoriser.network)


@pytest.mark.parametrize("n_samples", [1, 2, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_vectors(n_samples: int) -> None:
    data = uniform_vectors(n_samples, seed=n_samples)
    construction = compiled(data)
    assert (answers(construction, data) == data.labels).all()
    assert construction.theorem_size is not None
    assert size_of_network(construction.memoriser.network).depth < construction.theorem_size.depth


@checks("KS25-C4.1", "KS25-T D.1", "KS25-R4.1", "KS25-T E.1", "KS25-R4.2")
@pytest.mark.parametrize("task", ["next-token", "seq-to-seq", "set"])
@pytest.mark.parametrize("kind", ["uniform", "grid", "tokens", "bag of tokens"])
def test_each_theorem_on_random_data(task: str, kind: str) -> None:
    n = 40 if task == "seq-to-seq" else 130
    n *= 3 if THOROUGH else 1
    if kind == "uniform":
        data = uniform_vectors(n, seed=1, task=task)
    elif kind == "grid":
        data = grid_vectors(n, seed=2, task=task)
    else:
        ordered = kind == "tokens" and task != "set"
        data = random_tokens(n, seed=3, task=task, ordered=ordered)
    construction = compiled(data)
    assert (answers(construction, data) == data.labels).all()
    theorem = {"next-token": "Theorem 4.1", "seq-to-seq": "Corollary 4.1", "set": "Theorem D.1"}[task]
    if task == "next-token" and kind == "bag of tokens":
        theorem = "Theorem E.1"
        assert construction.notes["entrance"] == "table"
    assert theorem in construction.theorem


def test_another_label_is_noticed() -> None:
    data = uniform_vectors(50, seed=3)
    construction = compiled(data)
    changed = data.labels.copy()
    changed[17] = (changed[17] + 1) % data.n_classes
    assert np.flatnonzero(answers(construction, data) != changed).tolist() == [17]


def test_conflicts_are_refused_with_both_rows() -> None:
    data = uniform_vectors(5, seed=0)
    doubled = Dataset(
        VectorSequences(np.concatenate([data.inputs.values, data.inputs.values[2:3]])),
        np.append(data.labels, (data.labels[2] + 1) % 16),
        "next-token",
        data.label_names,
        None,
        False,
    )
    with pytest.raises(ConflictingLabels) as caught:
        compiled(doubled)
    assert "3" in str(caught.value)
    assert "6" in str(caught.value)


def test_ordered_vectors_are_refused_with_a_way_out() -> None:
    data = replace(uniform_vectors(5, seed=0), ordered=True)
    with pytest.raises(AssumptionViolated):
        compiled(data)


def test_unknown_options_are_refused() -> None:
    with refused(UsageError, "problem"):
        compiled(uniform_vectors(5, seed=0), colour=1)


def test_the_same_seed_gives_the_same_weights() -> None:
    data = uniform_vectors(60, seed=9)
    first, second = (compiled(data, seed=4).memoriser.network for _ in range(2))
    for (name, left), (_, right) in zip(first.parameters(), second.parameters(), strict=True):
        assert left == right, name
