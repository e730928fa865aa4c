"""`DataSource`: how a data set was read, so that another file can be read alike."""

from __future__ import annotations

from dataclasses import dataclass

from byheart.data.options import EmptyLabels, OnConflict
from byheart.json_record import JsonRecord


@dataclass(frozen=True)
class DataSource(JsonRecord):
    """What a reader was told, and the name of the file it read.

    file        name of the file, without its folder
    input, label
                columns; None where the usual ones were read
    tokenizer   `char`, `word`, `bytes` or `file`; None for ids and vectors
    delimiter, encoding
                of a file of text; None where they were the usual ones
    recite      whether texts were cut into windows, each with the token that follows
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

    def written(self, kind: str) -> dict[str, str | None]:
        """Delimiter and encoding for another file, as far as its kind has such a thing."""
        return {
            "delimiter": self.delimiter if kind in ("csv", "tsv") else None,
            "encoding": self.encoding if kind not in ("npz", "parquet") else None,
        }
