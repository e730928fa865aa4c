"""Read a table of questions, and write it again with one more column, the answers."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from byheart.errors import UsageError
from byheart.files.whole_file import write_whole

if TYPE_CHECKING:
    from byheart.model import Answer

Row = dict[str, Any]
FIX = "Name the column of questions with --input COLUMN."
SEPARATED = ("csv", "tsv")


def read_rows(
    path: Path, column: str, delimiter: str | None = None, encoding: str | None = None
) -> tuple[list[Row], str]:
    """Read the rows of a data file, with all its columns.

    Return the rows and the name of the column that holds the questions: `column` or, for an NPZ file, `inputs`.

    A .txt file holds one question per line. An NPZ file holds the questions in its array `inputs`; each row then holds
    one item of this array, in the column `inputs`.
    """
    from byheart.data.readers import kind_of, text_format
    from byheart.data.tables import READERS, column_names, json_rows, require_columns, require_no_null
    from byheart.data.textfile import read_text, require_content, require_file
    from byheart.files.npz_archive import read_npz

    require_file(path)
    kind = kind_of(path)
    written = text_format(path, kind, delimiter, encoding)
    if kind == "npz":
        require_content(path)
        return [{"inputs": one} for one in read_npz(path, ("inputs",))["inputs"]], "inputs"
    if kind == "txt":
        lines = io.StringIO(read_text(path, written))
        return [{column: line.rstrip("\r\n")} for line in lines], column
    if kind == "jsonl":
        rows = [row for _, row in json_rows(path, written)]
        for row in rows:
            require_columns(path, [column], list(row), FIX)
    else:
        names = column_names(path, kind, written)
        require_columns(path, [column], names, FIX)
        nulls = {"keep_malformed": True} if kind == "parquet" else {}  # other columns may have missing cells
        columns = READERS[kind](path, names, written, **nulls)
        rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    require_no_null(path, column, [row[column] for row in rows])
    return rows, column


def write_answers(path: Path, rows: Sequence[Row], answers: Sequence[Answer], column: str) -> None:
    """Write the rows to a CSV, TSV or JSON lines file, atomically, with the answers in one more column named `column`.

    The suffix of `path` decides the format. If there is no answer, the cell is empty, or null in JSON. Arrays, such as the
    inputs of an NPZ file, are left out. In a TSV, quotation marks are ordinary characters, as `read_rows` reads them, so a cell
    with a tab or a line break is refused.
    """
    kind = output_kind(path)
    told = [
        {**{name: value for name, value in row.items() if not isinstance(value, np.ndarray)}, column: answer}
        for row, answer in zip(rows, answers, strict=True)
    ]
    if kind == "jsonl":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in told)
    else:
        names = list(dict.fromkeys(name for row in told for name in row))
        lines = [names, *([_cell(row.get(name)) for name in names] for row in told)]
        text = _tsv(path, lines) if kind == "tsv" else _csv(lines)
    write_whole(path, lambda file: file.write(text.encode()))


def output_kind(path: Path) -> str:
    kind = path.suffix.lower().removeprefix(".")
    if kind not in (*SEPARATED, "jsonl"):
        raise UsageError(
            f"{path}: answers cannot be written to a file with the suffix {path.suffix!r}; choose .csv, .tsv "
            "or .jsonl.",
            path=str(path),
        )
    return kind


def _csv(lines: Sequence[Sequence[str]]) -> str:
    """Return the text of a CSV with these cells. Unlike `csv.writer`, it quotes a cell with a carriage return."""
    return "".join((",".join(map(_quoted, cells)) or '""') + "\n" for cells in lines)


def _quoted(cell: str) -> str:
    needs_quotes = any(mark in cell for mark in ',"\r\n')
    return '"' + cell.replace('"', '""') + '"' if needs_quotes else cell


def _tsv(path: Path, lines: Sequence[Sequence[str]]) -> str:
    """Return the text of a TSV with these cells."""
    odd = next((cell for cells in lines for cell in cells if any(mark in cell for mark in "\t\r\n")), None)
    if odd is not None:
        raise UsageError(
            f"{path}: the cell {odd[:60]!r} contains a tab or a line break, which a .tsv file cannot hold; choose .csv or .jsonl.",
            path=str(path),
            cell=odd,
        )
    return "".join("\t".join(cells) + "\n" for cells in lines)


def _cell(value: Any) -> str:
    """Convert a value to the text of a cell. The items of a list, such as one answer per token, get spaces between them."""
    if isinstance(value, list):
        return " ".join(map(_cell, value))
    return "" if value is None else str(value)
