"""Read columns of a table from a CSV, TSV, JSON lines or Parquet file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from byheart.data.checked_rows import MalformedRow
from byheart.data.textfile import (
    GIVE_ENCODING,
    UTF8,
    TextFormat,
    read_text,
    refuse_spreadsheet,
    require_content,
)
from byheart.errors import MalformedFile, UsageError, did_you_mean, import_extra
from byheart.process.memory_limit import require_memory
from byheart.records.json_file import distinct_keys

BYTES_PER_CELL = 120
"""Bytes of memory per cell: the Python object, its entry in a list, and one copy."""

SMALL_FILE, FEW_ROWS, MANY_ROWS = 2**24, 512, 2**16
"""A Parquet file below `SMALL_FILE` bytes is read `FEW_ROWS` rows at a time, and a larger one `MANY_ROWS` rows at a time."""
USUAL_GROWTH, SMALL_TABLE = 100, 2**27
"""A Parquet file may expand to `USUAL_GROWTH` times its size or to `SMALL_TABLE` bytes, whichever is larger."""

MAX_CELL_CHARACTERS = 2**31 - 1
DELIMITERS = (",", ";", "\t", "|")
_JSON = json.JSONDecoder(object_pairs_hook=distinct_keys)
Columns = dict[str, list[Any]]
DIALECTS: dict[str, dict[str, Any]] = {
    "csv": {"delimiter": ",", "strict": True},
    "tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
}


def read_separated(
    path: Path, wanted: Sequence[str], written: TextFormat = UTF8, *, kind: str, keep_malformed: bool = False
) -> Columns:
    """Read the columns `wanted` of a CSV or TSV: a header, then rows with as many fields as the header. Blank lines are skipped.

    In a TSV, quotation marks are ordinary characters, so no field can hold a tab or a line break.

    keep_malformed: do not raise an error for a row with too many or too few fields, but return `MalformedRow` for each cell of it.
    """
    columns: Columns = {name: [] for name in wanted}
    for cells in separated_cells(
        path, wanted, kind, written, _whole_text(path, written), keep_malformed=keep_malformed
    ):
        for name, cell in zip(wanted, cells, strict=True):
            columns[name].append(cell)
    return columns


def read_jsonl(
    path: Path, wanted: Sequence[str], written: TextFormat = UTF8, *, keep_malformed: bool = False
) -> Columns:
    """Read the columns `wanted` of a file with one JSON object per line.

    Blank lines are skipped. Labels (the second column) may be null; they are returned as None.

    keep_malformed: do not raise an error for a line that is not a valid row, but return `MalformedRow` for each of its cells.
    Inputs may then be null.
    """
    columns: Columns = {name: [] for name in wanted}
    are_known = False
    for line, text in _json_lines(path, written):
        try:
            row = _json_object(path, line, text)
            if row and not are_known:
                require_columns(path, wanted, list(row))
                are_known = True
            for name in wanted:
                may_be_null = keep_malformed or name in wanted[1:2]
                if name not in row or (row[name] is None and not may_be_null):
                    problem = f"`{name}` {'is null' if name in row else 'is missing'}"
                    fix = f"Give every line a field `{name}`, or remove this line"
                    raise _malformed_table(path, line, problem, fix)
        except MalformedFile as error:
            if not keep_malformed:
                raise
            row = dict.fromkeys(wanted, MalformedRow(error))
        for name in wanted:
            columns[name].append(row[name])
    return columns


def json_rows(path: Path, written: TextFormat = UTF8) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number (from 1) and the object of each line of a JSON lines file. Blank lines are skipped."""
    for line, text in _json_lines(path, written):
        yield line, _json_object(path, line, text)


def _json_lines(path: Path, written: TextFormat) -> Iterator[tuple[int, str]]:
    lines = enumerate(read_text(path, written).split("\n"), start=1)
    return ((line, text) for line, text in lines if text.strip())


