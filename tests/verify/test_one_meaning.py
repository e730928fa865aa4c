"""`holds` has one meaning: every row of the data given, read as the checker said, got its right label."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import byheart as bh
from byheart.cli.main import run
from byheart.errors import ByheartError, ExitStatus
from byheart.verify.certificate import Certificate

CAPITALS = Path(__file__).parents[2] / "examples" / "capitals.csv"


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    status = run([*map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)


def first_line(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    run([*map(str, arguments)])
    return capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("hidden_width", "options"), [pytest.param(2, {"gap": 0.9}, marks=pytest.mark.slow), (6, {})]
)
def test_a_share_of_no_entropy_is_nothing(hidden_width: int, options: dict[str, float]) -> None:
    """400 times six lines and once each of twenty others: what follows is certain, so the entropy is 0."""
    lines = [f"k{i} w{i}" for i in range(6)] * 400 + [f"k{i} w{i}" for i in range(6, 26)]
    texts = bh.Dataset.from_documents(lines, tokenizer="word")
    try:
        model = bh.compile(texts, method="madden-2024", solver="convex", hidden_width=hidden_width, **options)
    except ByheartError:
        return  # refused, which is honest
    assert model.certificate is not None
    assert (model.certificate.wrong, model.certificate.holds) == (0, True)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A file of a frequent context and twelve rare ones, and a model of one neuron, which the total gap alone finds good."""
    folder, rng = tmp_path_factory.mktemp("fitted"), random.Random(0)
    lines = [f"x w{rng.randrange(20)}" for _ in range(1800)] + [f"q{i} w{i}" for i in range(12)]
    (folder / "texts.txt").write_text("\n".join(lines))
    model = bh.compile(folder / "texts.txt", method="madden-2024", solver="convex", hidden_width=1)
    model.save(folder / "model")
    return folder / "model", folder / "texts.txt"


