"""`compile --shards` says of the data what `compile` says."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest

from byheart.bounds import table
from byheart.data import piece_reader
from byheart.data.dataset import Dataset
from byheart.data.distinct_contexts import read_in_pieces
from byheart.process.task_runner import Workers
from tests.cli.conftest import Byheart

ALPHABET = "abcdef"


def write_ragged(path: Path, seed: int) -> Path:
    """Distinct texts of different lengths, some rows twice, labels at random."""
    rng = random.Random(seed)
    texts = {"".join(rng.choices(ALPHABET, k=rng.randint(1, 7))) for _ in range(rng.randint(4, 14))}
    rows = [(text, str(rng.randrange(3))) for text in sorted(texts)] + [("aaaaaaaa", "0"), ("a", "1")]
    rows = list(dict(rows).items())
    rows += rng.sample(rows, rng.randint(0, 2))
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("key", "value"), *rows])
    return path


FEW = 2  # without `slow`
SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= FEW else []) for seed in range(50)]


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_are_those_of_the_data_in_memory(
    byheart: Byheart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(piece_reader, "PIECE_ROWS", 5)
    path = write_ragged(tmp_path / "data.csv", seed)
    plain = byheart("compile", path, "-o", tmp_path / "plain", "--method", "retrieval", "--json")
    shards = ("--shards", "2", "--work", tmp_path / "work")
    pieces = byheart("compile", path, "-o", tmp_path / "out", "--method", "retrieval", *shards, "--json")
    assert plain.document["bounds"] == pieces.document["bounds"]
    assert plain.document["dataset"] == pieces.document["dataset"]


@pytest.mark.parametrize("seed", range(50))
def test_pieces_have_the_bounds_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(piece_reader, "PIECE_ROWS", 5)
    path = write_ragged(tmp_path / "data.csv", seed)
    whole, pieces = Dataset.read(path), read_in_pieces(path, tmp_path, Workers())
    assert len(pieces.sizes) > 1
    assert table(pieces).to_json() == table(whole).to_json()
