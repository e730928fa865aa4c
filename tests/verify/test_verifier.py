"""The verifier objects to every flipped label, changed weight and foreign data set, and to nothing else."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import byheart.network.transformer.evaluator
from byheart.data.dataset import Dataset
from byheart.errors import CorruptModel, UsageError
from byheart.model import Model
from byheart.network import Embedding, SparseMatrix, Transformer
from byheart.network.exact.dyadic import Dyadic
from byheart.network.memoriser import Memoriser
from byheart.verify import Certificate, verify, weights_digest
from byheart.verify.certificate import origin_of
from byheart.verify.digest import model_digest
from byheart.verify.verifier import _affordable
from tests.examples import examples
from tests.refusal import refused

from .lookup import CAPITALS, capitals, lookup

ROOT = Path(__file__).parents[2]


def with_changed_weight(memoriser: Memoriser, row: int) -> Memoriser:
    """The lowest bit of the mantissa of one embedding entry, one power of two down, is added."""
    network = memoriser.network
    assert network.embedding is not None
    assert isinstance(network.embedding.tokens, SparseMatrix)
    old = network.embedding.tokens
    changed = Dyadic.of(old.entries[row, 0].fraction + Fraction(1, 2**60))
    tokens = SparseMatrix(old.shape, {**old.entries, (row, 0): changed})
    return replace(memoriser, network=replace(network, embedding=Embedding(tokens)))


def vectors(n_samples: int = 6) -> tuple[Dataset, Memoriser]:
    """Vectors whose first coordinate is the class number plus one, and the network that reads it."""
    rng = np.random.default_rng(3)
    labels = np.arange(n_samples) % 3
    values = rng.standard_normal((n_samples, 2, 2))
    values[:, -1, 0] = labels + 1
    data = Dataset.from_arrays(values, labels)
    one = SparseMatrix.of((1, 2), {(0, 0): 1})
    network = Transformer(one, (), SparseMatrix.of((1, 1), {(0, 0): 1}), seq_len=2)
    return data, Memoriser(network, "next-token", data.label_names, None, data.ordered)


def test_a_right_memory_holds() -> None:
    data = capitals()
    certificate = verify(lookup(data), data)
    assert certificate.holds
    assert (certificate.checked, certificate.wrong, certificate.problems) == (5, 0, ())
    assert certificate.rechecked_by_interpreter == 3
    assert certificate.backend == "exact"
    assert certificate.dataset.digest == data.digest
    assert certificate.weights_digest == weights_digest(lookup(data).network)
    assert certificate.size.depth == 2
    assert {"byheart", "python", "numpy", "numba"} == set(certificate.versions)
    assert certificate.bits_per_parameter == data.label_bits / certificate.size.parameters_dense
    assert certificate.bits_per_stored_bit == data.label_bits / certificate.size.stored_bits
    assert str(certificate) == "holds: 5 of 5 rows (exact)"


@examples(200)
@given(st.integers(0, 4), st.integers(1, 4))
def test_one_flipped_label_is_found(sample: int, shift: int) -> None:
    data = capitals()
    memoriser = lookup(data)
    labels = data.labels.copy()
    labels[sample] = (labels[sample] + shift) % data.n_classes
    certificate = verify(memoriser, data.with_labels(labels), expected_digests={"dataset": data.digest})
    assert not certificate.holds
    assert certificate.wrong == 1
    (wrong,) = certificate.wrong_samples
    key = list(CAPITALS)[sample]
    assert wrong.number == sample + 1
    assert wrong.input == repr(key)
    assert wrong.expected == data.label_names[labels[sample]]
    assert wrong.got == CAPITALS[key]
    other_data, wrong_rows = certificate.problems
    assert data.digest[:16] in other_data
    assert "1 of 5" in wrong_rows


@examples(200)
@given(st.integers(0, 4))
def test_one_changed_bit_of_a_weight_is_found(row: int) -> None:
    data = capitals()
    memoriser = lookup(data)
    tampered = with_changed_weight(memoriser, row)
    certificate = verify(tampered, data, expected_digests={"weights": weights_digest(memoriser.network)})
    assert not certificate.holds
    assert certificate.wrong == 1
    assert certificate.wrong_samples[0].got is None
    assert "the weights are not the ones of the stored certificate" in certificate.problems[0]
    assert "expected" in str(certificate)
    assert "the network answers that the input is unknown" in str(certificate)


def test_a_weight_that_changes_no_answer_is_found_by_its_digest() -> None:
    data = capitals()
    memoriser = lookup(data)
    assert memoriser.network.embedding is not None
    old = memoriser.network.embedding.tokens
    assert isinstance(old, SparseMatrix)
    pad_row = SparseMatrix(old.shape, {**old.entries, (5, 0): Dyadic.of(1)})
    tampered = replace(memoriser, network=replace(memoriser.network, embedding=Embedding(pad_row)))
    expected = {"dataset": data.digest, "weights": weights_digest(memoriser.network)}
    certificate = verify(tampered, data, expected_digests=expected)
    assert (certificate.wrong, certificate.holds) == (0, False)
    assert len(certificate.problems) == 1
    assert verify(memoriser, data, expected_digests=expected).holds


def test_labels_are_compared_by_name() -> None:
    data = capitals()
    names = tuple(reversed(data.label_names))
    same = data.with_labels(data.n_classes - 1 - data.labels, names)
    assert verify(lookup(data), same).holds
    swapped = data.with_labels(data.labels, names)
    assert verify(lookup(data), swapped).wrong == 4  # the middle one keeps its name


def test_a_label_the_model_does_not_have_is_wrong_even_where_it_answers_nothing() -> None:
    data = capitals()
    memoriser = lookup(data)
    silent = replace(memoriser, network=replace(memoriser.network, w_out=SparseMatrix.of((1, 1), {})))
    other = Dataset.from_pairs([("France", "Lutetia")], tokenizer="word")
    certificate = verify(silent, other)
    assert (certificate.wrong, certificate.holds) == (1, False)
    assert certificate.problems == ("The answer is wrong in 1 of 1 row.",)
    assert certificate.wrong_samples[0].reason == (
        "the model does not have this label; it answers that the input is unknown"
    )


def test_unknown_tokens_and_long_inputs_are_wrong_samples_with_a_reason() -> None:
    memoriser = lookup(capitals())
    pairs = [("Japan", "Tokyo"), ("Atlantis", "Tokyo"), ("Cuba Cuba", "Havana"), ("Peru", "Lima")]
    certificate = verify(memoriser, Dataset.from_pairs(pairs, tokenizer="word"))
    assert certificate.checked == 4
    assert [sample.number for sample in certificate.wrong_samples] == [2, 3]
    assert [sample.reason for sample in certificate.wrong_samples] == [
        "the model does not know the token 'Atlantis'",
        "the number of tokens in the sample is 2; this model takes at most 1",
    ]


def test_token_ids_outside_the_vocabulary_and_the_padding_are_unknown() -> None:
    data = Dataset.from_arrays(np.array([[0], [1], [2]]), np.array([0, 1, 2]))
    memoriser = lookup(data)
    other = Dataset.from_arrays(np.array([[0], [3], [9]]), np.array([0, 1, 2]))
    certificate = verify(memoriser, other)
    assert [sample.reason for sample in certificate.wrong_samples] == [
        "the model does not know the token id 3",  # the padding
        "the model does not know the token id 9",
    ]


def test_a_data_set_that_is_nothing_like_it_is_all_wrong() -> None:
    data, memoriser = vectors()
    words = capitals()
    for model, other in ((memoriser, words), (lookup(words), data)):
        certificate = verify(model, other)
        assert certificate.wrong == other.n_samples
        assert certificate.rechecked_by_interpreter == 0
        assert "this model takes" in (certificate.wrong_samples[0].reason or "")
    narrow = Dataset.from_arrays(np.ones((1, 2, 1)), np.array([0]))
    assert verify(memoriser, narrow).wrong_samples[0].reason == (
        "the sample has the shape (vectors, dimension) = (2, 1); this model takes (2, 2)"
    )


def test_vectors_and_values_that_are_not_finite() -> None:
    data, memoriser = vectors()
    assert verify(memoriser, data).holds
    values = data.inputs.values.copy()
    values[4, 0, 1] = np.nan
    other = Dataset.from_arrays(values, np.arange(6) % 3)
    certificate = verify(memoriser, other)
    assert (certificate.wrong, certificate.wrong_samples[0].number) == (1, 5)
    assert certificate.wrong_samples[0].reason == "the sample contains a value that is not finite"


@examples(200)
@given(st.data())
def test_every_token_of_seq_to_seq_is_checked(data: st.DataObject) -> None:
    n_vocab = data.draw(st.integers(1, 4))
    rows = data.draw(st.lists(st.lists(st.integers(0, n_vocab - 1), min_size=1, max_size=5), min_size=1))
    label_of = data.draw(st.lists(st.integers(0, 3), min_size=n_vocab, max_size=n_vocab))
    flat = [label_of[token] for row in rows for token in row]
    sequences = Dataset.from_arrays(
        rows, flat, task="seq-to-seq", n_vocab=n_vocab, label_names=("a", "b", "c", "d"), on_conflict="keep"
    )
    memoriser = lookup(sequences)
    assert verify(memoriser, sequences).holds
    place = data.draw(st.integers(0, len(flat) - 1))
    flipped = np.array(flat)
    flipped[place] = (flipped[place] + 1) % 4
    certificate = verify(memoriser, sequences.with_labels(flipped))
    assert (certificate.wrong, certificate.holds) == (1, False)
    owner = int(np.searchsorted(np.cumsum([len(row) for row in rows]), place, side="right"))
    first = sum(len(row) for row in rows[:owner])
    assert certificate.wrong_samples[0].number == owner + 1
    assert certificate.wrong_samples[0].input.endswith(f", token {place - first + 1}")


def test_float_networks_are_checked_natively() -> None:
    data = capitals()
    for precision in ("float64", "float32"):
        certificate = verify(lookup(data, precision), data)
        assert certificate.holds
        assert (certificate.backend, certificate.rechecked_by_interpreter) == ("module", 3)
        assert "torch" in certificate.versions
    flipped = data.with_labels((data.labels + 1) % 5)
    assert verify(lookup(data, "float64"), flipped).wrong == 5


def test_a_disagreement_with_the_interpreter_is_never_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    data = capitals()
    true = byheart.network.transformer.evaluator.evaluate

    def too_kind(*arguments: Any, **options: Any) -> Any:
        values = true(*arguments, **options)
        return replace(values, distinct=[Fraction(int(value)) for value in values.distinct])

    tampered = lookup(data)
    for row in range(5):
        tampered = with_changed_weight(tampered, row)
    monkeypatch.setattr(byheart.network.transformer.evaluator, "evaluate", too_kind)
    certificate = verify(tampered, data)
    assert (certificate.wrong, certificate.holds) == (0, False)
    assert len(certificate.problems) == 3
    assert "the slow interpreter and the exact evaluator disagree on sample" in certificate.problems[0]


def test_the_samples_asked_twice_are_the_same_every_time() -> None:
    data = capitals()
    first, again = (verify(lookup(data), data, n_rechecked=2) for _ in range(2))
    assert replace(first, seconds=0.0) == replace(again, seconds=0.0)
    assert verify(lookup(data), data, n_rechecked=99).rechecked_by_interpreter == 5
    assert verify(lookup(data), data, n_rechecked=0).rechecked_by_interpreter == 0


def test_another_task_or_tokenizer_is_a_usage_error() -> None:
    memoriser = lookup(capitals())
    with refused(UsageError, model="next-token", data="set"):
        verify(memoriser, capitals(task="set"))
    other = Dataset.from_pairs([("France", "Paris")], tokenizer="char")
    with refused(UsageError, model="word", data="char"):
        verify(memoriser, other)


def test_the_record_is_repeated_and_assumptions_only_for_their_own_data() -> None:
    data = capitals()
    memoriser = lookup(data)
    found = {"statement": "tokens are distinct", "holds": True, "detail": "5 tokens"}
    record = {
        "method": "by hand",
        "theorem": "KS25 Theorem 4.1",
        "theorem_size": {"width": 14, "depth": 100},
        "assumptions": [found],
        "dataset": {"digest": data.digest},
    }
    certificate = verify(memoriser, data, origin=origin_of(record))
    assert (certificate.method, certificate.theorem) == ("by hand", "KS25 Theorem 4.1")
    assert certificate.theorem_size == {"width": 14, "depth": 100}
    assert [item.detail for item in certificate.assumptions] == ["5 tokens"]
    assert verify(memoriser, data.subset([0, 1]), origin=origin_of(record)).assumptions == ()


def test_exact_models_are_checked_without_loading_pytorch() -> None:
    """It takes longer to load than a small model takes to check."""
    code = (
        "import sys; from byheart.verify import verify; from tests.verify.lookup import capitals, lookup;"
        "print(verify(lookup(capitals()), capitals()).holds, 'torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.split() == ["True", "False"]


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    data = capitals()
    verify(lookup(data), data, progress=lambda done, total, stage="": told.append((done, total)))
    assert told[-1][0] == told[-1][1]


def test_a_certificate_survives_json() -> None:
    data = capitals()
    for certificate in (
        verify(lookup(data), data),
        verify(lookup(data), data.with_labels(data.labels[::-1])),
    ):
        assert Certificate.from_json(certificate.to_json()) == certificate


def test_a_certificate_that_contradicts_itself_is_refused() -> None:
    document = verify(lookup(capitals()), capitals()).to_json()
    with refused(CorruptModel, "problem", file="certificate.json"):
        Certificate.from_json({**document, "wrong": 1})


# --- what a model says of itself --------------------------------------------------------------------------


def test_what_the_record_says_is_repeated_and_called_unchecked() -> None:
    data = capitals()
    record = {
        "method": "magic",
        "theorem": "Theorem 0",
        "theorem_size": {"parameters": 1},
        "dataset": {"digest": data.digest},
        "assumptions": [{"statement": "separation", "holds": True, "detail": "δ = 1e99, r = 0"}],
    }
    document = verify(lookup(data), data, origin=origin_of(record)).to_json()
    assert set(document["unchecked"]) == {"method", "theorem", "theorem_size", "assumptions"}
    checked = {name: value for name, value in document.items() if name not in document["unchecked"]}
    assert "magic" not in str(checked)
    assert "1e99" not in str(checked)


def test_two_equal_checks_differ_in_their_seconds_alone() -> None:
    data = capitals()
    one, two = (verify(lookup(data), data).to_json() for _ in range(2))
    two["seconds"] = one["seconds"] + 1
    assert Certificate.from_json(one) == Certificate.from_json(two)
    assert {name for name in one if one[name] != two[name]} == {"seconds"}


def test_labels_and_vocabulary_are_under_a_digest() -> None:
    data = capitals()
    memoriser = lookup(data)
    expected = {"model": model_digest(memoriser)}
    assert verify(memoriser, data, expected_digests=expected).holds
    swapped = replace(memoriser, label_names=(*memoriser.label_names[1::-1], *memoriser.label_names[2:]))
    assert weights_digest(swapped.network) == weights_digest(memoriser.network)
    renamed = data.with_labels(data.labels, swapped.label_names)
    certificate = verify(swapped, renamed, expected_digests=expected)
    assert certificate.wrong == 0
    assert not certificate.holds
    assert (
        "labels, tokenizer, task, use of token order, architecture or further files"
        in certificate.problems[0]
    )


def test_the_second_look_is_cheaper_than_the_first_where_samples_are_few_and_long() -> None:
    data = capitals()
    memoriser = lookup(data)
    assert verify(memoriser, data).rechecked_by == "interpreter"
    assert _affordable(memoriser.network, 3, 5) == 3
    long = replace(memoriser.network, seq_len=2**22)
    assert [_affordable(long, 3, n_asked) for n_asked in (1, 5, 8, 100)] == [1, 1, 2, 3]


def test_a_large_token_id_takes_no_memory() -> None:
    data = Dataset.from_arrays([[0, 1], [2], [1]], [5, 6, 5])
    model = Model(lookup(data), {}, None)
    model.predict([[0, 1]])
    tracemalloc.start()
    try:
        assert model.predict([[5 * 10**8], [0, 1]]) == [None, "5"]
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_sample_is_checked_and_the_certificate_says_so() -> None:
    data = capitals()
    memoriser = lookup(data)
    certificate = verify(memoriser, data, sample=2)
    assert certificate.holds
    assert (certificate.checked, certificate.sampled, certificate.wrong) == (2, 2, 0)
    assert str(certificate).startswith(f"holds on a sample of 2 of {data.n_samples}: 2 of 2 rows")
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert verify(memoriser, data, sample=2) == certificate
    assert certificate.dataset.digest == data.digest
    spoilt = verify(memoriser, data.with_labels(np.roll(data.labels, 1)), sample=3)
    assert not spoilt.holds
    assert 0 < spoilt.wrong <= spoilt.checked == 3
    for size in (0, data.n_samples):
        with refused(UsageError, "sample"):
            verify(memoriser, data, sample=size)


def test_a_certificate_of_fewer_samples_that_names_no_sample_is_refused() -> None:
    data = capitals()
    document = verify(lookup(data), data).to_json()
    assert "sampled" not in document
    with refused(CorruptModel, "problem", file="certificate.json"):
        Certificate.from_json({**document, "checked": data.n_samples - 1})
