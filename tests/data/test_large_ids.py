"""Token ids that leave large gaps: only the distinct ones take memory, and every part of the package still speaks of the ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import byheart as bh
from byheart.data.tokenizers import IdTokenizer, Tokenizer
from byheart.errors import UsageError
from tests.refusal import refused


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 2**40, size=(100, 4)), rng.integers(0, 5, size=100)


@pytest.fixture(scope="module")
def model(rows: tuple[np.ndarray, np.ndarray]) -> bh.Model:
    return bh.compile(bh.Dataset.from_arrays(*rows), method="retrieval")


def test_a_hundred_rows_of_ids_below_2_to_the_40(
    rows: tuple[np.ndarray, np.ndarray], model: bh.Model
) -> None:
    inputs, labels = rows
    assert model.certificate is not None
    assert model.certificate.holds
    assert model.network.n_vocab == 400
    assert model.predict(inputs) == labels.tolist()
    assert model.predict(inputs[:3].tolist()) == labels[:3].tolist()
    assert model.predict(" ".join(map(str, inputs[7]))) == labels[7]
    unknown = inputs[:2].copy()
    unknown[0, 1] += 1
    assert model.predict(unknown) == [None, labels[1]]


def test_saved_and_read_again(rows: tuple[np.ndarray, np.ndarray], model: bh.Model, tmp_path: Path) -> None:
    inputs, labels = rows
    model.save(tmp_path / "model")
    again = bh.load(tmp_path / "model")
    assert again.predict(inputs) == labels.tolist()
    np.savez(tmp_path / "some.npz", inputs=inputs[:10], labels=labels[:10])
    some = bh.Dataset.read(tmp_path / "some.npz")
    assert some.vocab == 40
    found = bh.verify(again, some)
    assert (found.checked, found.wrong) == (10, 0)


def test_small_ids_are_matched_by_their_number(rows: tuple[np.ndarray, np.ndarray]) -> None:
    inputs, labels = rows[0].copy(), rows[1]
    inputs[0] = [3, 1, 2, 0]
    model = bh.compile(bh.Dataset.from_arrays(inputs, labels), method="retrieval")
    one = bh.Dataset.from_arrays(inputs[:1], labels[:1])
    assert one.tokenizer is None
    assert bh.verify(model, one).wrong == 0
    small = bh.compile(one, method="retrieval")
    assert bh.verify(small, bh.Dataset.from_arrays(inputs, labels)).wrong == 99


def test_the_tokenizer_of_ids_is_kept_whole_or_refused() -> None:
    tokenizer = IdTokenizer.of_ids(np.array([3, 17, 2**40]))
    assert Tokenizer.from_json(tokenizer.to_json()) == tokenizer
    assert tokenizer.decode(tokenizer.encode("17 3")) == "17 3"
    assert tokenizer.positions_of(np.array([3, 4, 2**40, 2**50])).tolist() == [0, -1, 2, -1]
    assert IdTokenizer(()).positions_of(np.array([0, 3])).tolist() == [-1, -1]
    for broken in (("3", "03"), ("5", "4"), ("3", "3"), ("-1",), ("x",), (str(2**63),)):
        with refused(UsageError, name="ids"):
            IdTokenizer(broken)
