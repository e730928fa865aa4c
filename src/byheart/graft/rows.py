"""Read the rows of a data file, each with its prompt format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from byheart.data.options import require_two_columns
from byheart.data.readers import kind_of, text_format
from byheart.data.tables import READERS, column_names, require_columns
from byheart.data.textfile import require_file
from byheart.errors import DataError, UsageError
from byheart.graft.texts import Asking, Row

YES, NO = ("1", "true", "yes", "chat"), ("0", "false", "no", "plain", "")


def read_rows(
    path: Path,
    tokenizer: Any,
    asking: Asking,
    *,
    input: str | None = None,
    label: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> list[Row]:
    """Read the keys and answers of a CSV, TSV, JSON lines or Parquet file as text. `input` and `label` are the names of their
    columns, by default "key" and "value".
    """
    if asking.chat and (asking.template is not None or asking.chat_column is not None):
        raise UsageError(
            "chat=True (--chat) treats every row as a chat, so template and chat_column (--template and --chat-column) cannot be "
            "given with it. Leave them out."
        )
    require_file(path)
    kind = kind_of(path)
    if kind not in READERS:
        raise UsageError(
            f"{path}: facts cannot be read from a .{kind} file. Give a table, such as CSV or JSON lines.",
            path=str(path),
        )
    require_two_columns(input or "key", label or "value")
    names = [input or "key", label or "value", *([asking.chat_column] if asking.chat_column else [])]
    format = text_format(path, kind, delimiter, encoding)
    if asking.chat_column is not None:
        require_columns(
            path,
            names[2:],
            column_names(path, kind, format),
            "Name the column with chat_column=... (--chat-column).",
        )
    columns = READERS[kind](path, names, format)
    n_rows = len(columns[names[0]])
    if not n_rows:
        raise DataError(f"{path} holds no rows; give a file with facts in it.", path=str(path))
    chats = [asking.chat] * n_rows
    if asking.chat_column is not None:
        said = [str(value).strip().lower() for value in columns[asking.chat_column]]
        odd = next((row for row, word in enumerate(said) if word not in (*YES, *NO)), None)
        if odd is not None:
            raise DataError(
                f"{path}: row {odd + 1:,} has {said[odd]!r} in the column {asking.chat_column}.\n"
                f"  Write one of {', '.join(YES)} for a chat, or one of {', '.join(NO[:-1])} for plain text.",
                row=odd,
            )
        chats = [word in YES for word in said]
    formats = {is_chat: asking.format_of(tokenizer, is_chat) for is_chat in sorted(set(chats))}
    pairs = zip(columns[names[0]], columns[names[1]], chats, strict=True)
    return [
        Row(str(key), "" if answer is None else str(answer), formats[is_chat])
        for key, answer, is_chat in pairs
    ]
