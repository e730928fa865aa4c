"""What `byheart predict` prints, for people and for programs, and how it reads questions."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from .conftest import METHOD, Byheart, write_table


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
    for line in ("not json", '{"key": "capital of Peru", "key": "nowhere"}'):
        given(f"{line}\n")
        wrong = byheart("predict", folder, "--jsonl", "--json")
        assert (wrong.status, wrong.document["facts"]) == (4, {"line": 1})


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
