"""Read a CSV, TSV, Parquet or NPZ file piece by piece, instead of all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from byheart.data.assemble import Content
from byheart.data.options import TableOptions
from byheart.data.readers import (
    array_content,
    kind_of,
    naming,
    refuse_columns,
    table_columns,
    table_content,
    text_format,
)
from byheart.data.row_rules import RowCheck
from byheart.data.tables import (
    BYTES_PER_CELL,
    DIALECTS,
    open_parquet,
    require_columns,
    require_no_null,
    separated_cells,
)
from byheart.data.textfile import refuse_spreadsheet, require_content
from byheart.errors import DataError, MalformedFile, UsageError
from byheart.files.npz_archive import open_npz
from byheart.process.memory_limit import require_memory

PIECE_NUMBERS = 1 << 21
"""The inputs of one piece of an NPZ file hold at most this many numbers, unless a single row has more."""

PIECE_ROWS = 1 << 17
"""The maximum number of rows of a table in one piece."""

KINDS = (*DIALECTS, "parquet", "npz")


def read_pieces(path: Path, n_known: int, **options: Unpack[TableOptions]) -> Iterator[Content]:
    """Yield the rows of a file, in order and in pieces. Each piece has its own vocabulary and label names.

    The first `n_known` pieces are skipped.
    """
    kind = kind_of(path)
    if kind not in KINDS:
        raise UsageError(
            f"{path}: a .{kind} file cannot be read in pieces (--shards). Convert it to one of .{', .'.join(KINDS)}.",
            path=str(path),
        )
    require_content(path)
    refuse_columns(path, kind, options)
    pieces: Iterator[tuple[Any, Any]] = (
        _array_pieces(path) if kind == "npz" else _table_pieces(path, kind, options)
    )
    content_of = array_content if kind == "npz" else table_content
    n_before = 0
    for number, (inputs, labels) in enumerate(pieces):
        try:
            if number >= n_known:
                check = RowCheck(options)
                content = content_of(path, inputs, labels, options, check)
                with naming(path, DataError):
                    check.require_none()
                yield content
        except DataError as error:
            shown = (
                f"{error}\n"
                "  These row numbers count from the start of a piece of the file. The first row of this piece is row "
                f"{n_before + 1:,} of the file. Options that leave rows out are not available for data that are read in pieces "
                "(--shards): correct the rows in the file."
            )
            raise type(error)(shown, **error.facts) from None
        n_before += len(labels)
    if not n_before:
        raise MalformedFile(f"{path} has no rows; give a file with data in it.", path=str(path))


def _table_pieces(
    path: Path, kind: str, options: TableOptions
) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    names = table_columns(options)
    written = text_format(path, kind, options.get("delimiter"), options.get("encoding"))
    if kind == "parquet":
        yield from _parquet_pieces(path, names)
        return
    refuse_spreadsheet(path)
    with path.open(encoding="utf-8-sig" if written.is_utf8 else written.encoding, newline="") as lines:
        cells = separated_cells(path, names, kind, written, lines)
        while rows := list(islice(cells, PIECE_ROWS)):
            yield [row[0] for row in rows], [row[1] for row in rows]


def _parquet_pieces(path: Path, names: tuple[str, str]) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    with open_parquet(path) as file:
        require_columns(path, names, list(file.schema_arrow.names))
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        largest = max((group.total_byte_size for group in groups), default=0)
        require_memory(f"a row group of {path}", largest + 2 * BYTES_PER_CELL * PIECE_ROWS)
        n_before = 0
        for batch in file.iter_batches(PIECE_ROWS, columns=list(names)):
            inputs, labels = (batch.column(name).to_pylist() for name in names)
            require_no_null(path, names[0], inputs, n_before)
            yield inputs, labels
            n_before += len(labels)


def _array_pieces(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    with open_npz(path, ("inputs", "labels")) as (inputs, labels):
        if not inputs.shape or inputs.shape[:1] != labels.shape[:1]:
            raise MalformedFile(
                f"{path}: inputs of shape {inputs.shape} do not match labels of shape {labels.shape}.\n"
                "  Save two arrays that have one row for each sample.",
                path=str(path),
            )
        if inputs.is_fortran and len(inputs.shape) > 1:
            raise MalformedFile(
                f"{path}: the array `inputs` is stored column by column, so it cannot be read in pieces "
                "of rows.\n"
                "  Save numpy.ascontiguousarray(inputs) instead.",
                path=str(path),
            )
        step = max(1, PIECE_NUMBERS // max(1, inputs.row_items))
        for start in range(0, inputs.shape[0], step):
            n_rows = min(step, inputs.shape[0] - start)
            yield inputs.read_rows(n_rows), labels.read_rows(n_rows)
