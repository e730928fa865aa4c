from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.data import CharTokenizer, Dataset, TokenSequences, VectorSequences
from byheart.errors import DataError, UsageError
from tests.data.strategies import datasets
from tests.examples import examples
from tests.refusal import refused

LABELS = np.array([0, 1, 0])
VALUES = np.arange(12.0).reshape(3, 2, 2)


def test_sizes_of_text() -> None:
    data = Dataset.from_pairs([("abc", "x"), ("b", "y"), ("cc", "x")])
    assert (data.n_samples, data.n_labels, data.n_classes, data.seq_len) == (3, 3, 2, 3)
    assert (data.vocab, data.dim, data.ordered, data.task) == (3, None, True, "next-token")
    assert data.label_names == ("x", "y")
    assert data.labels.tolist() == [0, 1, 0]
    assert data.label_bits == 3.0
    assert isinstance(data.tokenizer, CharTokenizer)
    assert data.tokenizer.vocabulary == ("a", "b", "c")


def test_sizes_of_vectors() -> None:
    data = Dataset.from_arrays(VALUES, [7, -1, 7])
    assert (data.vocab, data.dim, data.ordered, data.seq_len) == (None, 2, False, 2)
    assert data.label_names == ("-1", "7")
    assert data.labels.tolist() == [1, 0, 1]
    assert Dataset.from_arrays(VALUES, LABELS, ordered=True).ordered


def test_label_bits_count_every_label() -> None:
    data = Dataset.from_arrays(VALUES, [[0, 1], [2, 0], [1, 1]])
    assert data.task == "seq-to-seq"
    assert data.label_bits == pytest.approx(6 * math.log2(3), rel=1e-15)


def test_arrays_of_ids_lists_and_label_names() -> None:
    data = Dataset.from_arrays(
        np.array([[0, 4], [4, 4]], dtype=np.uint8), [1, 0], label_names=["no", "yes", "perhaps"]
    )
    assert (data.vocab, data.n_classes, data.ordered) == (5, 3, True)
    assert data.labels.tolist() == [1, 0]
    ragged = Dataset.from_arrays([[0, 1], [2]], [0, 1], n_vocab=9)
    assert ragged.lengths.tolist() == [2, 1]
    assert ragged.vocab == 9
    flat = Dataset.from_arrays([[0, 1], [2]], [0, 1, 1], task="seq-to-seq")
    assert flat.n_labels == 3
    pairs = Dataset.from_pairs([([0, 1], 10), ([2], 9)])
    assert pairs.label_names == ("9", "10")


@pytest.mark.parametrize(
    ("inputs", "labels"),
    [
        (np.zeros(2), [0, 1]),
        (np.zeros((2, 2), dtype=bool), [0, 1]),
        (np.zeros((2, 2, 2, 2), dtype=int), [0, 1]),
        (np.zeros((2, 2, 2), dtype=np.longdouble), [0, 1]),
        (VALUES, [0, 1]),
        (VALUES, [0.5, 1.0, 2.0]),
        (VALUES, np.zeros((3, 3), dtype=int)),
        (VALUES, np.zeros((3, 2, 1), dtype=int)),
    ],
)
def test_wrong_arrays_are_refused(inputs: np.ndarray, labels: np.ndarray) -> None:
    with pytest.raises(UsageError):
        Dataset.from_arrays(inputs, labels)


def test_other_wrong_requests_are_refused() -> None:
    with refused(UsageError, n_classes=2):
        Dataset.from_arrays(VALUES, [0, 1, 2], label_names=["a", "b"])
    with pytest.raises(UsageError):
        Dataset.from_arrays(VALUES, [0, 1, 1], label_names=["a", "a"])
    with pytest.raises(UsageError):
        Dataset.from_arrays(VALUES, LABELS, task="set", ordered=True)
    with pytest.raises(UsageError):
        Dataset.from_pairs([("a", "b")], task="distribution")
    with pytest.raises(UsageError):
        Dataset(VectorSequences(VALUES), LABELS, "distribution", ("0", "1"), None, True)
    with pytest.raises(UsageError):
        Dataset(VectorSequences(VALUES), LABELS, "set", ("0", "1"), None, False, rows=np.array([1]))
    with pytest.raises(UsageError):
        Dataset.from_pairs([("a", "b")]).contexts()


