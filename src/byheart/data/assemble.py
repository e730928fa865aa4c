"""Convert Python and numpy values to the content of a data set, and check the values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from byheart.data.label_types import type_of_array
from byheart.data.options import DataSource, Task
from byheart.data.sequences import Sequences, TokenSequences, VectorSequences, as_vectors, offsets_of
from byheart.data.tokenizers import IdTokenizer, Tokenizer, make_tokenizer
from byheart.errors import DataError, UsageError
from byheart.records.vocabulary import LabelType

MOST_GAPS, FEW_IDS = 64, 1 << 20
"""If the vocabulary size (the largest id plus one) exceeds `MOST_GAPS * n_tokens + FEW_IDS`, the distinct ids are renumbered
to save memory. An `IdTokenizer` then stores the original ids.
"""


@dataclass(frozen=True, eq=False)
class Content:
    """The fields of a `Dataset` before they are checked; see `Dataset` for what they mean."""

    inputs: Sequences
    labels: Int[np.ndarray, " n_labels"]
    task: Task
    label_names: tuple[str, ...]
    tokenizer: Tokenizer | None
    ordered: bool
    source: DataSource | None = None
    rows: Int[np.ndarray, " n_samples"] | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    label_type: LabelType = "text"

    @property
    def labels_per_sample(self) -> Int[np.ndarray, " n_samples"]:
        """Return the number of labels of each sequence.

        Depending on the task, this is one, one per token, or one per token except the first.
        """
        lengths = self.inputs.lengths
        if self.task == "seq-to-seq":
            return lengths
        if self.task == "distribution":
            return np.asarray(np.maximum(lengths - 1, 0))
        return np.ones(len(self.inputs), dtype=np.int64)


def content_of_arrays(
    inputs: Sequences | np.ndarray | Sequence[Any],
    labels: np.ndarray | Sequence[Any],
    *,
    task: Task | None = None,
    ordered: bool | None = None,
    n_vocab: int | None = None,
    label_names: Sequence[str] | None = None,
) -> Content:
    """Return the content of a data set given as arrays; see `Dataset.from_arrays`."""
    sequences, tokenizer = _as_sequences(inputs, n_vocab)
    flat, task = _flat_labels(_label_array(labels), sequences, task)
    numbers, names = _classes_of(flat, label_names)
    kind: LabelType = "text" if label_names is not None else type_of_array(flat)
    is_ordered = _is_ordered(sequences, task, ordered)
    return Content(sequences, numbers, task, names, tokenizer, is_ordered, label_type=kind)


def content_of_columns(
    inputs: Sequence[Any],
    labels: Sequence[Any],
    *,
    task: Task | None = None,
    tokenizer: str | Path | Tokenizer = "char",
    ordered: bool | None = None,
    label_names: Sequence[str] | None = None,
) -> Content:
    """Return the content of a data set given as a list of inputs and a list of labels."""
    if task == "distribution":
        raise UsageError("task `distribution` needs documents; use Dataset.from_documents.")
    if not inputs:
        raise DataError("the data set has no samples, so there is nothing to memorise.")
    task = task or default_task(labels)
    inputs = list(numbers_as_texts(inputs))
    used: Tokenizer | None
    sequences: Sequences
    if isinstance(inputs[0], str):
        require_texts(inputs)
        used = make_tokenizer(tokenizer, inputs)
        sequences = used.encode_all(inputs)
    else:
        used = tokenizer if isinstance(tokenizer, Tokenizer) else None
        sequences, numbered = _as_sequences(inputs, None if used is None else len(used.vocabulary))
        used = used or numbered
    if task == "seq-to-seq":
        labels = _one_label_a_token(labels, sequences)
    _require_scalars(labels)
    labels = [float(label) if isinstance(label, np.floating) else label for label in labels]
    if all(isinstance(label, (int, np.integer)) and not isinstance(label, bool) for label in labels):
        found = [str(value) for value in sorted({int(label) for label in labels})]
    else:
        found = sorted({str(label) for label in labels})
    require_texts(found, "label")
    number = number_names(label_names or (), found)
    numbers = np.fromiter((number[str(label)] for label in labels), dtype=np.int64, count=len(labels))
    return Content(sequences, numbers, task, tuple(number), used, _is_ordered(sequences, task, ordered))


def numbers_as_texts(inputs: Sequence[Any] | np.ndarray) -> Sequence[Any] | np.ndarray:
    """If the first input is a number, return the numbers among the inputs as texts, as if they had been read from a file."""
    if not isinstance(inputs[0], int | float | np.number) or isinstance(inputs[0], bool):
        return inputs
    # the text of a NumPy number has only as many digits as its type needs: that of a float32 may name another number
    numbers = (float(one) if isinstance(one, np.floating) else one for one in inputs)
    return [str(one) if isinstance(one, int | float | np.number) else one for one in numbers]


def content_of_texts(texts: Sequence[Any], tokenizer: str | Path | Tokenizer) -> Content:
    """Return the content of a data set of documents. The label of each prefix is the token that follows it."""
    require_texts(texts)
    used = make_tokenizer(tokenizer, texts)
    return content_of_documents(used.encode_all(texts), used)


def content_of_documents(documents: TokenSequences, tokenizer: Tokenizer | None = None) -> Content:
    """Return the content of a data set of tokenized documents. The label of each prefix is the token that follows it."""
    names = tuple(map(str, range(documents.n_vocab))) if tokenizer is None else tokenizer.vocabulary
    later = documents.ids[documents.positions > 0]
    return Content(documents, later, "distribution", names, tokenizer, True)


def default_task(labels: Sequence[Any]) -> Task:
    """Infer the task from the first label: `seq-to-seq` if it is a list with one label per token, otherwise `next-token`."""
    return "seq-to-seq" if isinstance(labels[0], (list, tuple, np.ndarray)) else "next-token"


def number_names(known: Sequence[str], found: Iterable[str]) -> dict[str, int]:
    """Number the class names: known names keep their numbers, and new names get the numbers after them."""
    return {name: number for number, name in enumerate(dict.fromkeys([*known, *found]))}


def require_texts(texts: Sequence[Any], what: str = "input") -> None:
    """Raise `DataError` unless every item is a text that can be encoded in UTF-8."""
    for row, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise DataError(
                f"row {row}: the {what} is {text!r}, but it must be a text.\n  Convert it to a text.",
                row=row,
                value=text,
            )
    try:
        "".join(texts).encode("utf-8")
    except UnicodeEncodeError:
        broken = next(text for text in texts if any("\ud800" <= c <= "\udfff" for c in text))
        raise DataError(
            f"the {what} {broken!r} holds half of a UTF-16 surrogate pair, which is not a character.\n"
            "  The text was cut in the middle of a character: repair it.",
            text=broken,
        ) from None


def _is_ordered(sequences: Sequences, task: Task, ordered: bool | None) -> bool:
    if ordered is None:
        return task != "set" and isinstance(sequences, TokenSequences)
    if not isinstance(ordered, bool | np.bool_):
        raise UsageError(f"ordered must be True or False, not {ordered!r}.", ordered=ordered)
    return bool(ordered)


def _as_sequences(
    inputs: Sequences | np.ndarray | Sequence[Any], n_vocab: int | None
) -> tuple[Sequences, IdTokenizer | None]:
    if isinstance(inputs, (TokenSequences, VectorSequences)):
        return inputs, None
    if not isinstance(inputs, np.ndarray):
        inputs = _rectangular(inputs)
    vectors = as_vectors(inputs) if isinstance(inputs, np.ndarray) else None
    if vectors is not None:
        if vectors.dtype.itemsize > 8:
            raise UsageError(
                f"the inputs have type {vectors.dtype}. Vectors are stored as float64, which cannot represent all numbers of "
                "this type.\n  Convert the inputs to float64 first, which may round them.",
                dtype=vectors.dtype,
            )
        return VectorSequences(vectors), None
    if isinstance(inputs, np.ndarray):
        if inputs.dtype.kind not in "iu" or inputs.ndim != 2:
            raise UsageError(
                "inputs must be vectors (n_samples, seq_len, dim), floats (n_samples, dim) for one vector "
                "per sample, or token "
                f"ids (n_samples, seq_len); got {inputs.dtype} of shape {inputs.shape}.",
                dtype=str(inputs.dtype),
                shape=inputs.shape,
            )
        flat, lengths = inputs.reshape(-1), np.full(inputs.shape[0], inputs.shape[1])
    else:
        rows = [_as_ids(row, number) for number, row in enumerate(inputs, start=1)]
        lengths, flat = np.array([row.size for row in rows], dtype=np.int64), np.concatenate(rows)
    if flat.dtype.kind == "u" and flat.size and flat.max() > np.iinfo(np.int64).max:
        raise DataError(f"token id {flat.max()} is too large; ids must be below 2^63.", token=int(flat.max()))
    largest = int(flat.max(initial=0)) + 1
    offsets = offsets_of(lengths)
    if n_vocab is None and largest > MOST_GAPS * flat.size + FEW_IDS and int(flat.min()) >= 0:
        distinct, numbers = np.unique(flat.astype(np.int64), return_inverse=True)
        return TokenSequences(numbers, offsets, len(distinct)), IdTokenizer.of_ids(distinct)
    return TokenSequences(flat.astype(np.int64), offsets, largest if n_vocab is None else n_vocab), None


def _rectangular(inputs: Sequence[Any]) -> np.ndarray | Sequence[Any]:
    """Return an array with 2 or 3 axes if the rows are numbers and have the same shape; otherwise return `inputs` unchanged."""
    try:
        array = np.array(inputs)
    except (ValueError, OverflowError):
        return inputs
    return array if array.dtype.kind in "iuf" and array.ndim in (2, 3) else inputs


def _as_ids(row: Any, number: int) -> Int[np.ndarray, " seq_len"]:
    try:
        ids = np.array(row)
    except ValueError:  # lists of different lengths
        ids = None
    if ids is not None and ids.size == 0:
        return np.zeros(0, dtype=np.int64)
    if ids is None or ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise DataError(f"row {number}: {row!r} is not a list of token ids (whole numbers).", row=number)
    return ids


def _label_array(labels: np.ndarray | Sequence[Any]) -> np.ndarray:
    """Convert labels to a numpy array of numbers or texts, even if they come as an array of Python objects, as from pandas."""
    array = np.asarray(labels)
    is_plain = all(isinstance(label, str | int | np.generic) for label in array.reshape(-1))
    return np.array(array.tolist()) if array.dtype.kind == "O" and is_plain else array


def _flat_labels(labels: np.ndarray, sequences: Sequences, task: Task | None) -> tuple[np.ndarray, Task]:
    if labels.dtype.kind not in "iubU" and labels.size:
        raise UsageError(
            f"labels must be whole numbers or texts; got {labels.dtype}.", dtype=str(labels.dtype)
        )
    if labels.ndim not in (1, 2):
        raise UsageError(
            f"labels must have shape (n_samples,) or (n_samples, seq_len); got {labels.shape}.",
            shape=labels.shape,
        )
    if task is None:
        task = "seq-to-seq" if labels.ndim == 2 else "next-token"
    rectangle = (len(sequences), int(sequences.lengths.max(initial=0)))
    if labels.ndim == 2 and (labels.shape != rectangle or task != "seq-to-seq"):
        raise UsageError(
            f"labels of shape {labels.shape} do not fit inputs of shape (n_samples, seq_len) = {rectangle} with the task "
            f"`{task}`.\n  Give one label per sample or, for the task seq-to-seq, one label per token.",
            shape=labels.shape,
        )
    return labels.reshape(-1), task


def _classes_of(
    labels: np.ndarray, label_names: Sequence[str] | None
) -> tuple[Int[np.ndarray, " n_labels"], tuple[str, ...]]:
    is_text = labels.dtype.kind == "U"
    if label_names is not None and not is_text:
        return labels.astype(np.int64), tuple(label_names)
    values, numbers = np.unique(labels, return_inverse=True)
    if is_text:
        require_texts(values.tolist(), "label")
        number = number_names(label_names or (), values.tolist())
        return np.array([number[name] for name in labels.tolist()], dtype=np.int64), tuple(number)
    return numbers.reshape(-1).astype(np.int64), tuple(str(int(value)) for value in values)


def _require_scalars(labels: Sequence[Any]) -> None:
    for row, label in enumerate(labels, start=1):
        if label is None:
            raise DataError(f"row {row}: the label is missing.\n  Fill it in, or drop the row.", row=row)
        if not isinstance(label, (str, int, float, np.generic)):
            is_list = isinstance(label, (list, tuple, np.ndarray))
            remedy = (
                "For one label per token, choose the task seq-to-seq." if is_list else "Convert it to a text."
            )
            raise DataError(
                f"row {row}: the label {label!r} has type {type(label).__name__}, but it must be a text or a number.\n"
                f"  {remedy}",
                row=row,
            )


def _one_label_a_token(labels: Sequence[Any], sequences: Sequences) -> list[Any]:
    flat: list[Any] = []
    for row, (own, length) in enumerate(zip(labels, sequences.lengths.tolist(), strict=True), start=1):
        listed = own.split() if isinstance(own, str) else own
        if not isinstance(listed, (list, tuple, np.ndarray)) or len(listed) != length:
            count = len(listed) if isinstance(listed, (list, tuple, np.ndarray)) else 1
            raise DataError(
                f"row {row}: the number of labels is {count}, but the number of tokens is {length}; the task seq-to-seq "
                "needs one label per token.\n"
                "  Give as many labels as the input has tokens, as a list or as a text with spaces "
                "between them.",
                row=row,
                n_labels=count,
                n_tokens=length,
            )
        flat.extend(listed)
    return flat
