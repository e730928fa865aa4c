"""Examine a data file before compiling it: its rows, their faults, and the size that each construction would need."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from byheart.bounds import table
from byheart.construct.estimates import require_offer, usual_estimate
from byheart.construct.registry import get as get_method
from byheart.construct.registry import names as method_names
from byheart.data.dataset import Dataset
from byheart.data.shape import DataShape
from byheart.data.tables import separated_rows
from byheart.data.textfile import TextFormat
from byheart.errors import ByheartError
from byheart.process.progress import in_stage, part_of
from byheart.web.context import Context, Document

PREVIEW_ROWS = 8
PREVIEW_CHARS = 2000  # how many characters of a cell or a line are shown
NUMBERS = ("n_samples", "n_labels", "n_classes", "task", "seq_len", "vocab", "dim", "label_bits")
TEXTS = (".csv", ".tsv", ".txt", ".jsonl")


def examine(context: Context, path: str, reading: dict[str, Any]) -> Document:
    """Return the rows, duplicates and conflicts of a data file, the size that every construction would need, and the bounds.

    If no network can memorise the data, the lists of sizes and bounds are empty.
    """
    file = Path(path)
    context.progress(0, 1, "read")
    told = in_stage(part_of(context.progress, 0.0, 0.6), "read")
    # keep conflicting rows, so that they can be counted
    data = Dataset.read(file, progress=told, **{"on_conflict": "keep", **reading})
    report = data.check()
    document: Document = {
        "file": file.name,
        **{name: getattr(data, name) for name in NUMBERS},
        "duplicates": len(report.duplicates),
        "conflicts": data.n_conflicting,
        "conflict_examples": list(report.examples),
        "non_finite": len(report.non_finite),
        "is_memorisable": report.is_memorisable,
        "left_out": dict(data.left_out),
        "preview": preview(file, reading.get("delimiter")),
    }
    if not report.is_memorisable:
        return {**document, "bounds": [], "not_applicable": [], "methods": []}
    context.progress(6, 10, "bounds")
    theory = table(data)
    shape = DataShape.of(data)
    return {
        **document,
        "bounds": [bound.to_json() for bound in theory.applicable],
        "not_applicable": [entry.to_json() for entry in theory.not_applicable],
        "methods": [_estimate(name, shape) for name in method_names()],
    }


def _estimate(name: str, shape: DataShape) -> Document:
    """Estimate the size of a construction on data of this shape, or return the reason why it does not accept such data.

    In the result, `refusal` is this reason, or None. `options` are those that `compile` chooses by default, for example the number
    of bits that reject unknown inputs, and `size` is the size of the model with these options. `plain_size` is the size with the
    plainest options, for example without these bits. It is None if `options` are already the plainest. If there is a
    `refusal`, the sizes may be None.
    """
    method = get_method(name)
    row: Document = {
        "method": name,
        "source": method.source,
        "precisions": list(method.precisions),
        "size": None,
        "refusal": None,
        "options": {},
        "plain_size": None,
    }
    try:
        require_offer(method, shape.task, None)
        size, row["options"] = usual_estimate(method, shape)
        row["size"] = asdict(size)
        plainest = method.usual(method.precisions[0])[-1]
        if row["options"] != plainest:  # for example, retrieval without reject bits
            row["plain_size"] = asdict(method.estimate(shape, plainest))
    except (ByheartError, MemoryError) as refusal:
        row["refusal"] = str(refusal) or type(refusal).__name__
    return row


def preview(path: Path, delimiter: str | None = None) -> Document:
    """Return the names of the columns and the first rows of a text file. Long cells and lines are cut off. For other kinds of
    files, return no columns and no rows.

    Empty lines are not shown. `delimiter` separates the cells of a row; by default, the suffix of the file decides.
    """
    kind = path.suffix.lower()
    if kind not in TEXTS:
        return {"columns": [], "rows": []}
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        if kind in (".csv", ".tsv"):
            header, *rows = _first_rows(stream, kind[1:], TextFormat(delimiter=delimiter)) or [[]]
            return {"columns": header, "rows": rows}
        shown = (line[:PREVIEW_CHARS] for line in stream if line.strip("\r\n"))
        lines = list(islice(shown, PREVIEW_ROWS))
    if kind == ".txt":
        return {"columns": ["text"], "rows": [[line.rstrip("\r\n")] for line in lines]}
    entries = [_json_line(line) for line in lines]
    columns = list(dict.fromkeys(name for entry in entries for name in entry))
    return {"columns": columns, "rows": [[str(entry.get(name, "")) for name in columns] for entry in entries]}


def _first_rows(stream: TextIO, kind: str, written: TextFormat) -> list[list[str]]:
    """Return the header and the first rows of a CSV or TSV, up to a row that cannot be read."""
    rows: list[list[str]] = []
    try:
        for row in islice(filter(None, separated_rows(stream, kind, written)), PREVIEW_ROWS + 1):
            rows.append([cell[:PREVIEW_CHARS] for cell in row])
    except csv.Error:  # for example, a quotation mark that is never closed
        pass
    return rows


def _json_line(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {"": line}
    return entry if isinstance(entry, dict) else {"": line}
