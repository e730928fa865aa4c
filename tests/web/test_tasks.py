"""What the tasks of a worker show: weights of any size, the first rows of a file, and questions to start with."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

import byheart as bh
from byheart.data.tables import READERS
from byheart.errors import UsageError
from byheart.process.progress import silent
from byheart.web import tasks
from byheart.web.context import Context
from byheart.web.examination import PREVIEW_CHARS, PREVIEW_ROWS, preview
from byheart.web.overview import plan_facts
from byheart.web.tasks import compile_data_file, list_examples, predict_file
from byheart.web.weights import _as_float
from byheart.web.worker import describe_error
from tests.refusal import refused


@pytest.mark.parametrize("value", [Fraction(2**2000), Fraction(-(2**2000), 3)])
def test_a_weight_that_is_too_large_for_a_float_is_shown_as_a_large_one(value: Fraction) -> None:
    shown = _as_float(value)
    assert math.isfinite(shown)
    assert (shown > 0) == (value > 0)
    assert abs(shown) > 1e300


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_long_cell_is_cut_and_its_rest_is_no_row(quote: str, tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text(f"key,value\n{quote}{'x' * 3 * PREVIEW_CHARS}{quote},1\nb,2\n")
    assert preview(path)["rows"] == [["x" * PREVIEW_CHARS, "1"], ["b", "2"]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("quotes.tsv", 'key\tvalue\n"a\t1\n"b\t2\n'),
        ("quotes.csv", 'key,value\n"a, ""b""",1\n"two\n\nlines",2\n'),
        ("many_lines.csv", 'key,value\na,"' + "line\n" * 20 + '"\nb,2\n'),
    ],
)
def test_the_first_rows_are_those_of_the_reader(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    read = READERS[path.suffix[1:]](path, ("key", "value"))
    assert preview(path)["rows"] == [list(cells) for cells in zip(read["key"], read["value"], strict=True)]


def test_at_most_eight_rows_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("key,value\n" + "".join(f"{number},1\n" for number in range(2 * PREVIEW_ROWS)))
    assert preview(path)["rows"] == [[str(number), "1"] for number in range(PREVIEW_ROWS)]


def test_rows_are_shown_up_to_a_quotation_mark_that_is_never_closed(tmp_path: Path) -> None:
    path = tmp_path / "open.csv"
    path.write_text('key,value\na,1\n"b,2\n')
    assert preview(path)["rows"] == [["a", "1"]]


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    for name, text in (
        ("a.csv", "key,value\r\na,1\r\n\r\nb,2\r\n"),
        ("a.jsonl", '{"key": "a", "value": 1}\n\n{"key": "b", "value": 2}\n'),
    ):
        (tmp_path / name).write_bytes(text.encode())
        assert preview(tmp_path / name) == {"columns": ["key", "value"], "rows": [["a", "1"], ["b", "2"]]}
    (tmp_path / "a.txt").write_text("a\n\nb\n")
    assert preview(tmp_path / "a.txt")["rows"] == [["a"], ["b"]]


@pytest.mark.parametrize(("delimiter", "character"), [(";", ";"), ("tab", "\t")])
def test_rows_and_examples_are_split_at_the_delimiter_that_was_chosen(
    delimiter: str, character: str, tmp_path: Path
) -> None:
    path = tmp_path / "facts.csv"
    path.write_text(f"key{character}value\naa,1{character}1\nbb{character}2\n")
    assert preview(path, delimiter)["rows"] == [["aa,1", "1"], ["bb", "2"]]
    model = bh.compile(path, delimiter=delimiter, method="retrieval", precision="float64")
    model.save(tmp_path / "model")
    found = list_examples(Context(silent), str(tmp_path / "model"), str(path))
    assert found["questions"] == ["aa,1", "bb"]


def test_an_empty_line_of_a_file_is_no_question(tmp_path: Path) -> None:
    model = bh.compile([("a", "1"), (" ", "2")], method="retrieval", precision="float64")
    model.save(tmp_path / "model")
    (tmp_path / "questions.txt").write_bytes(b"a\r\n\r\n \n\n")
    found = predict_file(Context(silent), str(tmp_path / "model"), str(tmp_path / "questions.txt"))
    assert [(each["input"], each["answer"]) for each in found["answers"]] == [("a", "1"), (" ", "2")]


@pytest.mark.parametrize(("facts", "seq_len"), [(500, 1), (1000, 1), (10**6, 2), (10**9, 3)])
def test_the_curves_of_a_plan_end_where_the_questions_do(facts: int, seq_len: int) -> None:
    found = plan_facts(Context(silent), facts, value_bits=10, vocab=1000, seq_len=seq_len)
    assert found["facts"] == facts
    ends = {curve["points"][-1][0] for curve in found["curves"]}
    assert max(ends) == 1000**seq_len
    with refused(UsageError, possible=1000**seq_len):
        plan_facts(Context(silent), 1000**seq_len + 1, value_bits=10, vocab=1000, seq_len=seq_len)


@pytest.mark.parametrize("column", ["key", "question"])
def test_examples_are_taken_from_the_column_of_questions(column: str, tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text(f"value,{column}\n1,aa\n2,bb\n")
    model = bh.compile(path, input=column, label="value", method="retrieval", precision="float64")
    model.save(tmp_path / "model")
    found = list_examples(Context(silent), str(tmp_path / "model"), str(path))
    assert found["questions"] == ["aa", "bb"]


def test_a_copy_of_the_data_that_is_interrupted_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was killed while it copied left a part of the file."""
    path, kept = tmp_path / "facts.csv", tmp_path / "model.data.csv"
    path.write_text("key,value\naa,1\nbb,2\n")

    def copy_in_part(source: Path, target: Path) -> None:
        Path(target).write_bytes(Path(source).read_bytes()[:9])
        raise KeyboardInterrupt

    arguments = (str(path), str(tmp_path / "model"), str(kept), {}, {"method": "retrieval"})
    with monkeypatch.context() as patched:
        patched.setattr(tasks.shutil, "copyfile", copy_in_part)
        with pytest.raises(KeyboardInterrupt):
            compile_data_file(Context(silent), *arguments)
    assert not kept.exists()
    compile_data_file(Context(silent), *arguments)
    assert kept.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("error", [ValueError(), ValueError("odd")])
def test_an_error_without_text_is_named_by_its_type(error: ValueError) -> None:
    first, *rest = str(describe_error(error)["message"]).splitlines()
    assert first == (str(error) or "ValueError")
    assert rest
