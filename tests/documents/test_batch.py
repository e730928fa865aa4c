"""Questions are read, and written again with their answers, in one format."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import byheart as bh
from byheart.documents.batch import read_rows, write_answers
from byheart.documents.predictions import questions_in
from byheart.errors import MalformedFile, UsageError
from tests.refusal import refused

CHARACTERS = st.sampled_from('",;\t\r\n \\') | st.characters(
    exclude_categories=["Cs"], exclude_characters="\0"
)
CELLS = st.text(CHARACTERS, max_size=6)
IN_TSV = CELLS.filter(lambda cell: not set(cell) & set("\t\r\n"))


def write_and_read(path: Path, cells: list[tuple[str, str]]) -> list[tuple[str, str]]:
    write_answers(path, [{"key": key} for key, _ in cells], [answer for _, answer in cells], "answer")
    rows, _ = read_rows(path, "key")
    return [(row["key"], row["answer"]) for row in rows]


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4))
def test_a_csv_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]]
) -> None:
    assert write_and_read(tmp_path_factory.getbasetemp() / "a.csv", cells) == cells


@given(st.lists(st.tuples(IN_TSV, IN_TSV), min_size=1, max_size=4))
def test_a_tsv_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]]
) -> None:
    assert write_and_read(tmp_path_factory.getbasetemp() / "a.tsv", cells) == cells


@pytest.mark.parametrize("cell", ["a\tb", "a\nb", "a\rb"])
def test_a_tsv_cannot_hold_tabs_and_line_breaks(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "a.tsv"
    with refused(UsageError, path=str(path), cell=cell):
        write_answers(path, [{"key": cell}], ["x"], "answer")
    assert not path.exists()


def test_only_the_questions_of_a_parquet_file_must_be_there(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the `parquet` extra")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    columns = {"note": [None, "u"], "key": ["a", "b"], "last": ["v", None]}
    parquet.write_table(pyarrow.table(columns), path)
    assert read_rows(path, "key")[0] == [
        {"note": None, "key": "a", "last": "v"},
        {"note": "u", "key": "b", "last": None},
    ]
    with refused(MalformedFile, path=str(path), row=2):
        read_rows(path, "last")


def test_a_model_of_documents_takes_its_questions_from_the_column_of_texts(tmp_path: Path) -> None:
    for name, content in (("a.csv", "text\nthe cat sat\na dog\n"), ("b.txt", "the cat sat\na dog\n")):
        path = tmp_path / name
        path.write_text(content)
        model = bh.compile(path, task="distribution")
        for questions in (tmp_path / "a.csv", path):
            assert questions_in(model, questions) == ([{"text": "the cat sat"}, {"text": "a dog"}], "text")
