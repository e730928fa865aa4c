"""Make a `Dataset` from a path, pairs, a dictionary, a data frame, or inputs and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from byheart.data.dataset import Dataset
from byheart.data.frames import cells_or_none, is_column, is_frame
from byheart.data.row_rules import RULES
from byheart.errors import DataError, UsageError

FILE_OPTIONS = ("delimiter", "encoding", "malformed_rows")
READING_OPTIONS = tuple(
    dict.fromkeys(
        ("input", "label", "tokenizer", "ordered", "on_conflict", "label_names", *RULES, *FILE_OPTIONS)
    )
)
"""The options of `byheart.compile` that control how data are read, not how they are compiled."""


def dataset_of(given: Any, labels: Any = None, **reading: Any) -> Dataset:
    """Convert `given` to a data set. `reading` holds options of `Dataset.read`; options that are None are ignored.

    labels: the labels, if `given` holds only the inputs, as with X and y in scikit-learn; otherwise None.
    """
    if labels is not None:
        given = _inputs_and_labels(given, labels)
    options = {name: value for name, value in reading.items() if value is not None}
    if isinstance(given, Dataset):
        task = options.pop("task", given.task)
        if task != given.task:
            raise UsageError(
                f"the data set is for the task `{given.task}`, not `{task}`; leave out the option `task`.",
                task=task,
            )
        if options:
            raise UsageError(
                "these options apply only while data are read, but a Dataset was given, which has been read already: "
                f"{', '.join(sorted(options))}.\n"
                "  Leave them out, or give the path of the file.",
                options=options,
            )
        return given
    if isinstance(given, str | Path):
        return Dataset.read(given, **options)
    columns = () if is_frame(given) else ("input", "label")
    arrays = isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], np.ndarray)
    for name in (*FILE_OPTIONS, *columns, *(("tokenizer",) if arrays else ())):
        if name in options:
            raise UsageError(
                f"{name} is not an option for data of type {type(given).__name__}; leave it out.",
                name=name,
                given_type=type(given).__name__,
            )
    if is_frame(given):
        return Dataset.from_pandas(given, **options)
    if isinstance(given, Mapping):
        return Dataset.from_pairs(given.items(), **options)
    if arrays:
        return Dataset.from_arrays(given[0], given[1], **options)
    if isinstance(given, Iterable):
        return Dataset.from_pairs(_pairs(given), **options)
    raise UsageError(
        f"data of type {type(given).__name__} cannot be compiled: give a path, (input, label) pairs, a "
        "dictionary, a data frame, or inputs and labels as compile(X, y).",
        given_type=type(given).__name__,
    )


def _inputs_and_labels(inputs: Any, labels: Any) -> Any:
    """Convert inputs and their labels to what `dataset_of` accepts: a pair of arrays, or (input, label) pairs."""
    if isinstance(inputs, str | Path | Dataset | Mapping) or not hasattr(inputs, "__len__"):
        raise UsageError(
            f"labels were given, so the inputs must be a list or an array, but they have type {type(inputs).__name__}.\n"
            "  Give inputs and labels as compile(X, y), or the data alone as compile(data).",
            given_type=type(inputs).__name__,
        )
    if is_frame(inputs):
        names = list(getattr(inputs, "column_names", inputs.columns))  # in pandas, they need not be texts
        inputs = inputs[names[0]] if len(names) == 1 else _numbers(inputs, names)
    cells = cells_or_none(inputs) if is_column(inputs) else inputs
    if not hasattr(labels, "__len__") or isinstance(labels, str | Mapping):
        raise UsageError(
            f"labels must be a list or an array with one label per input, not {labels!r}.", labels=labels
        )
    if len(cells) != len(labels):
        raise UsageError(
            f"the number of inputs is {len(cells):,}, but the number of labels is {len(labels):,}; give one label for each "
            "input.",
            n_inputs=len(cells),
            n_labels=len(labels),
        )
    if isinstance(cells, np.ndarray) and cells.dtype.kind not in "OU":
        return cells, np.asarray(labels)
    if hasattr(cells, "numpy"):  # a tensor
        return np.asarray(cells), np.asarray(labels)
    listed = cells_or_none(labels) if is_column(labels) else labels
    listed = listed.tolist() if hasattr(listed, "tolist") else list(listed)
    cells = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    if cells and isinstance(cells[0], float):
        return _vectors(cells).reshape(-1, 1), np.asarray(listed)  # one number for each sample
    if cells and _is_vector(cells[0]):
        return _vectors(cells), np.asarray(listed)
    return list(zip(cells, listed, strict=True))


def _is_vector(cell: Any) -> bool:
    """Whether an input is a vector or a list of vectors, not token ids."""
    if not isinstance(cell, list | tuple | np.ndarray):
        return False
    try:
        array = np.asarray(cell)
    except ValueError:  # lists of different lengths
        return True
    return array.size > 0 and (array.dtype.kind == "f" or array.ndim == 2)


def _vectors(cells: list[Any]) -> np.ndarray:
    """Return inputs that are numbers, vectors or lists of vectors as one array. Raise `DataError` if their shapes differ."""
    try:
        return np.asarray(cells)
    except ValueError:
        shapes = [_shape(cell) for cell in cells]
    at = next(at for at, shape in enumerate(shapes) if shape is None or shape != shapes[0])
    found = "vectors of different dimensions" if shapes[at] is None else f"the shape {shapes[at]}"
    first = "(seq_len, dim)" if shapes[0] is None else shapes[0]
    raise DataError(
        f"row {at + 1}: the input has {found}; all inputs must have one shape, {first}.",
        row=at + 1,
        shape=shapes[at],
    )


def _shape(cell: Any) -> tuple[int, ...] | None:
    """Return the shape of an input, or None if its vectors have different dimensions."""
    try:
        shape: tuple[int, ...] = np.shape(cell)
    except ValueError:
        return None
    return shape


def _numbers(frame: Any, names: list[Any]) -> np.ndarray:
    """Return the rows of a data frame of numeric features as vectors."""
    try:
        return np.column_stack([np.asarray(frame[name], dtype=np.float64) for name in names])
    except (TypeError, ValueError, KeyError):
        listed = ", ".join(map(str, names))
        raise UsageError(
            f"the inputs are a data frame of {len(names)} columns ({listed}), but not all of these columns hold numbers.\n"
            "  Give one column of texts, as in compile(frame[NAME], labels), or only columns of numbers.",
            columns=names,
        ) from None


def _pairs(given: Iterable[Any]) -> list[tuple[Any, Any]]:
    pairs = []
    for number, item in enumerate(given, start=1):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise UsageError(
                f"item {number} is {item!r}, not an (input, label) pair.\n"
                "  Give arrays as a pair: (inputs, labels).",
                item=number,
            )
        pairs.append((item[0], item[1]))
    return pairs