def _json_object(path: Path, line: int, text: str) -> dict[str, Any]:
    try:
        row = _JSON.decode(text)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON at column {error.colno} ({error.msg})"
        raise _malformed_table(path, line, problem, "Write one whole JSON object on each line") from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # for example a repeated key, a number with thousands of digits, or too deep nesting
        raise _malformed_table(
            path, line, f"cannot be read ({error})", "Correct or remove this line"
        ) from None
    if not isinstance(row, dict):
        fix = 'Write lines like {"key": ..., "value": ...}'
        raise _malformed_table(path, line, "the JSON on this line is not an object", fix)
    return row


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file with pyarrow for the length of a `with` block.

    If opening or reading it fails, raise `MalformedFile`, which names the file.
    """
    pyarrow = import_extra("pyarrow", "parquet", "reading Parquet files")
    from pyarrow import parquet

    require_content(path)
    refuse_spreadsheet(path)
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, TypeError) as error:
        # also raised for values that Python cannot represent, such as times out of range
        raise MalformedFile(
            f"{path} is not a valid Parquet file: {error}\n  It may be truncated or damaged; write it again.",
            path=str(path),
        ) from None


def require_no_null(path: Path, name: str, values: list[Any], n_before: int = 0) -> None:
    """Raise `MalformedFile`, naming the row, if a cell of a column is missing. In the file, `n_before` rows come before these
    cells.
    """
    if None in values:
        row = n_before + values.index(None) + 1
        raise MalformedFile(
            f"{path}, row {row}: `{name}` is null.\n  Fill it in, or remove the row.", path=str(path), row=row
        )


def _require_usual_growth(path: Path, n_bytes: int, n_file: int) -> None:
    """Refuse a small file that expands to a huge table. For example, the file may store one long text and refer to it a
    million times.
    """
    require_memory(f"the part of {path} that has been read", n_bytes)
    if n_bytes > max(USUAL_GROWTH * n_file, SMALL_TABLE):
        raise MalformedFile(
            f"{path} is refused, because it has {n_file:,} bytes and expands to at least {n_bytes:,}.\n"
            "  If this is intended, write the table as CSV, or without repeated long texts.",
            path=str(path),
            n_bytes=n_bytes,
        )


def read_parquet(
    path: Path, wanted: Sequence[str], _: TextFormat = UTF8, *, keep_malformed: bool = False
) -> Columns:
    """Read the columns `wanted` of a Parquet file.

    The file is refused before reading if its metadata declare more data than the memory limit allows.

    keep_malformed: whether all cells may be null. Otherwise only labels (the second column) may be null.
    """
    with open_parquet(path) as file:
        require_columns(path, wanted, list(file.schema_arrow.names))
        meta = file.metadata
        claimed = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
        require_memory(
            f"{path}, which declares {meta.num_rows:,} rows and {claimed:,} bytes,",
            claimed + BYTES_PER_CELL * len(wanted) * meta.num_rows,
        )
        columns: Columns = {name: [] for name in wanted}
        n_bytes, n_file = 0, path.stat().st_size
        n_rows = FEW_ROWS if n_file < SMALL_FILE else MANY_ROWS
        for batch in file.iter_batches(n_rows, columns=list(wanted)):
            for name in wanted:
                cells = batch.column(name)
                # the column stores each distinct value once, and an index for each row
                if hasattr(cells, "dictionary_decode"):
                    cells = cells.dictionary_decode()
                n_bytes += cells.nbytes
                _require_usual_growth(path, n_bytes, n_file)
                columns[name] += cells.to_pylist()
    # labels, the second column, may be null
    for name in () if keep_malformed else (*wanted[:1], *wanted[2:]):
        require_no_null(path, name, columns[name])
    return columns


READERS: dict[str, Callable[..., Columns]] = {
    "csv": partial(read_separated, kind="csv"),
    "tsv": partial(read_separated, kind="tsv"),
    "jsonl": read_jsonl,
    "parquet": read_parquet,
}


def column_names(path: Path, kind: str, written: TextFormat = UTF8) -> list[str]:
    """Return the names of the columns of a table. In JSON lines, these are the fields of the first object."""
    if kind == "parquet":
        with open_parquet(path) as file:
            return list(file.schema_arrow.names)
    if kind == "jsonl":
        return list(next((row for _, row in json_rows(path, written)), {}))
    reader = separated_rows(_whole_text(path, written), kind, written)
    start = 1
    try:
        for row in reader:
            if row:
                return list(row)
            start = reader.line_num + 1
    except csv.Error as error:
        raise _malformed_table(
            path, start, f"not a row of the table ({error})", "Check the quotation marks on this line"
        ) from None
    return []


def separated_rows(lines: Iterable[str], kind: str, written: TextFormat) -> Any:
    """Return a `csv.reader` over the rows of a CSV or TSV, including the header. A blank line is an empty row."""
    csv.field_size_limit(MAX_CELL_CHARACTERS)  # Python's own limit is 131,072 characters
    chosen = {} if written.delimiter is None else {"delimiter": written.delimiter}
    return csv.reader(lines, **{**DIALECTS[kind], **chosen})


def _whole_text(path: Path, written: TextFormat) -> io.StringIO:
    return io.StringIO(read_text(path, written), newline="")


def separated_cells(
    path: Path,
    wanted: Sequence[str],
    kind: str,
    written: TextFormat,
    lines: Iterable[str],
    *,
    keep_malformed: bool = False,
) -> Iterator[list[Any]]:
    """Yield the cells of the wanted columns for every row of a CSV or TSV. `lines` are the lines of the file at `path`.

    keep_malformed: do not raise an error for a row with too many or too few fields, but yield `MalformedRow` for each cell of it.
    """
    reader = separated_rows(lines, kind, written)
    header: list[str] = []
    places: list[int] = []
    start = 1  # a row may span several lines; it starts on the line after the last line of the row before
    try:
        for row in reader:
            if row and not header:
                header = row
                require_columns(path, wanted, header)
                places = [header.index(name) for name in wanted]
            elif row:
                if len(row) == len(header):
                    yield [row[place] for place in places]
                else:
                    what = f"the number of fields is {len(row)}, but in the header it is {len(header)}"
                    fix = "Complete the line, or put quotation marks around a field that holds the separator"
                    if keep_malformed:
                        fix += (
                            ',\n  or leave such lines out with malformed_rows="drop" (--malformed-rows drop)'
                        )
                    error = _malformed_table(path, start, what, fix)
                    if not keep_malformed:
                        raise error
                    yield [MalformedRow(error)] * len(wanted)
            start = reader.line_num + 1
    except csv.Error as error:
        fix = "Look for a quotation mark that is opened on this line and never closed"
        raise _malformed_table(path, start, f"not a row of the table ({error})", fix) from None
    except UnicodeDecodeError as error:
        what = f"byte 0x{error.object[error.start]:02x} on or after this line is not valid {written.encoding}"
        raise _malformed_table(path, start, what, GIVE_ENCODING) from None


def require_columns(
    path: Path,
    wanted: Sequence[str],
    found: list[str],
    fix: str = "Use input=... and label=... (--input and --label) to name the columns.",
) -> None:
    """Raise `UsageError`, listing all columns, unless each wanted column occurs exactly once."""
    for name in wanted:
        if found.count(name) != 1:
            problem = f"{found.count(name)} columns" if name in found else "no column"
            hint = did_you_mean(name, found) if name not in found else ""
            known = f"its columns are {', '.join(map(repr, found))}" if found else "it has no columns"
            if len(found) == len(wanted) == 2 and not {*wanted} & {*found}:
                names = (
                    f"input={found[0]!r}, label={found[1]!r} (--input {quote(found[0])} --label "
                    f"{quote(found[1])})"
                )
                fix = (
                    f"Name the columns: {names}.\n"
                    "  In a CSV or TSV file, the first line must hold the names of the columns."
                )
            raise UsageError(
                _other_delimiter(path, found) or f"{path} has {problem} `{name}`; {known}.{hint}\n  {fix}",
                path=str(path),
                column=name,
                columns=found,
            )


def _other_delimiter(path: Path, found: list[str]) -> str | None:
    """If the header is a single field that seems to contain another delimiter, return a message with a hint, otherwise None."""
    if len(found) != 1:
        return None
    delimiter = max(DELIMITERS, key=found[0].count)
    if delimiter not in found[0]:
        return None
    typed = "tab" if delimiter == "\t" else delimiter
    return (
        f"{path}: the fields of the header {found[0]!r} seem to be separated by {typed!r}.\n"
        f"  Give the delimiter: delimiter={typed!r} (--delimiter {typed!r})."
    )


def _malformed_table(path: Path, line: int, what: str, fix: str) -> MalformedFile:
    return MalformedFile(f"{path}, line {line}: {what}.\n  {fix}.", path=str(path), line=line)
