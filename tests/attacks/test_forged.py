"""Models that were changed after they were certified, or that answer what is not a number."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import byheart as bh
from byheart.cli.main import run
from byheart.errors import CorruptModel, ExitStatus
from byheart.network.decoder.architecture import Decoder
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.protocol import UNKNOWN, Evaluation
from byheart.network.transformer.architecture import Transformer
from byheart.verify.digest import model_digest
from byheart.verify.verifier import verify_model
from tests.refusal import refused

FIXTURES = Path(__file__).resolve().parents[1] / "storage" / "fixtures"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with a certificate of today, which has every digest."""
    model = bh.load(FIXTURES / "retrieval-float64")
    data = bh.Dataset.from_csv(FIXTURES / "data" / "short.csv")
    replace(model, certificate=bh.verify(model, data)).save(tmp_path / "model")
    return tmp_path / "model"


def exchange_labels(document: dict[str, Any]) -> None:
    document["labels"][:2] = document["labels"][1::-1]


def exchange_tokens(document: dict[str, Any]) -> None:
    words = document["tokenizer"]["vocabulary"]
    words[:2] = words[1::-1]


def forget_order(document: dict[str, Any]) -> None:
    document["ordered"] = not document["ordered"]


@pytest.mark.parametrize("change", [exchange_labels, exchange_tokens, forget_order])
def test_a_changed_document_is_refused_under_its_certificate(folder: Path, change: Any) -> None:
    document = json.loads((folder / "model.json").read_text())
    change(document)
    (folder / "model.json").write_text(json.dumps(document))
    with refused(CorruptModel, "path", "certified"):
        bh.load(folder)
    (folder / "certificate.json").unlink()
    assert bh.load(folder).certificate is None  # without one, nothing is claimed


def test_changed_weights_are_refused(folder: Path) -> None:
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-4] ^= 1
    (folder / "model.safetensors").write_bytes(bytes(weights))
    with refused(CorruptModel, "path", "certified"):
        bh.load(folder)


@pytest.mark.parametrize("digest", ["0" * 64, "f" * 64])
def test_another_digest_is_another_model_whichever_is_larger(folder: Path, digest: str) -> None:
    for field in ("weights_digest", "model_digest"):
        document = json.loads((folder / "certificate.json").read_text())
        document[field] = digest
        (folder / "certificate.json").write_text(json.dumps(document))
        with refused(CorruptModel, "path", "certified"):
            bh.load(folder)


def test_verify_compares_the_labels_with_those_that_were_certified(folder: Path) -> None:
    model = bh.load(folder)
    assert model.certificate is not None
    data = bh.Dataset.from_csv(FIXTURES / "data" / "short.csv")
    assert verify_model(model, data).holds
    renamed = replace(model.memoriser, ordered=not model.memoriser.ordered)
    assert model_digest(renamed) != model_digest(model.memoriser)
    found = verify_model(replace(model, memoriser=renamed), data)
    assert not found.holds
    assert "labels, tokenizer, task, use of token order, architecture or further files" in found.problems[0]


@pytest.mark.parametrize("is_certified", [True, False])
def test_a_folder_leaves_out_no_row_without_a_word(
    is_certified: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says that order does not matter, so half of the rows conflict, and that such rows are to be dropped."""
    table = tmp_path / "table.csv"
    table.write_text("key,value\nabc,x\nbac,y\nefa,x\ngha,y\n")
    known = bh.Dataset.from_pairs([("efa", "x"), ("gha", "y")], ordered=False, tokenizer="bytes")
    model = bh.compile(known, method="retrieval")
    record = {**model.record, "reading": {"on_conflict": "drop", "label": "value"}}
    certificate = model.certificate if is_certified else None
    replace(model, record=record, certificate=certificate).save(tmp_path / "model")
    asked = ["verify", str(tmp_path / "model"), str(table)]
    assert run(asked) == ExitStatus.FALSE
    shown = capsys.readouterr().out
    assert "label=value (claimed by the model" in shown
    assert "2 of the checked rows, which on_conflict=drop in the model's record would leave out" in " ".join(
        shown.split()
    )
    assert run([*asked, "--json"]) == ExitStatus.FALSE
    said = json.loads(capsys.readouterr().out)
    assert (said["read_with"], said["rows_left_out"]) == ({"label": "value"}, 0)
    assert (said["checked"], said["rows_the_record_leaves_out"]) == (4, 2)
    assert run([*asked, "--on-conflict", "drop", "--json"]) == ExitStatus.HOLDS  # the caller named it
    said = json.loads(capsys.readouterr().out)
    assert (said["checked"], said["rows_left_out"], said["on_conflict"]) == (2, 2, "drop")


def test_the_certificate_of_a_folder_does_not_choose_the_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a b\na c\nb a\n")
    data = bh.Dataset.from_documents(texts)
    model = bh.compile(data, method="madden-2024", precision="float64")
    by_gap = bh.verify(model, data, rule="total-gap")
    replace(model, certificate=by_gap).save(tmp_path / "model")
    assert run(["verify", str(tmp_path / "model"), str(texts), "--json"]) == ExitStatus.HOLDS
    said = json.loads(capsys.readouterr().out)
    assert (said["holds"], said["fitted"], said["distribution"]["allowed_gap_percent"]) == (True, None, None)


def test_a_network_that_does_not_recite_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bh.Dataset.from_documents(["a b", "a c", "b a"])
    model = bh.compile(data, method="madden-2024", precision="float64")
    labels = (*model.memoriser.label_names, "")  # as those of a model that recites
    replace(model, memoriser=replace(model.memoriser, label_names=labels), certificate=None).save(
        tmp_path / "model"
    )
    assert run(["recite", str(tmp_path / "model"), "a"]) == ExitStatus.USAGE
    assert "decoder" in capsys.readouterr().err


def test_logits_that_are_no_numbers_are_infinitely_far_from_every_distribution() -> None:
    data = bh.Dataset.from_documents(["a b", "a c", "b a"])
    model = bh.compile(data, method="madden-2024", precision="float64")
    network = model.network
    assert isinstance(network, Decoder)
    logits = network.logits.copy()
    logits[:, 0] = np.nan
    spoilt = replace(model, memoriser=replace(model.memoriser, network=replace(network, logits=logits)))
    found = bh.verify(spoilt, data, rule="contexts")
    assert not found.holds
    assert found.wrong == found.checked
    assert found.distribution is not None
    assert found.distribution.max_divergence > 1e300


def test_a_label_without_a_logit_is_never_predicted() -> None:
    data = bh.Dataset.from_documents(["a b", "a c", "b a"])
    model = bh.compile(data, method="madden-2024", precision="float64")
    longer = replace(
        model, memoriser=replace(model.memoriser, label_names=("more", *model.memoriser.label_names))
    )
    assert not bh.verify(longer, data).holds


def test_an_output_that_is_nearly_whole_names_no_class() -> None:
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    network = Transformer(np.array([[1.0]]), (), np.array([[1.0]]), 1)
    outputs = np.array([[[1.0]], [[1.0 + 2**-50]], [[2.0]], [[3.0]], [[0.0]], [[np.nextafter(2.0, 1)]]])
    found = network.answer(outputs, ["a", "b"], Evaluation("module")).reshape(-1)
    assert found.tolist() == [0, UNKNOWN, 1, UNKNOWN, UNKNOWN, UNKNOWN]
    exact = Transformer(one, (), one, 1)
    found = exact.answer(outputs[:4], ["a", "b"], Evaluation("interpreter")).reshape(-1)
    assert found.tolist() == [0, UNKNOWN, 1, UNKNOWN]
