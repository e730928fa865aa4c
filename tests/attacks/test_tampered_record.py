"""What a record says, which no digest covers, is read as data from anyone before a command acts on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import byheart as bh
from byheart.documents.forgetting import forget_facts
from byheart.errors import CorruptModel
from byheart.model import Model
from tests.refusal import refused


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("facts") / "facts.csv"
    path.write_text("key,value\nab,x\nac,y\nbc,z\n")
    return path


@pytest.fixture(scope="module")
def model(data: Path) -> Model:
    return bh.compile(data, method="retrieval", reject_bits=4)


def tampered(model: Model, **options: Any) -> Model:
    record = {**model.record, "options": {**model.record["options"], **options}}
    return replace(model, record=record)


def test_what_forgetting_writes_was_verified(model: Model, data: Path) -> None:
    without = forget_facts(model, data, ["ab"]).model
    assert without.certificate is not None
    assert without.certificate.holds


@pytest.mark.parametrize(
    "options",
    [
        {"check": False},
        {"method": "auto"},
        {"seed": 1},
        {"data": "elsewhere.csv"},
        {"progress": 1},
        {"task": "sequence"},
        {"tokenizer": "word"},
        {"no_such_option": 1},
        {"reject_bits": "many"},
        {"reject_bits": -1},
        {"reject_bits": 10**40},
        {"reject_bits": [1]},
    ],
)
def test_forgetting_refuses_options_that_compile_does_not_record(
    model: Model, data: Path, options: dict[str, Any]
) -> None:
    with refused(CorruptModel, "file", "problem"):
        forget_facts(tampered(model, **options), data, ["ab"])


@pytest.mark.parametrize("method", ["auto", "no-such-method", 1, None, ["retrieval"]])
def test_forgetting_refuses_a_method_that_nobody_offers(model: Model, data: Path, method: Any) -> None:
    with refused(CorruptModel, "file", "problem"):
        forget_facts(replace(model, record={**model.record, "method": method}), data, ["ab"])
