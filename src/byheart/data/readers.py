"""Read the content of a data set from a file with the reader for its kind. Errors about the content of the file name it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from byheart.data.assemble import (
    Content,
    content_of_arrays,
    content_of_columns,
    content_of_texts,
    number_names,
)
from byheart.data.checked_rows import checked_arrays, checked_content
from byheart.data.label_types import type_for
from byheart.data.options import (
    USUAL_COLUMNS,
    WITHOUT_COLUMNS,
    DataSource,
    TableOptions,
    Task,
    require_two_columns,
)
from byheart.data.row_rules import LONGEST, RULES, RowCheck
from byheart.data.tables import DIALECTS, READERS, json_rows
from byheart.data.textfile import TextFormat, read_text, refuse_spreadsheet, require_content, require_file
from byheart.errors import DataError, MalformedFile, UsageError
from byheart.files.npz_archive import read_npz
from byheart.process.memory_limit import memory_limit
from byheart.process.progress import Progress, report

TOLD = ("input", "label", "on_conflict", *RULES, "delimiter", "encoding")
READING_STEPS = 3  # read the cells, encode them, compare them
_KINDS = ("csv", "tsv", "jsonl", "parquet", "npz", "txt")  # each kind is also the suffix of the file name


def read_content(
    path: Path,
    kind: str | None,
    check: RowCheck,
    progress: Progress | None = None,
    **options: Unpack[TableOptions],
) -> Content:
    """Read a data file of the given kind, by default the kind that its suffix names; see `Dataset.read`.

    Faulty rows are reported to `check`. In documents, they raise an error at once.
    """
    require_file(path)
    kind, task = kind or kind_of(path), options.get("task")
    written = text_format(path, kind, options.get("delimiter"), options.get("encoding"))
    refuse_columns(path, kind, options)
    if task == "distribution" or (task is None and _holds_documents(path, kind, written, options)):
        return read_documents(path, kind, **options)
    if kind == "txt":
        raise UsageError(
            f"{path} contains documents, which can be read only for the task `distribution`, not for `{task}`.\n"
            "  Leave out the task, or give a table of inputs and labels.",
            path=str(path),
        )
    if kind == "npz":
        require_content(path)
        arrays = read_npz(path, ("inputs", "labels"))
        content = array_content(path, arrays["inputs"], arrays["labels"], options, check)
    else:
        names = table_columns(options)
        columns = READERS[kind](path, names, written, keep_malformed=True)
        report(progress, 1, READING_STEPS)
        _require_rows(path, columns[names[0]])
        content = table_content(path, columns[names[0]], columns[names[1]], options, check)
    tokenizer = None if content.tokenizer is None else content.tokenizer.name
    if content.label_type != "text":
        content = replace(content, label_type=type_for(content.label_names, content.label_type))
    return replace(content, source=describe_source(path, options, tokenizer))


def describe_source(
    path: Path, options: TableOptions, tokenizer: str | None, told: Sequence[str] = TOLD
) -> DataSource:
    """Return a record of how a file was read: the name of the tokenizer, and the options whose names are in `told`."""
    given: dict[str, Any] = {
        name: value for name, value in options.items() if name in told and value is not None
    }
    return DataSource(path.name, tokenizer=tokenizer, **given)


def read_documents(
    source: str | Path | Sequence[str], kind: str | None = None, **options: Unpack[TableOptions]
) -> Content:
    """Read documents from a list of texts, a .txt (one per line) or a table with a column `text`.

    Blank lines of a .txt are skipped.
    """
    tokenizer = options.get("tokenizer", "word")
    if not isinstance(source, (str, Path)):
        return content_of_texts(list(source), tokenizer)
    path = Path(source)
    texts = texts_of_documents(path, kind, options)
    with naming(path, DataError):
        content = content_of_texts(texts, tokenizer)
    assert content.tokenizer is not None
    told = ("input", "delimiter", "encoding")
    return replace(content, source=describe_source(path, options, content.tokenizer.name, told))


def texts_of_documents(path: Path, kind: str | None, options: TableOptions) -> list[Any]:
    """Return the texts that `read_documents` reads from a file."""
    require_file(path)
    kind = kind or kind_of(path)
    refuse_columns(path, kind, options)
    if options.get("label") is not None:
        raise UsageError(
            f"{path} is read as documents, in which every label is the next token; leave out --label.",
            path=str(path),
            option="label",
        )
    if kind == "npz":
        raise UsageError(
            f"{path}: documents must be text, not arrays; give a .txt or a table.", path=str(path)
        )
    written = text_format(path, kind, options.get("delimiter"), options.get("encoding"))
    if kind == "txt":
        lines = read_text(path, written).split("\n")
        texts: list[Any] = [line.removesuffix("\r") for line in lines if line.strip()]
    else:
        name = options.get("input") or "text"
        texts = list(READERS[kind](path, (name,), written)[name])
    _require_rows(path, texts)
    return texts


def kind_of(path: Path) -> str:
    """Return the kind of a file, according to its suffix."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _KINDS:
        if path.is_file():
            refuse_spreadsheet(path)
        raise UsageError(
            f"{path}: the suffix {path.suffix!r} is not one of .{', .'.join(_KINDS)}.\n"
            "  Rename the file, or read it with Dataset.from_csv, from_jsonl and so on.",
            path=str(path),
        )
    return kind


