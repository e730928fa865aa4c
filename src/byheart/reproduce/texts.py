"""The papers' texts: from local JSONL files, or from the Hugging Face hub."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from byheart.errors import MalformedFile, MissingExtra, UsageError
from byheart.measure.text_samples import COLLECTIONS

MOST_FROM_HUB = 50_000  # rows read of a split; far more than are sampled


def local_texts(folder: Path) -> dict[str, Sequence[dict[str, Any]]]:
    """Rows of NAME.jsonl for every kind of texts; a `UsageError` names a file that is missing."""
    found: dict[str, Sequence[dict[str, Any]]] = {}
    for name in dict.fromkeys(collection.source for collection in COLLECTIONS.values()):
        path = folder / f"{name}.jsonl"
        if not path.is_file():
            raise UsageError(
                f"there is no file {path}.\n  Name the folder of the texts with --texts, or fetch them with"
                " --texts hub.",
                path=str(path),
            )
        found[name] = _rows(path)
    return found


def _rows(path: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            rows.append(dict(json.loads(line)))
        except ValueError as error:
            raise MalformedFile(f"{path}, line {number}: {error}", path=str(path), line=number) from error
    return rows


def hub_texts() -> dict[str, Sequence[dict[str, Any]]]:
    """The first rows of every collection's split on the Hugging Face hub."""
    try:
        datasets = import_module("datasets")
    except ImportError as error:
        raise MissingExtra("datasets", "hub", "Fetching texts from the Hugging Face hub") from error
    found: dict[str, Sequence[dict[str, Any]]] = {}
    for collection in COLLECTIONS.values():
        if collection.source not in found:
            repository, config, split = collection.hub
            rows = datasets.load_dataset(repository, config, split=split, streaming=True)
            found[collection.source] = [dict(row) for row in islice(rows, MOST_FROM_HUB)]
    return found