def test_a_model_that_meets_the_total_gap_is_fitted_and_does_not_hold(
    fitted: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    certificate = bh.load(fitted[0]).certificate
    assert certificate is not None
    assert (certificate.verdict, certificate.holds, certificate.fitted) == ("fitted", False, True)
    status, found = run_json(capsys, "verify", *fitted)
    assert (status, found["holds"], found["fitted"], found["wrong"]) == (ExitStatus.FALSE, False, None, 12)
    status, found = run_json(capsys, "verify", *fitted, "--rule", "total-gap")
    assert (status, found["verdict"], found["holds"], found["fitted"]) == (0, "fitted", False, True)
    assert first_line(capsys, "verify", *fitted, "--rule", "total-gap").startswith("fitted: 1 of 13 contexts")


def test_the_headline_of_a_fitted_model_does_not_say_memorised(
    fitted: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["compile", fitted[1], "-o", tmp_path / "m", "--method", "madden-2024", "--set", "solver=convex"]
    line = first_line(capsys, *asked, "--set", "hidden_width=1")
    assert "fitted, not memorised" in line
    status, found = run_json(capsys, *asked, "--set", "hidden_width=1")
    assert (status, found["verdict"], found["holds"], found["fitted"]) == (0, "fitted", False, True)


def test_an_older_certificate_that_held_by_the_total_gap_is_read_as_fitted(fitted: tuple[Path, Path]) -> None:
    certificate = bh.load(fitted[0]).certificate
    assert certificate is not None
    old = {**certificate.to_json(), "holds": True, "problems": []}
    del old["fitted"]
    again = Certificate.from_json(old)
    assert (again.verdict, again.holds, again.fitted) == ("fitted", False, True)


def test_rows_that_the_caller_did_not_leave_out_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tokenizer of the model's own that tells one row from all others, and a rule that drops what it does not tell apart."""
    pytest.importorskip("tokenizers")
    split = {"type": "Split", "pattern": {"Regex": "capital of (?!Peru).*"}, "behavior": "Isolated"}
    words = {"type": "WordLevel", "vocab": {"capital of Peru": 0, "x": 1}, "unk_token": "x"}
    parts = ("normalizer", "post_processor", "decoder", "truncation", "padding")
    document = {
        "version": "1.0",
        "added_tokens": [],
        **dict.fromkeys(parts),
        "pre_tokenizer": {**split, "invert": False},
        "model": words,
    }
    (tmp_path / "tk.json").write_text(json.dumps(document))
    model = tmp_path / "model"
    reading = ("--tokenizer", tmp_path / "tk.json", "--on-conflict", "drop")
    status, built = run_json(capsys, "compile", CAPITALS, *reading, "-o", model)
    assert (status, built["verified"]["rows_left_out"]) == (0, 155)
    status, found = run_json(capsys, "verify", model, CAPITALS)
    assert (status, found["holds"], found["checked"]) == (ExitStatus.FALSE, False, 156)
    assert found["rows_the_record_leaves_out"] == 155
    line = first_line(capsys, "verify", model, CAPITALS)
    assert line == "DOES NOT HOLD: 1 of 156 rows right, 'key' -> 'value'"
    status, found = run_json(capsys, "verify", model, CAPITALS, "--on-conflict", "drop")
    assert (status, found["holds"], found["checked"], found["rows_left_out"]) == (0, True, 1, 155)


@pytest.mark.parametrize("is_certified", [True, False])
def test_columns_that_the_model_names_come_first(
    is_certified: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = CAPITALS.read_text(encoding="utf-8").splitlines()[:20]
    table, model = tmp_path / "three.csv", tmp_path / "model"
    table.write_text("\n".join([rows[0] + ",kind", *(row + ",city" for row in rows[1:])]), encoding="utf-8")
    assert run(["compile", str(table), "--label", "kind", "-o", str(model)]) == 0
    if not is_certified:
        (model / "certificate.json").unlink()
    line = first_line(capsys, "verify", model, table)
    assert line == "the model chose the columns: 'key' -> 'kind', not the usual 'key' -> 'value'"
    _, found = run_json(capsys, "verify", model, table)
    assert (found["columns"], found["columns_named_by"]) == (["key", "kind"], "model")
    assert first_line(capsys, "verify", model, table, "--label", "kind") == (
        "holds: 19 of 19 rows, 'key' -> 'kind'"
    )
    status, found = run_json(capsys, "verify", model, table, "--label", "value")
    assert (status, found["wrong"]) == (ExitStatus.FALSE, 19)


def test_the_usual_columns_are_named_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", str(CAPITALS), "-o", str(tmp_path / "m")]) == 0
    assert first_line(capsys, "verify", tmp_path / "m", CAPITALS) == (
        "holds: 156 of 156 rows, 'key' -> 'value'"
    )
    table = tmp_path / "two.csv"
    table.write_text("country,city\nPeru,Lima\nKenya,Nairobi\n")
    reading = ("--input", "country", "--label", "city")
    assert run(["compile", str(table), "-o", str(tmp_path / "m"), *reading]) == 0
    _, found = run_json(capsys, "verify", tmp_path / "m", table)  # which other two columns could be meant?
    assert (found["columns"], found["columns_named_by"]) == (["country", "city"], "usual")


def test_a_column_named_next_token_holds_labels_of_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same two columns as in a text to recite; what was counted depends on how the file was read."""
    table, texts = tmp_path / "t.jsonl", tmp_path / "texts.jsonl"
    for file, rows in (
        (table, [{"text": key, "next token": key.upper()} for key in "abc"]),
        (texts, [{"text": "the cat sat on the mat"}]),
    ):
        file.write_text("\n".join(map(json.dumps, rows)))
    reading = {
        table: ("--input", "text", "--label", "next token"),
        texts: ("--recite", "--method", "retrieval"),
    }
    for file, options in reading.items():
        unit = "row" if file == table else "context"
        model, other = tmp_path / f"model of {file.stem}", tmp_path / f"other {file.name}"
        assert run(["compile", str(file), "-o", str(model), *options]) == 0
        other.write_text(file.read_text().replace('"C"', '"A"').replace("mat", "cat"))
        _, found = run_json(capsys, "verify", model, other)
        assert (found["columns"], found["unit"]) == (["text", "next token"], unit)
        said = f"of {found['checked']} {unit}s"
        assert any(said in problem for problem in found["problems"])
        assert said in first_line(capsys, "verify", model, other)


def test_python_leaves_out_no_row_for_a_model(tmp_path: Path) -> None:
    from byheart.storage.data_source import read_like

    table = tmp_path / "t.csv"
    table.write_text("key,value\na,x\nb,y\nb,z\n")
    model = bh.compile(table, on_conflict="first")
    assert model.certificate is not None
    assert (model.certificate.rows_left_out, model.certificate.on_conflict) == (1, "first")
    assert not bh.verify(model, read_like(model, table)).holds
    assert bh.verify(model, read_like(model, table, on_conflict="first")).holds


def test_what_is_neither_right_nor_fitted_is_never_returned() -> None:
    lines = [f"x w{i}" for i in range(20)] * 3 + [f"q{i} w{i}" for i in range(12)]
    with pytest.raises(ByheartError):
        bh.compile(
            bh.Dataset.from_documents(lines, tokenizer="word"),
            method="madden-2024",
            solver="convex",
            hidden_width=1,
            gap=0.5,
        )


def forged_reading(folder: Path, **reading: str) -> None:
    """Change what the record of a model says about how its data are read, and remove its certificate."""
    (folder / "certificate.json").unlink(missing_ok=True)
    document = json.loads((folder / "model.json").read_bytes())
    document["record"]["reading"].update(reading)
    (folder / "model.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    "encoding", ["raw_unicode_escape", "unicode_escape", "utf-7", "punycode", "hz", "none"]
)
def test_a_record_chooses_no_encoding_that_hides_rows(
    encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`\\u0022` was read as a quotation mark, so that the row break was part of a key: "holds: 3 of 3 rows" of four."""
    three, four, model = tmp_path / "three.csv", tmp_path / "four.csv", tmp_path / "model"
    three.write_text('key,value\na,1\n"b,2\nc",3\nd,4\n')
    four.write_text("key,value\na,1\n\\u0022b,2\nc\\u0022,3\nd,4\n")
    assert run(["compile", str(three), "-o", str(model)]) == 0
    forged_reading(model, encoding=encoding)
    status, found = run_json(capsys, "verify", model, four)
    assert (status, "checked" in found) == (ExitStatus.FALSE, False)


def test_an_encoding_that_the_model_names_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model knew the labels of `cafÃ©` only, and the verdict about a file of `café` was "holds"."""
    table, garbled, plain, model = (tmp_path / name for name in ("t.csv", "garbled.csv", "plain.csv", "m"))
    table.write_text("key,value\ncafé,thé\nnaïve,été\n", encoding="utf-8")
    garbled.write_text(table.read_bytes().decode("latin-1"), encoding="utf-8")
    plain.write_text("key,value\na,1\nb,2\n")
    assert run(["compile", str(garbled), "-o", str(model)]) == 0
    forged_reading(model, encoding="latin-1")
    status, found = run_json(capsys, "verify", model, table)
    assert (status, found["holds"], found["encoding_named_by"]) == (0, True, "model")
    assert first_line(capsys, "verify", model, table) == (
        "the model chose the encoding: latin-1, not the usual utf-8"
    )
    status, found = run_json(capsys, "verify", model, table, "--encoding", "utf-8")
    assert (status, found["encoding_named_by"]) == (ExitStatus.FALSE, "usual")
    _, found = run_json(capsys, "verify", model, table, "--encoding", "latin-1")
    assert (found["holds"], found["encoding_named_by"]) == (True, "caller")
    _, found = run_json(capsys, "verify", model, plain)  # these bytes are the same text in UTF-8
    assert found["encoding_named_by"] == "usual"
    table.write_bytes("key,value\ncafé,thé\n".encode("latin-1"))  # which is not UTF-8
    _, found = run_json(capsys, "verify", model, table)
    assert found["encoding_named_by"] == "model"


def test_a_delimiter_that_the_model_names_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The header decides nothing if it can be read with either delimiter."""
    table, model = tmp_path / "t.csv", tmp_path / "m"
    table.write_text("key,value;key;value\na,1;b;2\n")
    with_other = ("--delimiter", ";", "--input", "key")
    assert run(["compile", str(table), "-o", str(model), *with_other]) == 0
    assert (
        first_line(capsys, "verify", model, table) == "the model chose the delimiter: ';', not the usual ','"
    )
    _, found = run_json(capsys, "verify", model, table)
    assert (found["delimiter_named_by"], found["columns_named_by"]) == ("model", "usual")
    _, found = run_json(capsys, "verify", model, table, "--delimiter", ";")
    assert (found["holds"], found["delimiter_named_by"]) == (True, "caller")
