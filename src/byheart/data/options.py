"""The options of every table reader, and a record of how data were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

from byheart.data.tokenizers import Tokenizer
from byheart.errors import UsageError
from byheart.records.json_record import JsonRecord
from byheart.records.vocabulary import EmptyLabels, OnConflict, RowRule, Rule, Task

__all__ = ["DataSource", "OnConflict", "RowOptions", "Rule", "TableOptions", "Task", "Unit"]

USUAL_COLUMNS = ("key", "value")
NEXT_TOKEN = "next token"
"""Used in place of the name of a label column if each label is the token that follows in a text."""
WITHOUT_COLUMNS = ("npz", "txt")
"""The kinds of files that have no columns to choose from."""

Unit = Literal["row", "context"]
"""What is counted as right or wrong: a row of a table or, in a text, a context (the tokens before a token)."""


def require_two_columns(input: str, label: str) -> None:
    """Raise `UsageError` if the column of inputs and the column of labels are the same."""
    if input == label:
        raise UsageError(f"input and label are both the column `{input}`; name two columns.", column=input)


class RowOptions(TypedDict, total=False):
    """How to treat rows that cannot be memorised; see `TableOptions`."""

    empty_labels: EmptyLabels
    empty_inputs: RowRule
    malformed_rows: RowRule
    non_finite: RowRule
    max_tokens: int | None


class TableOptions(RowOptions, total=False):
    """The options of every constructor that reads a table.

    task: by default, `seq-to-seq` if the first label is a list, and `next-token` otherwise.
    tokenizer: `char` (default), `word`, `bytes`, the path of a tokenizer.json, or a `Tokenizer`.
    input, label: column names; by default, `key` and `value`.
    ordered: whether positions matter; by default, they do for texts and token ids, but not for vectors or the task `set`.
    on_conflict: `error` (default), `first`, `last`, `majority`, `drop` or `keep`; see `Dataset.resolved`.
    empty_labels: `error` (default) refuses a row whose label is empty or null; `keep` memorises an empty label; `drop` leaves
        the row out.
    empty_inputs: `error` (default) refuses a row whose input has no tokens; `drop` leaves it out.
    malformed_rows: `error` (default) refuses a line that is not a valid row, for example because it does not have as many
        fields as the header; `drop` leaves it out.
    non_finite: with `error` (default), `compile` refuses vectors that contain NaN or infinity; `drop` leaves those rows out.
    max_tokens: rows with more tokens are left out. By default no row is left out. Instead, a row is an error if it has more
        than 16,384 tokens, or if padding all other rows to its length would exceed the memory limit and leave less than an
        eighth of the padded table for tokens.
    delimiter: the character between the fields of a CSV or TSV, or `tab`; by default, it depends on the suffix of the file.
    encoding: the encoding of a text file, such as cp1252; by default, `utf-8`.
    label_names: class names that are known already. They get the first class numbers, and further labels of the table follow.
        By default, the class names are the sorted distinct labels of the table.
    """

    task: Task | None
    tokenizer: str | Path | Tokenizer
    input: str | None
    label: str | None
    ordered: bool | None
    on_conflict: OnConflict
    delimiter: str | None
    encoding: str | None
    label_names: Sequence[str] | None


@dataclass(frozen=True)
class DataSource(JsonRecord):
    """The name of a data file, and the options with which it was read.

    file        name of the file, without its folder; None for a data frame
    input, label
                column names; None stands for the default column
    tokenizer   `char`, `word`, `bytes`, `file` or, for ids with large gaps, `ids`; None for other ids, vectors and data frames
    delimiter, encoding
                the delimiter and encoding of a text file; None for the default
    recite      whether the file was read as texts that were cut into windows of consecutive tokens, each labelled with the next
                token
    """

    file: str | None = None
    input: str | None = None
    label: str | None = None
    on_conflict: OnConflict = "error"
    tokenizer: str | None = None
    recite: bool = False
    empty_labels: EmptyLabels = "error"
    delimiter: str | None = None
    encoding: str | None = None
    empty_inputs: RowRule = "error"
    malformed_rows: RowRule = "error"
    non_finite: RowRule = "error"
    max_tokens: int | None = None

    def unit(self, task: Task) -> Unit:
        """Return `context` if each label is the token that follows in a text, and `row` otherwise."""
        return "context" if task == "distribution" or self.recite else "row"

    def columns(self, task: Task) -> tuple[str, str]:
        """Return the names of the columns (or arrays) that were read as input and label."""
        kind = (self.file or "").rpartition(".")[2].lower()
        if self.unit(task) == "context":
            return self.input or ("line" if kind == "txt" else "text"), NEXT_TOKEN
        if kind == "npz":
            return "inputs", "labels"
        return self.input or USUAL_COLUMNS[0], self.label or USUAL_COLUMNS[1]

    def question_column(self, task: Task) -> str:
        """Return the name of the column of questions in another table: by default, the name of the column of inputs."""
        return self.input or ("text" if self.unit(task) == "context" else USUAL_COLUMNS[0])

    def column_options(self, kind: str, task: Task) -> dict[str, str | None]:
        """Return the recorded column names as options for reading another file, of the kind `kind`, in the same way.

        Documents have no column of labels, and some kinds of files have no columns. Options that do not apply are left out.
        """
        if kind in WITHOUT_COLUMNS:
            return {}
        if self.unit(task) == "context":
            return {"input": self.input}
        return {"input": self.input, "label": self.label}

    def text_options(self, kind: str) -> dict[str, str | None]:
        """Return the recorded delimiter and encoding as options for reading another file, of the kind `kind`, in the same way.

        An option that does not apply to this kind of file is None.
        """
        return {
            "delimiter": self.delimiter if kind in ("csv", "tsv") else None,
            "encoding": self.encoding if kind not in ("npz", "parquet") else None,
        }
