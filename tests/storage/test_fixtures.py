"""Folders saved by earlier versions load for ever. These files are never made again; new schemas add new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from byheart.pipeline import load

FIXTURES = Path(__file__).parent / "fixtures"

ANSWERS = {
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


@pytest.mark.parametrize("name", ANSWERS)
def test_a_folder_of_schema_1_loads_and_answers(name: str) -> None:
    model = load(FIXTURES / name)  # compares the weights with the certificate
    assert model.predict(list(ANSWERS[name])) == list(ANSWERS[name].values())
    assert model.certificate is not None
    assert model.certificate.holds
    assert model.certificate.size == model.size


def test_every_fixture_is_tested() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == set(ANSWERS)
