"""What `byheart compile` prints, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from .conftest import METHOD, Byheart, listing

SIZES = {"parameters_dense", "parameters_nonzero", "depth", "width", "weight_bits", "total_bits"}


def test_compile_prints_a_table_and_saves_a_model(byheart: Byheart, table: Path, tmp_path: Path) -> None:
    done = byheart("compile", table, "-o", tmp_path / "model", "--method", METHOD, "--tokenizer", "word")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"{table}: memorised, verified and saved in {tmp_path / 'model'}\n")
    for words in (
        "kajitsuka-sato-2025 (next-token, exact)",
        "KS25 Theorem 4.1",
        "5 samples of up to 3 tokens (vocabulary 7); 5 classes",
        "5 of 5 rows right, in exact arithmetic",
        "compile ",
        "depth",
        "width",
        "parameters, dense",
        "parameters, non-zero",
        "largest weight, bits",
        "bits to store them",
        "KS25 Remark 4.4",
        "label bits           11.61",
        "bits per parameter",
        "bits per stored bit",
    ):
        assert words in done.out
    assert sorted(listing(tmp_path / "model")) == ["certificate.json", "model.json", "model.safetensors"]
    assert byheart("predict", tmp_path / "model", "capital of Georgia").out == "Tbilisi\n"


def test_compile_json_has_every_promised_key(byheart: Byheart, table: Path, tmp_path: Path) -> None:
    done = byheart("compile", table, "-o", tmp_path / "model", "--method", METHOD, "--seed", 3, "--json")
    found = done.document
    assert set(found) >= {
        "schema",
        "method",
        "task",
        "precision",
        "dataset",
        "size",
        "label_bits",
        "bits_per_parameter",
        "bits_per_stored_bit",
        "seconds",
        "verified",
        "bounds",
        "path",
    }
    assert set(found["dataset"]) >= {"n_samples", "seq_len", "n_classes", "vocab", "digest"}
    assert set(found["size"]) == SIZES
    assert set(found["seconds"]) == {"compile", "verify"}
    assert (found["verified"]["checked"], found["verified"]["wrong"]) == (5, 0)
    assert (found["method"], found["task"], found["precision"], found["seed"]) == (
        METHOD,
        "next-token",
        "exact",
        3,
    )
    assert found["bits_per_parameter"] == found["label_bits"] / found["size"]["parameters_dense"]
    assert {"KS25-T4.1", "KS25-R4.4"} <= {bound["statement"] for bound in found["bounds"]}
    assert found["path"] == str(tmp_path / "model")


def test_auto_chooses_something_that_works(byheart: Byheart, table: Path, tmp_path: Path) -> None:
    done = byheart("compile", table, "-o", tmp_path / "model", "--json")
    assert done.status == 0
    assert done.document["verified"]["wrong"] == 0


def test_compile_reads_as_it_is_told_and_verify_remembers(byheart: Byheart, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("city,country\nParis,France\nLima,Peru\nCusco,Peru\n", encoding="utf-8")
    model = tmp_path / "model"
    reading = ("--input", "country", "--label", "city", "--tokenizer", "bytes", "--unordered")
    done = byheart(
        "compile", table, "-o", model, "--method", METHOD, *reading, "--on-conflict", "last", "--json"
    )
    assert (done.status, done.document["dataset"]["n_samples"]) == (0, 2)
    assert byheart("predict", model, "Peru", "ureP").out == "Cusco\nunknown\n"
    assert byheart("predict", model, "erPu").out == "Cusco\n"  # the same letters and the same last one
    checked = byheart("verify", model, table, "--on-conflict", "last", "--json")
    assert checked.status == 0
    assert checked.document["columns"] == ["country", "city"]
    assert (checked.document["rows_left_out"], checked.document["on_conflict"]) == (1, "last")
    assert byheart("verify", model, table, "--on-conflict", "first").status == 3
    record = json.loads((model / "model.json").read_bytes())["record"]
    assert record["reading"] == {
        "file": "t.csv",
        "input": "country",
        "label": "city",
        "on_conflict": "last",
        "tokenizer": "bytes",
        "recite": False,
        "empty_labels": "error",
        "delimiter": None,
        "encoding": None,
        "empty_inputs": "error",
        "malformed_rows": "error",
        "non_finite": "error",
        "max_tokens": None,
    }


def test_vectors_and_ids_from_npz(byheart: Byheart, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs = {"vectors": rng.standard_normal((6, 2, 2)), "ids": rng.permutation(12).reshape(6, 2)}
    for name, array in inputs.items():
        data, model = tmp_path / f"{name}.npz", tmp_path / name
        np.savez(data, inputs=array, labels=np.arange(6) % 3)
        assert byheart("compile", data, "-o", model, "--method", METHOD).status == 0
        assert byheart("verify", model, data).status == 0
        assert byheart("predict", model, "--data", data).out.split() == ["0", "1", "2", "0", "1", "2"]
        assert byheart("inspect", model).status == 0
    asked = byheart("predict", tmp_path / "ids", " ".join(map(str, inputs["ids"][1])), "0 0 0")
    assert asked.out.split() == ["1", "unknown"]
    refused = byheart("predict", tmp_path / "ids", "one two", "--json")
    assert (refused.status, refused.document["facts"]) == (2, {"text": "one two"})
    refused = byheart("predict", tmp_path / "vectors", "1 2", "--json")
    assert (refused.status, refused.document["facts"]) == (2, {"shape": "(n_samples, 2, 2)"})


def test_compile_passes_settings_to_the_construction(byheart: Byheart, table: Path, tmp_path: Path) -> None:
    bits = ("--method", "kajitsuka-sato-2025-bits", "--set", "B=1")
    done = byheart("compile", table, "-o", tmp_path / "model", *bits, "--json")
    assert (done.status, done.document["verified"]["wrong"]) == (0, 0)
    record = json.loads((tmp_path / "model" / "model.json").read_text())
    assert '"fields_per_word": 1' in json.dumps(record)


@pytest.mark.parametrize("setting", ["B", "=1", "method=x", "a b=1"])
def test_a_setting_that_is_none_is_refused(
    byheart: Byheart, table: Path, tmp_path: Path, setting: str
) -> None:
    done = byheart("compile", table, "-o", tmp_path / "model", "--set", setting, "--json")
    assert (done.status, done.document["facts"]) == (2, {"setting": setting})
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "asked",
    [
        ("--set", "reject_bits=2"),
        ("-q", "--set", "B=1"),
        ("--method", "kajitsuka-sato-2025-bits", "--set", "B=1"),
    ],
)
def test_a_setting_is_noted_only_if_it_changes_the_choice_of_auto(
    byheart: Byheart, table: Path, tmp_path: Path, asked: tuple[str, ...]
) -> None:
    assert byheart("compile", table, "-o", tmp_path / "model", *asked).err == ""
    noted = byheart("compile", table, "-o", tmp_path / "model", "--set", "B=1", "--json")
    assert noted.document["method"] == "kajitsuka-sato-2025-bits"
    assert (noted.err.count("\n"), noted.document["method"] in noted.err) == (1, True)
