"""What the verifier takes and refuses, at the very edge of it, and what a certificate says of the check itself."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from inspect import unwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import byheart as bh
from byheart.data.dataset import Dataset
from byheart.errors import UsageError
from byheart.network import Embedding, SparseMatrix, Transformer
from byheart.network.memoriser import Memoriser
from byheart.storage.data_source import read_like
from byheart.verify import verify
from byheart.verify.encoded_inputs import draw_samples
from byheart.verify.verifier import _affordable, verify_model
from tests.refusal import refused

from .lookup import capitals, lookup

FIXTURES = Path(__file__).parents[1] / "storage" / "fixtures"


def as_users_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the check of its arguments' types that tests add."""
    return unwrap(function)


# --- arguments that make no sense -------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, "capitals.csv", [("France", "Paris")]])
def test_only_a_data_set_is_checked(data: object) -> None:
    with refused(UsageError):
        as_users_call(verify)(lookup(capitals()), data)


@pytest.mark.parametrize("model", [None, "model", lookup(capitals())])
def test_only_a_model_is_checked(model: object) -> None:
    with refused(UsageError):
        as_users_call(verify_model)(model, capitals())


def test_unknown_rules_and_backends_are_refused() -> None:
    data = capitals()
    with refused(UsageError, rule="lax"):
        as_users_call(verify)(lookup(data), data, rule="lax")
    with refused(UsageError, backend="magic"):
        as_users_call(verify)(lookup(data), data, backend="magic")


def test_a_backend_that_the_model_does_not_have_is_refused() -> None:
    """Otherwise the certificate would name an evaluator that computed nothing."""
    data, texts = capitals(), Dataset.from_documents(["a b c", "b c d"], tokenizer="word")
    with refused(UsageError, backend="transformers"):
        verify(lookup(data), data, backend="transformers")
    decoder = bh.compile(texts, method="madden-2024")
    for backend in ("exact", "interpreter", "transformers", "equations"):
        with refused(UsageError, backend=backend):
            bh.verify(decoder, texts, backend=backend)
    assert bh.verify(decoder, texts, backend="module").holds


@pytest.mark.parametrize("backend", ["exact", "interpreter"])
def test_exact_arithmetic_runs_on_the_cpu_alone(backend: str) -> None:
    data = capitals()
    with refused(UsageError, device="cuda", backend=backend):
        verify(lookup(data), data, backend=backend, device="cuda")


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    data = capitals()
    with refused(UsageError, device="cuda") as caught:
        verify(lookup(data, "float64"), data, device="cuda")
    assert "backend" not in caught.value.facts


def test_distributions_are_not_sampled() -> None:
    texts = Dataset.from_documents([f"a{i} b" for i in range(9)], tokenizer="word")
    memoriser = replace(lookup(capitals()), task="distribution")
    with refused(UsageError, sample=2):
        verify(memoriser, texts, sample=2)


# --- which samples, and how often -------------------------------------------------------------------------


def test_the_draw_is_the_same_for_ever() -> None:
    """A certificate of a sample can be made again by every later version."""
    assert draw_samples(100, 5).tolist() == [5, 20, 36, 82, 93]
    assert draw_samples(3, 5).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("seq_len", "n_asked", "expected"), [
    (2**19, 100, 3), (2**19 + 1, 3, 1), (2**19 + 1, 7, 1), (2**19 + 1, 8, 2), (2**19 + 1, 11, 2),
    (2**19 + 1, 100, 3),
])  # fmt: skip
def test_up_to_four_million_products_the_second_look_is_not_shortened(
    seq_len: int, n_asked: int, expected: int
) -> None:
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    network = Transformer(one, (), one, seq_len, Embedding(SparseMatrix.of((6, 1), {})), pad=5)
    assert network.spec.parameters_dense == 8
    assert _affordable(network, 3, n_asked) == expected


def test_seconds_are_those_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count(1000, 1)
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) * 0.1234567)
    data = capitals()
    seconds = verify(lookup(data), data).seconds
    n_ticks = round(seconds / 0.1234567)
    assert n_ticks < 500
    assert seconds == round(n_ticks * 0.1234567, 3)


def test_how_transformers_runs_attention_is_said() -> None:
    pytest.importorskip("transformers")
    model = bh.load(FIXTURES / "llama-facts")
    data = read_like(model, FIXTURES / "data" / "short.csv")
    for backend, is_said in (("transformers", True), ("module", False)):
        certificate = verify(model.memoriser, data, backend=backend, n_rechecked=0)
        assert certificate.holds
        assert ("attention" in certificate.versions) == is_said


# --- token ids --------------------------------------------------------------------------------------------


def answers(model: Memoriser, data: Dataset) -> list[bool]:
    """Which samples are answered rightly."""
    wrong = {sample.number for sample in verify(model, data).wrong_samples}
    return [number not in wrong for number in range(1, data.n_samples + 1)]


def test_ids_with_gaps_and_ids_without_are_the_same_ids() -> None:
    gaps = Dataset.from_arrays([[5], [10**12]], [0, 1])
    dense = Dataset.from_arrays([[5], [3], [0]], [0, 1, 0])
    assert gaps.tokenizer is not None
    assert dense.tokenizer is None
    assert answers(lookup(gaps), dense) == [True, False, False]
    assert answers(lookup(gaps), gaps) == [True, True]
    other = Dataset.from_arrays([[5], [10**12], [3], [6]], [0, 0, 1, 0])
    assert answers(lookup(dense), other) == [True, False, True, False]
    more = Dataset.from_arrays([[4], [5], [10**12], [10**13]], [0, 0, 1, 1])
    assert answers(lookup(gaps), more) == [False, True, True, False]


def test_a_text_model_is_asked_ids_by_number() -> None:
    data = capitals()
    tokens = np.array([[*data.inputs.ids[:2], 5, 6]]).T
    ids = Dataset.from_arrays(tokens, data.labels[[0, 1, 1, 1]], label_names=data.label_names)
    assert ids.tokenizer is None
    assert answers(lookup(data), ids) == [True, True, False, False]


def test_a_model_without_padding_takes_one_length_alone() -> None:
    data = Dataset.from_arrays(np.array([[0, 1], [1, 0], [1, 1]]), np.array([0, 1, 0]), on_conflict="keep")
    memoriser = lookup(data)
    exactly = replace(memoriser, network=replace(memoriser.network, pad=None))
    other = Dataset.from_arrays([[1, 0], [0], [1, 1, 0]], [1, 1, 1], n_vocab=2)
    certificate = verify(exactly, other)
    assert [sample.number for sample in certificate.wrong_samples] == [2, 3]
    assert verify(memoriser, other).wrong == 1  # with padding, shorter ones are taken
    # the id after the last one is the padding's, where there is any
    beyond = Dataset.from_arrays([[1, 0], [0, 2]], [1, 1])
    assert answers(memoriser, beyond) == [True, False]


def test_the_kind_of_tokenizer_matters_even_if_the_vocabularies_are_equal() -> None:
    """As words, "a b" and "ab" differ in nothing that a vocabulary of single letters shows."""
    letters = bh.Dataset.from_pairs([("ab", "x"), ("ba", "y")], tokenizer="char")
    words = bh.Dataset.from_pairs([("a b", "x"), ("b a", "y")], tokenizer="word")
    model = bh.compile(letters)
    with refused(UsageError, model="char", data="word"):
        bh.verify(model, words)
