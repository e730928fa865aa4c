"""Duplicates collapse without changing any loss; sources describe their data in full."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import byheart as bh
from byheart.errors import DataError, MalformedFile, UsageError
from byheart.measure.draws import draw_places, draw_rows
from byheart.measure.sources import SOURCES, complete_description, training_set_of
from byheart.measure.text_samples import text_rows
from byheart.measure.training_set import (
    TrainingSet,
    training_set_of_documents,
    training_set_of_labels,
    training_set_of_values,
)
from tests.examples import examples
from tests.refusal import refused


def content(training_set: TrainingSet) -> dict[str, object]:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(training_set).items()
    }


@examples(200)
@given(st.integers(1, 40), st.integers(1, 3), st.integers(1, 3), st.integers(0, 10_000))
def test_collapsing_keeps_every_sample(n_samples: int, seq_len: int, n_vocab: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, labels = rng.integers(0, n_vocab, (n_samples, seq_len)), rng.integers(0, 4, n_samples)
    training_set = training_set_of_labels(inputs, labels, n_classes=4, n_vocab=n_vocab)
    assert training_set.n_samples == n_samples
    assert len({tuple(row) for row in training_set.inputs}) == training_set.n_rows
    counted: dict[tuple[tuple[int, ...], int], int] = {}
    for row, label in zip(inputs, labels, strict=True):
        counted[tuple(row), int(label)] = counted.get((tuple(row), int(label)), 0) + 1
    kept = {
        (tuple(training_set.inputs[row]), int(label)): weight
        for row, label, weight in zip(
            training_set.rows, training_set.classes, training_set.weights, strict=True
        )
    }
    assert kept == counted


@examples(200)
@given(st.integers(1, 30), st.integers(2, 5), st.integers(1, 3), st.integers(0, 10_000))
def test_contexts_and_entropy_by_hand(n_documents: int, n_tokens: int, n_vocab: int, seed: int) -> None:
    documents = np.random.default_rng(seed).integers(0, n_vocab, (n_documents, n_tokens))
    training_set = training_set_of_documents(documents, n_vocab)
    following: dict[tuple[int, ...], list[int]] = {}
    for document in documents.tolist():
        for cut in range(1, n_tokens):
            following.setdefault(tuple(document[:cut]), []).append(document[cut])
    assert training_set.n_rows == len(following)
    entropy = -sum(
        math.log(answers.count(answer) / len(answers)) for answers in following.values() for answer in answers
    )
    assert training_set.entropy == pytest.approx(entropy, abs=1e-9)


def test_the_same_entropy_as_the_data_package() -> None:
    from byheart.data.contexts import contexts_of
    from byheart.data.sequences import TokenSequences

    documents = np.random.default_rng(3).integers(0, 4, (60, 6))
    training_set = training_set_of_documents(documents, 4)
    contexts = contexts_of(TokenSequences(documents.reshape(-1), np.arange(61) * 6, 4))
    assert training_set.n_rows == len(contexts)
    assert training_set.entropy == pytest.approx(contexts.entropy_nats, rel=1e-12)


def test_a_problem_is_closed_for_writing_and_has_a_digest() -> None:
    training_set = training_set_of_values(np.zeros((2, 3, 4)), np.ones(2))
    with pytest.raises(ValueError, match="read-only"):
        training_set.inputs[0] = 1
    assert content(training_set) == content(training_set_of_values(np.zeros((2, 3, 4)), np.ones(2)))
    assert content(training_set) != content(training_set_of_values(np.zeros((2, 3, 4)), -np.ones(2)))
    with pytest.raises(DataError):
        training_set_of_labels(np.array([[5]]), np.array([0]), n_classes=2, n_vocab=2)
    with pytest.raises(DataError):
        training_set_of_labels(
            np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64), n_classes=2, n_vocab=2
        )


def test_draws_depend_on_seed_step_and_place_alone() -> None:
    seeds, n_rows = torch.tensor([[3], [4], [3]]), torch.tensor([[2500], [2500], [100]])
    step = torch.tensor(7)
    drawn = draw_rows(seeds, step, draw_places(64), n_rows)
    assert torch.equal(drawn[:1], draw_rows(seeds[:1], step, draw_places(64), n_rows[:1]))
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], draw_rows(seeds, step + 1, draw_places(64), n_rows)[0])
    assert torch.equal(drawn[:, :10], draw_rows(seeds, step, draw_places(10), n_rows))
    assert bool((drawn >= 0).all())
    assert int(drawn[2].max()) < 100


def test_draws_are_uniform_and_independent() -> None:
    """χ² tests with fixed seeds; the false-alarm rate of each would be 0.001 over random seeds."""
    for seed in (0, 1, 12345):
        drawn = torch.cat(
            [
                draw_rows(torch.tensor([[seed]]), torch.tensor(t), draw_places(1024), torch.tensor([[50]]))
                for t in range(100)
            ],
            dim=1,
        )[0].numpy()
        assert stats.chisquare(np.bincount(drawn, minlength=50)).pvalue > 0.001
        pairs = np.bincount(drawn[:-1] * 50 + drawn[1:], minlength=2500)
        assert stats.chisquare(pairs).pvalue > 0.001
    by_seed = draw_rows(
        torch.arange(20_000).view(-1, 1), torch.tensor(0), draw_places(1), torch.tensor([[10]])
    ).numpy()
    assert stats.chisquare(np.bincount(by_seed[:, 0], minlength=10)).pvalue > 0.001


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    lines = [
        {"text": f"the cat {i % 3} sat on mat {i % 7} and {i % 5} more things happened", "label": i % 2}
        for i in range(40)
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def test_sources_read_files_by_content(texts: Path, tmp_path: Path) -> None:
    data = {"kind": "documents", "path": texts.name, "n_documents": 20, "n_tokens": 6}
    full = complete_description(data, 0, tmp_path)
    training_set = training_set_of(full)
    assert training_set.n_samples == 20 * 5
    assert training_set_of(full) is training_set  # shared, so a stack holds it once
    moved = complete_description(data | {"n_documents": 41}, 0, tmp_path)
    with pytest.raises(DataError):
        training_set_of(moved)
    texts.write_text(texts.read_text() + "\nno json")
    with refused(DataError, "path"):
        training_set_of(complete_description(data, 0, tmp_path) | {"sha256": "0" * 64})
    with refused(MalformedFile, "path", line=41):
        training_set_of(complete_description(data, 0, tmp_path))
    for line in ("[]", '[["text", "a"]]', "1", "null"):
        with refused(MalformedFile, path="t.jsonl", line=2):
            text_rows(b'{"text": "a"}\n' + line.encode(), "t.jsonl")


def test_sentences_that_cannot_be_told_apart_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    rows = [("a b c", 0), ("a c b", 1), ("b a c", 1), ("a b d", 0), ("a b d", 0), ("d d d", 1)]
    path.write_text("\n".join(json.dumps({"text": text, "label": label}) for text, label in rows))
    data = {"kind": "sentences", "path": str(path), "seq_len": 3, "n_samples": 3}
    # Read at the first token, `a b c` and `a c b` look alike to a model without positions; `b a c` does not.
    training_set = training_set_of(complete_description(data, 0, tmp_path))
    assert training_set.n_rows == 3
    with pytest.raises(DataError):
        training_set_of(complete_description(data | {"n_samples": 4}, 0, tmp_path))
    assert (
        training_set_of(complete_description(data | {"n_samples": 5, "ordered": True}, 0, tmp_path)).n_rows
        == 5
    )


def test_a_data_file_can_be_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("key,value\ncapital of France,Paris\ncapital of Chad,N'Djamena\nsymbol of iron,Fe\n")
    training_set = training_set_of(complete_description({"kind": "file", "path": str(path)}, 0, tmp_path))
    assert (training_set.n_rows, training_set.n_classes, training_set.seq_len) == (3, 3, 3)


def test_only_kinds_that_a_specification_may_name_are_offered() -> None:
    with refused(UsageError, "kind") as raised:
        complete_description({"kind": "docs"}, 0, Path())
    assert "documents" in str(raised.value)
    assert "prepared" not in str(raised.value)


def test_every_source_is_described() -> None:
    assert all(source.make.__doc__ for source in SOURCES.values())
    for kind, fields in {"associations": {}, "facts": {"n_samples": 5, "n_vocab": 9, "n_classes": 2},
                         "random-tokens": {"n_samples": 30}, "rademacher-vectors": {}}.items():  # fmt: skip
        first, again, other = (
            training_set_of(complete_description({"kind": kind, **fields}, s, Path())) for s in (0, 0, 1)
        )
        assert content(first) == content(again)
        assert content(first) != content(other)


def test_batches_need_inputs_of_equal_weight() -> None:
    """Here every input has one answer, but some inputs occur twice."""
    run = {
        "model": {"family": "attention-only", "dim": 2, "head_dim": 2, "n_heads": 1},
        "data": {"kind": "random-tokens", "n_samples": 30, "n_vocab": 3, "seq_len": 2, "n_classes": 2},
        "training": {"steps": 3, "batch": 4},
    }
    with refused(UsageError):
        bh.measure(run)
