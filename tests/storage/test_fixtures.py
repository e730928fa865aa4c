"""Folders saved by earlier versions load, verify and answer alike for ever.

These files are never made again; new schemas and families add new ones. `fixtures/answers.json` says which data a folder
was compiled from and what it answered on the day it was saved: for texts by input, for arrays in the order of the rows.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import byheart as bh
from byheart.errors import ByheartError
from byheart.pipeline import load
from byheart.storage.data_source import read_like

FIXTURES = Path(__file__).parent / "fixtures"
SAVED: dict[str, Any] = json.loads((FIXTURES / "answers.json").read_text(encoding="utf-8"))

FIRST = {
    "schema-1-exact": {
        "capital of France": "Paris",
        "capital of Georgia": "Tbilisi",
        "capital of Peru": "Lima",
        "currency of Peru": "sol",
        "Peru of currency": "unknown order",
        "capital of Paris": None,
        "capital of": None,
    },
    "schema-1-float64": {
        "France": "Paris",
        "Japan": "Tokyo",
        "Peru": "Lima",
        "Chad": "N'Djamena",
        "Cuba": "Havana",
        "Atlantis": None,
    },
}
"""Two folders of the first days, whose data were not kept."""


@pytest.mark.parametrize("name", FIRST)
def test_a_folder_of_the_first_schema_loads_and_answers(name: str) -> None:
    model = load(FIXTURES / name)  # compares the weights with the certificate
    assert model.predict(list(FIRST[name])) == list(FIRST[name].values())
    assert model.certificate is not None
    assert model.certificate.holds
    assert model.certificate.size == model.size


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_folder_loads_verifies_and_answers_as_it_did(name: str) -> None:
    model = load(FIXTURES / name)
    file = FIXTURES / "data" / SAVED[name]["data"]
    data = read_like(model, file, **SAVED[name].get("reading", {}))
    certificate = bh.verify(model, data)
    assert certificate.holds, certificate
    assert model.certificate is not None
    assert certificate.weights_digest == model.certificate.weights_digest
    assert certificate.dataset == model.certificate.dataset
    assert certificate.size == model.certificate.size == model.size
    answers = SAVED[name]["answers"]
    if isinstance(answers, dict):
        assert model.predict(list(answers)) == list(answers.values())
    else:
        assert model.predict(np.load(file)["inputs"]) == answers


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_folder_is_written_again_to_the_last_byte(name: str, tmp_path: Path) -> None:
    load(FIXTURES / name).save(tmp_path / "again")
    for file in ("model.safetensors", "model.json"):
        assert (tmp_path / "again" / file).read_bytes() == (FIXTURES / name / file).read_bytes(), file


@pytest.mark.parametrize(
    "name", ["transformer-exact", "retrieval-float64", "attention-only", "decoder-attention-float32"]
)
def test_no_flipped_bit_of_model_json_changes_an_answer(name: str, tmp_path: Path) -> None:
    """Labels, vocabulary, tokenizer, task, order and architecture are under a digest that `load` checks."""
    model = load(FIXTURES / name)
    certificate = bh.verify(model, read_like(model, FIXTURES / "data" / SAVED[name]["data"]))
    replace(model, certificate=certificate).save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    whole = file.read_bytes()
    asked = list(SAVED[name]["answers"])
    answers = model.predict(asked)
    rng = np.random.default_rng(0)
    before_record = whole.index(b'"record"')
    n_refused = 0
    for _ in range(150):
        raw = bytearray(whole)
        raw[rng.integers(before_record)] ^= 1 << rng.integers(8)
        file.write_bytes(raw)
        try:
            assert load(tmp_path / "model").predict(asked) == answers
        except ByheartError:
            n_refused += 1
    assert n_refused > 100


def test_every_fixture_is_tested() -> None:
    folders = {path.name for path in FIXTURES.iterdir() if path.is_dir()} - {"data"}
    assert folders == {*FIRST, *SAVED}