def refuse_columns(path: Path, kind: str, options: TableOptions) -> None:
    """Raise `UsageError` if `options` name a column, but files of this kind have no columns."""
    named = [name for name in ("input", "label") if options.get(name) is not None]
    if named and kind in WITHOUT_COLUMNS:
        raise UsageError(
            f"{path}: a .{kind} file has no columns; leave out --{named[0]}.", path=str(path), option=named[0]
        )


def text_format(path: Path, kind: str, delimiter: str | None, encoding: str | None) -> TextFormat:
    """Return the text format of a file of this kind. Refuse options that do not apply to it."""
    if delimiter is not None and kind not in DIALECTS:
        raise UsageError(f"{path}: a .{kind} file has no delimiter; leave out --delimiter.", path=str(path))
    if encoding is not None and kind in ("npz", "parquet"):
        raise UsageError(f"{path}: a .{kind} file has no encoding; leave out --encoding.", path=str(path))
    return TextFormat(encoding or "utf-8", delimiter)


def array_content(
    path: Path, inputs: np.ndarray, labels: np.ndarray, options: TableOptions, check: RowCheck
) -> Content:
    """Return the content of two arrays that were read from `path`."""
    with naming(path, UsageError, DataError):
        content = content_of_arrays(inputs, labels, task=options.get("task"), ordered=options.get("ordered"))
        content = checked_arrays(content, check)
    number = number_names(options.get("label_names") or (), content.label_names)
    renumbered = np.array([number[name] for name in content.label_names], dtype=np.int64)
    return replace(content, labels=renumbered[content.labels], label_names=tuple(number))


def table_columns(options: TableOptions) -> tuple[str, str]:
    """Return the names of the input column and the label column."""
    input, label = options.get("input"), options.get("label")
    if not input and not label:
        return USUAL_COLUMNS
    names = (input or USUAL_COLUMNS[0], label or USUAL_COLUMNS[1])
    require_two_columns(*names)
    return names


def table_content(
    path: Path, inputs: Sequence[Any], labels: Sequence[Any], options: TableOptions, check: RowCheck
) -> Content:
    """Convert the input column and the label column of a table, which were read from `path`, to the content of a data set."""
    how: dict[str, Any] = {
        "task": options.get("task"),
        "tokenizer": options.get("tokenizer", "char"),
        "ordered": options.get("ordered"),
        "label_names": options.get("label_names"),
    }
    with naming(path, DataError):
        if not check.rules and all(type(cell) is str and cell for cell in (*inputs, *labels)):
            # the usual table: all cells are non-empty texts, so a row is faulty only if its input has no tokens or too many
            content = content_of_columns(inputs, labels, **how)
            lengths = content.inputs.lengths
            longest = int(lengths.max())
            if lengths.all() and longest <= LONGEST and 8 * lengths.size * longest <= memory_limit():
                return content
        return checked_content(
            inputs,
            labels,
            check,
            **how,
            input_cell=lambda cell, row: _plain(cell, row, isinstance(cell, list)),
            label_cell=_plain_label,
        )


def _holds_documents(path: Path, kind: str, written: TextFormat, options: TableOptions) -> bool:
    if kind == "jsonl" and options.get("input") is None and options.get("label") is None:
        row = next((row for _, row in json_rows(path, written)), {})
        return "text" in row and "key" not in row
    return kind == "txt"


def _require_rows(path: Path, rows: Sequence[Any]) -> None:
    if not rows:
        raise MalformedFile(f"{path} has a header but no rows; give a file with data in it.", path=str(path))


@contextmanager
def naming(path: Path, *kinds: type[UsageError] | type[DataError]) -> Iterator[None]:
    """Add the file name to errors of the types `kinds` that are raised in the `with` block. A `UsageError` becomes a
    `MalformedFile`.

    Errors that name the file already are left as they are.
    """
    try:
        yield
    except kinds as error:
        if error.facts.get("path") == str(path):
            raise
        kind = MalformedFile if isinstance(error, UsageError) else type(error)
        raise kind(f"{path}: {error}", **{**error.facts, "path": str(path)}) from None


def _plain_label(value: Any, row: int, task: Task) -> Any:
    return _plain(value, row, task == "seq-to-seq")


def _plain(value: Any, row: int, lists: bool) -> Any:
    """Return a cell as a text. If `lists` is true, a cell that holds a list is returned as a list of ids or texts."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if lists and isinstance(value, list):
        ids = all(isinstance(item, int) and not isinstance(item, bool) for item in value)
        return value if ids else [_plain(item, row, False) for item in value]
    raise DataError(
        f"row {row}: {value!r} is a {type(value).__name__}, not a text or a number.\n"
        "  Give a text. For one label per token, choose the task seq-to-seq.",
        row=row,
    )
