"""Who chose how a data file is read: the defaults, the caller, or the record of the model that is being verified.

The record could choose a reading under which its model looks right. `byheart verify` prints such choices before the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from byheart.data.dataset import Dataset
    from byheart.data.options import DataSource


class Choice(NamedTuple):
    """How one part of the reading was chosen, such as the columns.

    `named_by` is `usual` if the part is the default or if the file does not have this part, `caller` if the caller named what
    differs from the default, and `model` if the model's record did. If it is `model`, `warning` says what the record chose.
    """

    named_by: str
    warning: str = ""


def choices_of(path: Path, data: Dataset, given: Mapping[str, str]) -> dict[str, Choice]:
    """Return how columns, delimiter and encoding of `data` were chosen, which were read from the file at `path`.

    given: the options that the caller gave.
    """
    assert data.source is not None
    return {
        "columns": _columns(path, data, data.source, given),
        "delimiter": _delimiter(path, data.source, given),
        "encoding": _encoding(path, data.source, given),
    }


def _columns(path: Path, data: Dataset, source: DataSource, given: Mapping[str, str]) -> Choice:
    read, usual = source.columns(data.task), _usual_columns(path, source)
    if usual is None or read == usual:
        return Choice("usual")
    named = zip(("input", "label"), read, usual, strict=True)
    if all(name in given for name, own, other in named if own != other):
        return Choice("caller")
    pairs = (f"{own!r} -> {other!r}" for own, other in (read, usual))
    return Choice("model", "the model chose the columns: {}, not the usual {}".format(*pairs))


def _usual_columns(path: Path, source: DataSource) -> tuple[str, str] | None:
    """Return the columns that are read by default, or None if the file has no columns to choose from."""
    from byheart.data.options import NEXT_TOKEN, USUAL_COLUMNS, WITHOUT_COLUMNS
    from byheart.data.readers import kind_of, text_format
    from byheart.data.tables import column_names

    kind = kind_of(path)
    if kind in WITHOUT_COLUMNS:
        return None
    names = column_names(path, kind, text_format(path, kind, source.delimiter, source.encoding))
    if "text" in names and USUAL_COLUMNS[0] not in names:
        return "text", NEXT_TOKEN
    # with only two columns, the choice is clear
    is_pair = len(names) == 2 and not set(names) & set(USUAL_COLUMNS)
    return (names[0], names[1]) if is_pair else USUAL_COLUMNS


def _delimiter(path: Path, source: DataSource, given: Mapping[str, str]) -> Choice:
    from byheart.data.readers import kind_of
    from byheart.data.tables import DIALECTS
    from byheart.data.textfile import TextFormat

    read = TextFormat(delimiter=source.delimiter).delimiter
    usual = DIALECTS.get(kind_of(path), {}).get("delimiter")
    if read is None or read == usual:
        return Choice("usual")
    if "delimiter" in given:
        return Choice("caller")
    return Choice("model", f"the model chose the delimiter: {read!r}, not the usual {usual!r}")


def _encoding(path: Path, source: DataSource, given: Mapping[str, str]) -> Choice:
    if source.encoding is None or _is_same_text(path, source.encoding):
        return Choice("usual")
    if "encoding" in given:
        return Choice("caller")
    return Choice("model", f"the model chose the encoding: {source.encoding}, not the usual utf-8")


def _is_same_text(path: Path, encoding: str) -> bool:
    """Return whether a file contains the same text in this encoding and in UTF-8."""
    from byheart.data.textfile import TextFormat, read_text
    from byheart.errors import MalformedFile

    written = TextFormat(encoding)
    try:
        return written.is_utf8 or read_text(path, written) == read_text(path)
    except MalformedFile:  # it is not UTF-8
        return False
