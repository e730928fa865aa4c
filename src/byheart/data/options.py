"""The words a user chooses with: tasks, rules for conflicts, and what every table reader understands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict

from byheart.data.tokenizers import Tokenizer

Task = Literal["next-token", "seq-to-seq", "set", "distribution"]
OnConflict = Literal["error", "first", "last", "majority", "drop", "keep"]
EmptyLabels = Literal["error", "keep"]
Rule = Literal["first", "last", "majority", "drop"]


class TableOptions(TypedDict, total=False):
    """What every constructor from a table understands.

    task: unless given, `seq-to-seq` if the first label is a list, and `next-token` otherwise.
    tokenizer: `char` (default), `word`, `bytes`, the path of a tokenizer.json, or a Tokenizer to use as it
        is.
    input, label: column names, `key` and `value` unless given.
    ordered: whether positions matter; by default they do for text and ids, and not for vectors and `set`.
    on_conflict: `error` (default), `first`, `last`, `majority`, `drop` or `keep`; see `Dataset.resolved`.
    empty_labels: `error` (default) refuses a row whose label is empty or null; `keep` memorises an empty label.
    delimiter: the character between the fields of a CSV or TSV, or `tab`; unless given, as the suffix says.
    encoding: of a file of text, such as cp1252; `utf-8` unless given.
    label_names: names of classes known from elsewhere. They keep their numbers, and names that only the table
        has follow them. Default: the sorted distinct labels of the table.
    """

    task: Task | None
    tokenizer: str | Path | Tokenizer
    input: str | None
    label: str | None
    ordered: bool | None
    on_conflict: OnConflict
    empty_labels: EmptyLabels
    delimiter: str | None
    encoding: str | None
    label_names: Sequence[str] | None
