"""The papers' texts: from local JSONL files, or from the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from byheart.errors import UsageError, import_extra
from byheart.measure.text_samples import COLLECTIONS, text_rows

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
        found[name] = text_rows(path.read_bytes(), path)
    return found


def hub_texts() -> dict[str, Sequence[dict[str, Any]]]:
    """The first rows of every collection's split on the Hugging Face hub."""
    datasets = import_extra("datasets", "hub", "Fetching texts from the Hugging Face hub")
    found: dict[str, Sequence[dict[str, Any]]] = {}
    for collection in COLLECTIONS.values():
        if collection.source not in found:
            repository, config, split = collection.hub
            rows = datasets.load_dataset(repository, config, split=split, streaming=True)
            found[collection.source] = [dict(row) for row in islice(rows, MOST_FROM_HUB)]
    return found