def test_values_that_a_type_checker_would_stop_are_refused_too() -> None:
    # In a fresh interpreter, because here every call has its types checked before the function sees them.
    program = """
import numpy as np
from byheart.data import Dataset, VectorSequences
from byheart.errors import UsageError
for call in (
    lambda: Dataset.from_pairs([("a", "x")]).resolved("newest"),
    lambda: Dataset.from_pairs([("a", "x")], task="summarise"),
    lambda: VectorSequences(np.zeros((2, 3))),
    lambda: Dataset.from_arrays(np.array([[1], [2]]), np.array([0, 1]), label_names=[1, 2]),
):
    try:
        call()
    except UsageError as error:
        print(error)
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    rule, task, shape, names, _ = shown.splitlines()
    assert rule == "on_conflict='newest' is not one of error, first, last, majority, drop, keep."
    assert task == "task 'summarise' is not one of next-token, seq-to-seq, set, distribution."
    assert shape.endswith("got (2, 3).")
    # a model with it was saved, and not loaded again
    assert names == "label names must be texts; got 1 among them."


def test_data_without_content_is_refused() -> None:
    with pytest.raises(DataError):
        Dataset.from_pairs([])
    with pytest.raises(DataError):
        Dataset.from_arrays(np.zeros((0, 2, 2)), np.zeros(0, dtype=int))
    with refused(DataError, row=2):
        Dataset.from_pairs([("a", "x"), ("", "y")])
    with refused(DataError, row=2):
        Dataset.from_pairs([("a", "x"), ("  ", "y")], tokenizer="word")
    with pytest.raises(DataError):
        Dataset.from_documents([" "])


def test_texts_must_be_texts() -> None:
    with refused(DataError, row=2, value=5):
        Dataset.from_pairs([("a", "x"), (5, "y")])
    with refused(DataError, text="a\ud800"):
        Dataset.from_pairs([("a\ud800", "x")])
    with refused(DataError, text="\udfff"):
        Dataset.from_pairs([("a", "\udfff")])
    with refused(DataError, row=2):
        Dataset.from_arrays([[1, 2], [0.5]], [0, 1])


def test_one_label_a_token() -> None:
    data = Dataset.from_pairs([("ab", ["x", "y"]), ("c", "z")])
    assert data.task == "seq-to-seq"
    assert [data.label_names[c] for c in data.labels] == ["x", "y", "z"]
    with refused(DataError, row=2, n_labels=2, n_tokens=1):
        Dataset.from_pairs([("ab", "x y"), ("c", "z z")], task="seq-to-seq")
    with refused(DataError, row=2):
        Dataset.from_pairs([("ab", "x y"), ("c", ["z"])])


def test_known_label_names_keep_their_numbers() -> None:
    data = Dataset.from_pairs([("a", "new"), ("b", "y"), ("c", "also")], label_names=["x", "y"])
    assert data.label_names == ("x", "y", "also", "new")
    assert data.labels.tolist() == [3, 1, 2]


@examples(200)
@given(datasets(), st.data())
def test_a_subset_is_the_chosen_samples(data: Dataset, choose: st.DataObject) -> None:
    indices = choose.draw(st.lists(st.integers(0, data.n_samples - 1), min_size=1, max_size=6))
    part = data.subset(indices)
    begins = np.cumsum(data.labels_per_sample) - data.labels_per_sample
    labels = [
        label
        for i in indices
        for label in data.labels[begins[i] : begins[i] + data.labels_per_sample[i]].tolist()
    ]
    assert part.labels.tolist() == labels
    assert [part.inputs[k].tolist() for k in range(len(indices))] == [
        data.inputs[i].tolist() for i in indices
    ]
    assert [part.row(k) for k in range(len(indices))] == [i + 1 for i in indices]
    again = part.subset([len(indices) - 1])
    assert again.row(0) == indices[-1] + 1


def test_a_subset_of_what_is_not_there_is_refused() -> None:
    data = Dataset.from_arrays(VALUES, LABELS)
    for indices in ([3], [-1]):
        with pytest.raises(UsageError):
            data.subset(indices)
    with pytest.raises(DataError):
        data.subset([])


def test_nothing_can_be_changed() -> None:
    data = Dataset.from_arrays(VALUES, LABELS)
    with pytest.raises(FrozenInstanceError):
        data.task = "set"
    with pytest.raises(ValueError, match="read-only"):
        data.labels[0] = 1


def test_other_labels() -> None:
    data = Dataset.from_arrays(VALUES, LABELS)
    flipped = data.with_labels(1 - data.labels)
    assert flipped.labels.tolist() == [1, 0, 1]
    assert flipped.label_names == data.label_names
    assert data.with_labels(data.labels, ["a", "b", "c"]).n_classes == 3
    assert flipped.digest != data.digest


def test_the_digest_is_the_documented_spelling() -> None:
    data = Dataset.from_arrays(np.array([[[0.5]]]), [3])
    header = (
        b'{"inputs":"vectors","label_names":["3"],"n_vocab":null,"ordered":false,'
        b'"shape":[1,1,1],"task":"next-token","vocabulary":null}'
    )
    parts = [header, np.array([0.5]).tobytes(), np.array([0], dtype="<i8").tobytes()]
    spelled = b"byheart data set, version 1\n" + b"".join(len(p).to_bytes(8, "little") + p for p in parts)
    assert data.digest == hashlib.sha256(spelled).hexdigest()


def test_the_digest_sees_every_part_of_the_content() -> None:
    base: Any = {"task": "next-token", "tokenizer": "char"}
    pairs = [("ab", "x"), ("ba", "y")]
    digests = [
        Dataset.from_pairs(pairs, **base).digest,
        Dataset.from_pairs(pairs, task="set", on_conflict="keep").digest,
        Dataset.from_pairs(pairs, ordered=False, **base).digest,
        Dataset.from_pairs(pairs, task="next-token", tokenizer="bytes").digest,
        Dataset.from_pairs([("ac", "x"), ("ca", "y")], **base).digest,  # the vocabulary
        Dataset.from_pairs([("ab", "x"), ("bb", "y")], **base).digest,  # the inputs
        Dataset.from_pairs([("ab", "x"), ("ba", "z")], **base).digest,  # a label's name
        Dataset.from_pairs([("ab", "y"), ("ba", "x")], **base).digest,  # the labels
        Dataset.from_pairs(pairs[:1], label_names=["x", "y"], **base).digest,
        Dataset.from_pairs([("a", "x"), ("bba", "y")], **base).digest,  # where sequences are cut
    ]
    assert len(set(digests)) == len(digests)


def test_the_digest_does_not_see_what_is_not_content() -> None:
    data = Dataset.from_pairs([("b", "y"), ("a", "x"), ("b", "y")])
    assert data.subset([0, 1, 2]).digest == data.digest  # row numbers
    assert (
        Dataset.from_arrays(VALUES, LABELS).digest == Dataset.from_arrays(VALUES.tolist(), [0, 1, 0]).digest
    )
    minus = Dataset.from_arrays(np.array([[[-0.0]]]), [0])
    assert minus.digest == Dataset.from_arrays(np.array([[[0.0]]]), [0]).digest


def test_inputs_are_shown_short() -> None:
    assert Dataset.from_pairs([("a" * 100, "x")]).describe_input(0) == "'" + "a" * 60 + "'…"
    assert Dataset.from_pairs([("a\nb", "x")]).describe_input(0) == "'a\\nb'"
    assert Dataset.from_arrays([[3, 1]], [0]).describe_input(0) == "[3 1]"
    assert Dataset.from_arrays([list(range(50))], [0]).describe_input(0) == "[ 0 1 ... 48 49]"
    assert Dataset.from_arrays([[[0.1, 2.0]]], [0]).describe_input(0) == "[[0.1 2. ]]"


def test_documents_become_labels_of_their_own_tokens() -> None:
    data = Dataset.from_documents(["the cat sat", "the dog", "the"])
    assert data.task == "distribution"
    assert data.label_names == ("cat", "dog", "sat", "the")
    assert [data.label_names[c] for c in data.labels] == ["cat", "sat", "dog"]
    assert data.labels_per_sample.tolist() == [2, 1, 0]
    assert data.subset([1, 2]).labels.tolist() == [1]
    assert isinstance(data.inputs, TokenSequences)
    assert len(data.contexts()) == 2


def test_label_entropy_is_what_a_code_must_pay() -> None:
    data = Dataset.from_arrays([[i] for i in range(8)], [0, 0, 0, 0, 1, 1, 2, 3])
    assert data.label_bits == 16
    assert data.label_entropy == 4 * 1 + 2 * 2 + 2 * 3
    even = Dataset.from_arrays([[i] for i in range(8)], [0, 1, 2, 3] * 2)
    assert even.label_entropy == even.label_bits
    assert Dataset.from_arrays([[0], [1]], [7, 7]).label_entropy == 0
