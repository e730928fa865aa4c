"""Convert two columns of a table to the content of a data set, leaving out the rows that cannot be memorised.

Faulty rows are removed only after all rows are encoded. Until then, a row with an empty input stands in for each of them, so that
the row numbers in messages are those of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from byheart.data.assemble import Content, content_of_columns, default_task
from byheart.data.frames import is_missing
from byheart.data.kept_rows import NOTHING, Known, keep_rows
from byheart.data.label_types import type_for, type_of_labels
from byheart.data.options import Task
from byheart.data.row_rules import RowCheck, Rows
from byheart.data.sequences import TokenSequences
from byheart.data.tokenizers import Tokenizer
from byheart.errors import DataError, amount


@dataclass(frozen=True)
class MalformedRow:
    """Stands in for a line that is not a valid row of the table, and holds the error to report."""

    error: DataError


def checked_content(
    inputs: Sequence[Any],
    labels: Sequence[Any],
    check: RowCheck,
    *,
    task: Task | None = None,
    tokenizer: str | Path | Tokenizer = "char",
    ordered: bool | None = None,
    label_names: Sequence[str] | None = None,
    empty_text_is_label: bool = False,
    input_cell: Callable[[Any, int], Any] = lambda cell, row: cell,
    label_cell: Callable[[Any, int, Task], Any] = lambda cell, row, task: cell,
) -> Content:
    """Return the content of the valid rows, and report the others to `check`.

    empty_text_is_label: if True, an empty text is a valid label, unless the rule `empty_labels` is given. None and NaN always
        count as missing labels.
    input_cell, label_cell: functions that turn the cell of a row into an input or a label.
    """
    malformed = np.fromiter((isinstance(cell, MalformedRow) for cell in inputs), bool, len(inputs))
    first = next((cell for cell in inputs if isinstance(cell, MalformedRow)), None)
    if first is not None:
        check.settle("malformed_rows", malformed, "not a valid row of the table", first.error)
    lenient = empty_text_is_label and "empty_labels" not in check.rules
    unlabelled = ~malformed & _mask(labels, lambda cell: is_missing(cell) or (cell == "" and not lenient))
    if check.rule("empty_labels") == "keep":
        labels = ["" if is_missing(cell) else cell for cell in labels]
        unlabelled[:] = False
    check.settle("empty_labels", unlabelled, "no label", _no_label(unlabelled))
    missing = ~malformed & _mask(inputs, is_missing)
    standing = ~(malformed | unlabelled | missing)
    content, empty = None, missing
    if standing.any():
        good = np.flatnonzero(standing).tolist()
        chosen = task or default_task([labels[good[0]]])
        nothing: Any = [] if isinstance(inputs[good[0]], list | tuple | np.ndarray) else ""
        some: Any = [] if chosen == "seq-to-seq" else label_cell(labels[good[0]], good[0] + 1, chosen)
        content = content_of_columns(
            [
                input_cell(cell, row) if stands else nothing
                for row, cell, stands in _numbered(inputs, standing)
            ],
            [
                label_cell(cell, row, chosen) if stands else some
                for row, cell, stands in _numbered(labels, standing)
            ],
            task=chosen,
            tokenizer=tokenizer,
            ordered=ordered,
            label_names=label_names,
        )
        kind = type_of_labels(labels[at] for at in good)
        content = replace(content, label_type=type_for(content.label_names, kind))
        empty = missing | (standing & (content.inputs.lengths == 0))
    check.settle("empty_inputs", empty, "no token in the input", _no_input(empty))
    return _standing_rows(
        content, standing & ~empty, check, Known(label_names or (), isinstance(tokenizer, Tokenizer))
    )


def checked_arrays(content: Content, check: RowCheck, known: Known = NOTHING) -> Content:
    """Return `content` without the rows whose input is empty or too long, and report these rows to `check`."""
    if not len(content.inputs):
        return content  # `Dataset` refuses an empty data set
    empty = content.inputs.lengths == 0
    check.settle("empty_inputs", empty, "no token in the input", _no_input(empty))
    return _standing_rows(content, ~empty, check, known)


def _standing_rows(content: Content | None, standing: Rows, check: RowCheck, known: Known) -> Content:
    """Return the content of the valid rows that are not too long. Raise `DataError` if there are none."""
    if content is not None and isinstance(content.inputs, TokenSequences):
        standing = standing & ~check.settle_lengths(content.inputs, standing)
    if content is None or not standing.any():
        check.require_none()
        raise DataError(
            f"no row is left: {', '.join(f'{rule} leaves out {n:,}' for rule, n in check.left_out.items())}.",
            left_out=check.left_out,
        )
    return keep_rows(content, standing, known)


def _mask(cells: Sequence[Any], is_so: Callable[[Any], bool]) -> Rows:
    plain = (isinstance(cell, str | float | np.floating | None) and is_so(cell) for cell in cells)
    return np.fromiter(plain, bool, len(cells))


def _numbered(cells: Sequence[Any], standing: Rows) -> Iterable[tuple[int, Any, bool]]:
    return zip(range(1, len(cells) + 1), cells, standing.tolist(), strict=True)


def _no_label(faulty: Rows) -> DataError:
    row = int(np.argmax(faulty)) + 1
    return DataError(
        f"row {row}: the label is empty ({amount(int(faulty.sum()), 'such row')}).\n"
        '  Fill it in, leave such rows out with empty_labels="drop" (--empty-labels drop), or keep it as '
        "an empty label:\n"
        '  empty_labels="keep" (--empty-labels keep).',
        row=row,
    )


def _no_input(faulty: Rows) -> DataError:
    row = int(np.argmax(faulty)) + 1
    return DataError(
        f"row {row} has an input without tokens ({amount(int(faulty.sum()), 'such row')}), so no token "
        "can carry its label.\n"
        '  Leave such rows out with empty_inputs="drop" (--empty-inputs drop), or use a tokenizer that '
        "makes tokens of their text.",
        row=row,
    )
