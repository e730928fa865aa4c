from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from byheart.data import Dataset, story_openings
from byheart.errors import DataError
from tests.refusal import refused

TEXTS = [f"Story {i} is told, again and again, by all {i} of them." for i in range(30)] + ["Too short."]


def test_openings_have_the_asked_number_of_tokens() -> None:
    data = story_openings(TEXTS, 20, seed=3, n_tokens=6)
    assert (data.n_samples, data.task) == (20, "distribution")
    assert data.lengths.tolist() == [6] * 20
    assert data.n_labels == 20 * 5
    assert data.describe_input(0).startswith("'Story ")
    assert data.tokenizer is not None
    used = {word for i in range(20) for word in data.tokenizer.decode(data.inputs[i].tolist()).split()}
    assert set(data.tokenizer.vocabulary) == used  # the vocabulary of the subset alone
    assert data.label_names == data.tokenizer.vocabulary


def test_the_seed_decides_and_fewer_are_a_prefix() -> None:
    one, same, other = (story_openings(TEXTS, 10, seed=seed) for seed in (1, 1, 2))
    assert one.digest == same.digest != other.digest
    fewer = story_openings(TEXTS, 4, seed=1)
    assert [fewer.describe_input(i) for i in range(4)] == [one.describe_input(i) for i in range(4)]


def test_too_few_texts_are_refused() -> None:
    with refused(DataError, n_documents=31, n_available=30):
        story_openings(TEXTS, 31)


def test_tinystories_look_like_those_of_the_paper(shared_data: Path) -> None:
    reference = shared_data.parent / "reference" / "madden_2024_capacity.csv"
    if not reference.is_file():
        pytest.skip("needs the stored results of the paper: put them at ../shared/reference")
    lines = (shared_data / "tinystories.jsonl").read_text(encoding="utf-8").splitlines()
    stories = [row["text"] for row in map(json.loads, lines) if row["whole"]]
    with reference.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    for row in rows:
        contexts = (data := story_openings(stories, int(row["n_stories"]))).contexts()
        # Another subset of the same stories: counts agree to a quarter, and so does the entropy.
        assert len(contexts) == pytest.approx(int(row["n_contexts"]), rel=0.25)
        assert data.vocab == pytest.approx(int(row["vocab"]), rel=0.25)
        assert contexts.entropy_nats == pytest.approx(float(row["entropy_nats"]), rel=0.25)
        assert contexts.n_predictions == 9 * int(row["n_stories"])


def test_real_files_read_as_they_are_described(shared_data: Path) -> None:
    facts = Dataset.read(shared_data / "facts.csv")
    assert (facts.n_samples, facts.n_classes, facts.task) == (1790, 1271, "next-token")
    assert facts.check().is_memorisable
    assert facts.label_bits == 1790 * math.log2(1271)
    stories = Dataset.read(shared_data / "tinystories.jsonl")
    assert (stories.n_samples, stories.task) == (3530, "distribution")
    assert stories.contexts().n_predictions == stories.n_labels


@pytest.mark.slow
def test_reviews_read_as_they_are_described(shared_data: Path) -> None:
    reviews = Dataset.read(shared_data / "imdb.jsonl", input="text", label="label", tokenizer="word")
    assert (reviews.n_samples, reviews.label_names) == (12_000, ("0", "1"))
