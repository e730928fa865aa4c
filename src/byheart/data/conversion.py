"""Whatever a user holds as a `Dataset`: a path, pairs, a dictionary, a data frame, two arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from byheart.data.dataset import Dataset
from byheart.data.frames import is_frame
from byheart.errors import UsageError

FILE_OPTIONS = ("empty_labels", "delimiter", "encoding")
READING_OPTIONS = ("input", "label", "tokenizer", "ordered", "on_conflict", "label_names", *FILE_OPTIONS)
"""Options of a call that say how data are read, not how they are compiled."""


def dataset_of(given: Any, **reading: Any) -> Dataset:
    """The data set that `given` holds; `reading` are the options of `Dataset.read`, without those that are None."""
    options = {name: value for name, value in reading.items() if value is not None}
    if isinstance(given, Dataset):
        task = options.pop("task", given.task)
        if task != given.task:
            raise UsageError(f"the data set is for the task {given.task}, not {task}.", task=task)
        if options:
            raise UsageError(
                f"a Dataset has been read already; leave out {', '.join(sorted(options))}, or give the path."
            )
        return given
    if isinstance(given, str | Path):
        return Dataset.read(given, **options)
    columns = () if is_frame(given) else ("input", "label")
    arrays = isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], np.ndarray)
    for name in (*FILE_OPTIONS, *columns, *(("tokenizer",) if arrays else ())):
        if name in options:
            raise UsageError(f"{name} says how a file is read; it does not go with {type(given).__name__}.")
    if is_frame(given):
        return Dataset.from_pandas(given, **options)
    if isinstance(given, Mapping):
        return Dataset.from_pairs(given.items(), **options)
    if arrays:
        return Dataset.from_arrays(given[0], given[1], **options)
    if isinstance(given, Iterable):
        return Dataset.from_pairs(_pairs(given), **options)
    raise UsageError(
        f"data of type {type(given).__name__} cannot be compiled: give a path, (input, label) pairs, a dictionary, a data frame, "
        "or arrays as (inputs, labels)."
    )


def _pairs(given: Iterable[Any]) -> list[tuple[Any, Any]]:
    pairs = []
    for number, item in enumerate(given, start=1):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise UsageError(
                f"item {number} is {item!r}, not an (input, label) pair.\n"
                "  Arrays go in as a pair of arrays: (inputs, labels).",
                item=number,
            )
        pairs.append((item[0], item[1]))
    return pairs
