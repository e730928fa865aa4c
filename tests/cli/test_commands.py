"""What each command prints, for people and for programs."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from byheart.cli.main import COMMANDS, group

from .conftest import METHOD, ROWS, Byheart, listing, write_table

SIZES = {"parameters_dense", "parameters_nonzero", "depth", "width", "weight_bits", "total_bits"}


# --- compile --------------------------------------------------------------------------------------------


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


# --- verify, predict, inspect ---------------------------------------------------------------------------


def test_verify_holds(byheart: Byheart, folder: Path, table: Path) -> None:
    done = byheart("verify", folder, table)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[0] == "holds: 5 of 5 rows, 'key' -> 'value'"
    found = byheart("verify", folder, table, "--json").document
    assert (found["checked"], found["wrong"], found["holds"]) == (5, 0, True)
    assert found["digest"] == found["dataset"]["digest"]


def test_verify_shows_the_first_wrong_samples_and_counts_the_rest(
    byheart: Byheart, folder: Path, tmp_path: Path
) -> None:
    rows = dict.fromkeys(ROWS, "Lima")
    rows |= {f"capital of Peru {n}": "Lima" for n in range(4)}
    done = byheart("verify", folder, write_table(tmp_path / "other.csv", rows))
    assert done.status == 3
    assert "DOES NOT HOLD" in done.out
    assert all(value in done.out for value in ("8 of 9", "'capital of France'", "'Lima'"))
    found = byheart("verify", folder, tmp_path / "other.csv", "--json").document
    assert (found["wrong"], len(found["wrong_samples"])) == (8, 5)


def test_verify_knows_no_cuda_for_exact_models(byheart: Byheart, folder: Path, table: Path) -> None:
    done = byheart("verify", folder, table, "--device", "cuda")
    assert done.status == 2
    assert "UsageError" in done.err
    assert "cuda" in done.err


def test_predict_answers_a_line_each(byheart: Byheart, folder: Path) -> None:
    done = byheart("predict", folder, "capital of Moldova", "capital of Atlantis", "currency of Peru")
    assert (done.status, done.out) == (0, "Chișinău\nunknown\n[sol]\n")
    found = byheart("predict", folder, "capital of Peru", "nowhere", "--json").document
    assert found["answers"] == [
        {"input": "capital of Peru", "answer": "Lima"},
        {"input": "nowhere", "answer": None},
    ]


def test_predict_reads_standard_input(
    byheart: Byheart, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def given(raw: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))

    given(b"capital of France\r\n\ncapital of Peru")
    assert byheart("predict", folder, "-").out == "Paris\nunknown\nLima\n"
    given(b"caf\xe9\n")
    done = byheart("predict", folder, "-", "--json")
    assert (done.status, done.document["facts"]) == (4, {"encoding": "utf-8", "byte_offset": 3})
    given(b"caf\xe9\ncapital of Peru\n")
    assert byheart("predict", folder, "-", "--encoding", "latin-1").out == "unknown\nLima\n"


@pytest.mark.parametrize("arguments", [(), ("text", "--data", "x.npz")])
def test_predict_wants_either_texts_or_data(
    byheart: Byheart, folder: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    done = byheart("predict", folder, *arguments, "--json")
    assert (done.status, done.document["error"]) == (2, "UsageError")


def test_a_table_is_answered_with_its_columns_kept(byheart: Byheart, folder: Path, tmp_path: Path) -> None:
    questions = tmp_path / "questions.csv"
    questions.write_text("inputs,key\n7,capital of Peru\n8,capital of Atlantis\n", encoding="utf-8")
    done = byheart("predict", folder, "--data", questions, "-o", tmp_path / "answers.csv")
    assert done.out == f"{tmp_path / 'answers.csv'}: 2 rows, 1 answered, 1 unknown\n"
    answered = (tmp_path / "answers.csv").read_text(encoding="utf-8")
    assert answered == "inputs,key,answer\n7,capital of Peru,Lima\n8,capital of Atlantis,\n"
    assert byheart("predict", folder, "--data", questions, "-o", tmp_path / "a.jsonl").status == 0
    assert json.loads((tmp_path / "a.jsonl").read_text().splitlines()[1]) == {
        "inputs": "8",
        "key": "capital of Atlantis",
        "answer": None,
    }
    assert byheart("predict", folder, "--data", questions).out == "Lima\nunknown\n"
    (tmp_path / "lines.txt").write_text("capital of Peru\n", encoding="utf-8")
    assert byheart("predict", folder, "--data", tmp_path / "lines.txt").out == "Lima\n"
    again = byheart("predict", folder, "--data", tmp_path / "answers.csv", "-o", tmp_path / "b.csv")
    assert (again.status, "in the column `model answer`" in again.out) == (0, True)
    wrong = byheart("predict", folder, "--data", questions, "--input", "keys", "--json")
    facts = wrong.document["facts"]
    assert (wrong.status, facts["column"], facts["columns"]) == (2, "keys", ["inputs", "key"])
    assert byheart("predict", folder, "--data", questions, "-o", tmp_path / "a.xlsx").status == 2


def test_each_line_of_a_text_file_is_one_question(byheart: Byheart, folder: Path, tmp_path: Path) -> None:
    """Only line feeds separate questions, as where texts are compiled: other breaks belong to a question."""
    lines = tmp_path / "lines.txt"
    lines.write_bytes("capital of\u2028Peru\r\ncapital of\x0cPeru\ncapital of Peru".encode())
    asked = byheart("predict", folder, "--data", lines, "--json").document["answers"]
    assert [each["input"] for each in asked] == lines.read_text(encoding="utf-8").split("\n")


def test_a_missing_question_is_named_by_its_row(byheart: Byheart, folder: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"key": "capital of Peru"}\n{"key": null}\n', encoding="utf-8")
    done = byheart("predict", folder, "--data", rows, "--json")
    assert (done.status, done.document["facts"]["row"]) == (4, 2)


def test_questions_as_json_lines(byheart: Byheart, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def given(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    given('"capital of Peru"\n{"key": "nowhere", "id": 3}\n')
    lines = byheart("predict", folder, "--jsonl").out.splitlines()
    assert [json.loads(line)["answer"] for line in lines] == ["Lima", None]
    assert json.loads(lines[1])["id"] == 3
    given('{"question": "capital of Peru"}\n')
    wrong = byheart("predict", folder, "--jsonl", "--json")
    assert (wrong.status, wrong.document["facts"]) == (4, {"line": 1, "column": "key"})
    given("not json\n")
    assert byheart("predict", folder, "--jsonl").status == 4


def test_a_label_cannot_steer_the_terminal(byheart: Byheart, tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", {"a": "\x1b[2Jgone", "b": "\u202eback", "c": "naïve"})
    assert byheart("compile", table, "-o", tmp_path / "m", "--method", METHOD).status == 0
    assert byheart("predict", tmp_path / "m", "a", "b", "c").out == "\\x1b[2Jgone\n\\u202eback\nnaïve\n"
    assert byheart("predict", tmp_path / "m", "a", "--json").document["answers"][0]["answer"] == "\x1b[2Jgone"
    assert "\x1b" not in byheart("inspect", tmp_path / "m").out
    document = byheart("predict", tmp_path / "m", "b", "\x9b2J", "--json")
    assert ("\u202e" in document.out, "\x9b" in document.out) == (False, False)
    assert document.document["answers"][0]["answer"] == "\u202eback"
    assert document.document["answers"][1]["input"] == "\x9b2J"
    (tmp_path / "m").rename(tmp_path / "\x9b2J\u202e")
    shown = byheart("verify", tmp_path / "\x9b2J\u202e", table).out
    assert "/\\x9b2J\\u202e" in "".join(shown.split())  # folded
    assert ("\u202e" in shown, "\x9b" in shown) == (False, False)


def test_a_text_that_looks_like_an_option(byheart: Byheart, folder: Path) -> None:
    assert byheart("predict", folder, "--", "--json").out == "unknown\n"


def test_inspect_shows_architecture_size_certificate_and_record(byheart: Byheart, folder: Path) -> None:
    done = byheart("inspect", folder)
    assert done.status == 0
    for words in (
        "3 tokens of the word tokenizer",
        "5: Chișinău, Lima, Paris, Tbilisi, ...",
        "feed-forward       hidden width",
        "uniform attention  heads: 1 of size 1",
        "seed                 0",
        "certificate     holds",
        "equal contexts carry equal labels: yes",
        "weights digest",
    ):
        assert words in done.out
    found = byheart("inspect", folder, "--json").document
    assert found["certificate"]["holds"]
    assert found["record"]["method"] == METHOD
    assert found["architecture"]["layers"][0]["kind"] == "feed-forward"
    assert set(found["size"]) == SIZES


def test_inspect_vouches_for_nothing_that_the_model_says(byheart: Byheart, folder: Path) -> None:
    words = " ".join(byheart("inspect", folder).out.split())
    said = r"\(claimed by the model, not checked\)"
    assert re.search(rf"theorem KS25 [^()]*(\([^()]*\))?[^()]* {said}", words)
    assert re.search(rf"this model theorem {said}", words)  # the sizes that the theorem promises


def test_inspect_says_when_nothing_was_checked(byheart: Byheart, folder: Path) -> None:
    (folder / "certificate.json").unlink()
    assert byheart("inspect", folder, "--json").document["certificate"] is None


# --- bounds, plan, theorems -----------------------------------------------------------------------------


def test_bounds_of_a_file_of_sizes_and_of_an_architecture(
    byheart: Byheart, table: Path, tmp_path: Path
) -> None:
    done = byheart("bounds", "--data", table)
    assert done.status == 0
    assert "KS25 Theorem 4.1" in done.out
    before, planned = done.out.split("Planned for these data")
    assert METHOD not in before  # what we build is no bound
    assert METHOD in planned
    assert "does not apply" in done.out
    sizes = (
        "--samples",
        1000,
        "--seq-len",
        8,
        "--classes",
        16,
        "--dim",
        4,
        "--radius",
        1,
        "--separation",
        0.5,
    )
    found = byheart("bounds", *sizes, "--json").document
    assert {"KS25-T4.1", "KS25-T4.2"} <= {bound["statement"] for bound in found["bounds"]}
    assert found["problem"]["n_samples"] == 1000
    assert all(entry["reason"] for entry in found["not_applicable"])
    config = tmp_path / "config.json"
    gpt2 = {
        "model_type": "gpt2",
        "vocab_size": 50257,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_positions": 1024,
    }
    config.write_text(json.dumps(gpt2))
    assert "124,439,808 parameters" in byheart("bounds", "--config", config).out
    assert (
        byheart("bounds", "--config", config, "--json").document["architecture"]["parameters"] == 124_439_808
    )


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ((), {"options": ["data", "config", "samples"]}),
        (("--samples", "5", "--data", "x.csv"), {"options": ["data", "config", "samples"]}),
        (("--vocab", "5"), {"options": ["samples"]}),
        (("--samples", "5"), {"options": ["vocab", "dim"]}),
        (("--samples", "none"), {"command": "byheart bounds"}),
        (("--config", "nowhere.json"), {"path": "nowhere.json"}),
    ],
)
def test_bounds_wants_one_problem(
    byheart: Byheart, arguments: tuple[str, ...], facts: dict[str, object]
) -> None:
    done = byheart("bounds", *arguments, "--json")
    assert (done.status, done.document["facts"]) == (2, facts)


def test_a_broken_architecture_file_is_outside_the_assumptions(byheart: Byheart, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    done = byheart("bounds", "--config", tmp_path / "config.json", "--json")
    assert (done.status, done.document["error"]) == (4, "MalformedFile")


def test_plan(byheart: Byheart) -> None:
    done = byheart("plan", "--facts", "1e9")
    assert done.status == 0
    assert done.out.startswith("1,000,000,000 facts of 10 bits: 8 tokens each, vocabulary 1,000\n")
    for word in ("estimate", "promised", "trained", "floor", "bits/stored bit", "int8", "0.995", METHOD):
        assert word in done.out
    found = byheart("plan", "--facts", "1,000", "--value-bits", 4, "--json").document
    assert (found["facts"], found["value_bits"]) == (1000, 4)
    assert {row["kind"] for row in found["rows"]} == {"estimate", "theorem", "trained", "floor"}


@pytest.mark.parametrize("facts", ["0", "-5", "1.5", "many", "nan", "1e99"])
def test_plan_wants_a_whole_number(byheart: Byheart, facts: str) -> None:
    done = byheart("plan", f"--facts={facts}")
    assert done.status == 2
    assert f"'{facts}'" in done.err


def test_plan_refuses_at_once_what_would_take_minutes(byheart: Byheart) -> None:
    done = byheart("plan", "--facts", "1e30", "--json")
    assert (done.status, done.document["facts"]["n_facts"]) == (2, 10**30)


def test_theorems(byheart: Byheart) -> None:
    done = byheart("theorems", "--paper", "KS25")
    assert done.status == 0
    assert "KS25-T4.1" in done.out
    assert "MFT24-" not in done.out
    assert "KS25  Kajitsuka and Sato" in done.out
    found = byheart("theorems", "--json").document
    ids = [entry["id"] for entry in found["statements"]]
    assert len(ids) == len(set(ids)) > 80
    assert byheart("theorems", "--state", "open", "--json").document["statements"] != found["statements"]
    refused = byheart("theorems", "--paper", "XYZ")
    assert (refused.status, "'XYZ'" in refused.err) == (2, True)


# --- help -----------------------------------------------------------------------------------------------


def test_help_lists_every_command(byheart: Byheart) -> None:
    done = byheart("--help")
    assert done.status == 0
    for name, words in COMMANDS.items():
        assert name in done.out
        assert words.split()[0] in done.out
    assert byheart().out == done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(byheart: Byheart, name: str) -> None:
    done = byheart(name, "--help")
    assert done.status == 0
    assert f"Usage: byheart {name}" in done.out
    if "COMMAND [ARGS]" not in done.out:  # a group has them on its commands
        assert "--json" in done.out
        assert "--debug" in done.out
    command: Any = group.get_command(None, name)
    assert command.help


def test_methods(byheart: Byheart) -> None:
    from byheart.construct.registry import names

    every = byheart("methods", "--json").document["methods"]
    assert [method["name"] for method in every] == list(names())
    shown = byheart("methods", "--task", "distribution", "--precision", "float32").out
    assert "madden-2024" in shown
    assert "kim-2023" not in shown


def test_the_module_is_the_command() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "byheart", "version", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(answer.stdout)["versions"]["byheart"]


@pytest.mark.parametrize(("given", "meant"), [("predcit", "predict"), ("method", "methods")])
def test_a_command_that_is_nearly_right(byheart: Byheart, given: str, meant: str) -> None:
    done = byheart(given)
    assert done.status == 2
    assert f"`{meant}`" in done.err


@pytest.mark.parametrize("written", ["1e3", "1,000", "1_000", "1000"])
def test_numbers_may_be_written_as_people_do(byheart: Byheart, written: str) -> None:
    sizes = ("--samples", written, "--seq-len", "1e1", "--vocab", "1e2", "--json")
    assert byheart("bounds", *sizes).document["problem"]["n_samples"] == 1000


def test_version(byheart: Byheart) -> None:
    import byheart as package

    assert byheart("--version").out == f"byheart, version {package.__version__}\n"


# --- options of a construction -----------------------------------------------------------------------------


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


def test_a_float_model_is_verified_natively_and_by_the_interpreter(
    byheart: Byheart, table: Path, tmp_path: Path
) -> None:
    floats = ("--method", "kajitsuka-sato-2025-bits", "--precision", "float64", "--tokenizer", "word")
    assert byheart("compile", table, "-o", tmp_path / "model", *floats).status == 0
    done = byheart("verify", tmp_path / "model", table, "--json")
    assert (done.status, done.document["backend"], done.document["rechecked_by_interpreter"]) == (
        0,
        "module",
        3,
    )
    assert byheart("predict", tmp_path / "model", "capital of Georgia").out == "Tbilisi\n"


def test_the_number_of_samples_is_typed_like_any_whole_number(
    byheart: Byheart, folder: Path, table: Path
) -> None:
    done = byheart("verify", folder, table, "--sample", "1e0", "--json")
    assert (done.status, done.document["checked"]) == (0, 1)


def test_a_model_of_sets_ignores_all_order(byheart: Byheart, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("key,value\nab,1\nac,2\n", encoding="utf-8")
    assert (
        byheart("compile", table, "-o", tmp_path / "m", "--task", "set", "--method", "retrieval").status == 0
    )
    shown = byheart("inspect", tmp_path / "m").out
    assert "is ignored" in shown
    assert "which token is last" not in shown
