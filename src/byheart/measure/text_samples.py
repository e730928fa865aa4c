"""Cut texts to their first tokens, find distinct texts, and read the papers' collections as small arrays of token ids.

The file samples.npz holds, for each collection and sampling seed, the first tokens of shuffled texts. `byheart.reproduce.samples`
creates this file on a machine that has the texts, and it can be copied to other machines. A run takes the first `n_samples`
texts and renumbers their tokens, so that its vocabulary contains only tokens of these texts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from byheart.errors import DataError, MalformedFile, UsageError
from byheart.files.npz_archive import read_npz
from byheart.measure.training_set import TrainingSet, training_set_of_documents, training_set_of_labels
from byheart.records.json_file import show_value

FILE = "samples.npz"
MOST_CLASSES = 2**24
WORDS = re.compile(r"\w+|[^\w\s]+")  # "wordpunct", case kept, as in MFT24's code

Kind = Literal["documents", "labels"]


@dataclass(frozen=True)
class Collection:
    """A collection of texts that a paper uses. Each text is cut to its first `n_tokens` tokens.

    A sample has at most `most` texts. `text` and `label` name the fields of a row that hold its text and its label; `label` is None
    for documents, which have no labels. `hub` names the data set on the Hugging Face hub: (name, config, split).
    """

    name: str
    kind: Kind
    n_tokens: int
    most: int
    text: str
    label: str | None
    n_classes: int
    hub: tuple[str, str | None, str]
    whole_only: bool = False  # keep only rows whose field `whole` is true, if rows have this field
    texts: str = ""  # the name of another collection, if its texts are used
    sub_words: bool = False  # use a class token and then sub-words, as in BERT-style tokenizers

    @property
    def source(self) -> str:
        """The name of the collection that the texts come from: this collection itself, or the one that `texts` names."""
        return self.texts or self.name

    @property
    def in_sub_words(self) -> Collection:
        """A collection of the same texts, split into sub-words instead of words."""
        return replace(self, name=f"{self.name}-sub-words", texts=self.name, sub_words=True)


_STORIES = ("roneneldan/TinyStories", None, "train")
_MULTINLI = Collection(
    "multinli", "labels", 8, 2000, "hypothesis", "label", 3, ("nyu-mll/glue", "mnli", "train")
)
_IMDB = Collection("imdb", "labels", 8, 3000, "text", "label", 2, ("stanfordnlp/imdb", None, "train"))
COLLECTIONS = {
    collection.name: collection
    for collection in (
        Collection("tinystories", "documents", 10, 1000, "text", None, 0, _STORIES, whole_only=True),
        _MULTINLI,
        _IMDB,
        _MULTINLI.in_sub_words,
        _IMDB.in_sub_words,
    )
}


def text_rows(raw: bytes, path: str | Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON lines file. Raise `MalformedFile`, naming the line, if a line is not an object."""
    rows = []
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise MalformedFile(
                f"{path}, line {number} is not a JSON object: {error}.", path=str(path), line=number
            ) from error
        if not isinstance(row, dict):
            raise MalformedFile(
                f"{path}, line {number} is not a JSON object, but {show_value(row)}.",
                path=str(path),
                line=number,
            )
        rows.append(row)
    return rows


def read_column(rows: Sequence[Mapping[str, Any]], name: str, path: str) -> list[str]:
    """Return one field of all rows as texts. Raise `DataError`, naming the row, if a row does not have it."""
    for number, row in enumerate(rows, start=1):
        if name not in row:
            raise DataError(f"{path}, row {number}: there is no field `{name}`.", path=path, row=number)
    return [str(row[name]) for row in rows]


def read_label(cell: str, path: str, n_classes: int = MOST_CLASSES) -> int:
    """Return a label as a number. Raise `DataError` if it is not a whole number from 0 to `n_classes` - 1."""
    if not (cell.isascii() and cell.isdigit() and len(cell) < 9 and int(cell) < n_classes):
        raise DataError(
            f"{path}: labels must be whole numbers from 0 up to, but not including, {n_classes:,}; one is {show_value(cell)}.",
            path=path,
        )
    return int(cell)


def first_words(text: str, n_tokens: int) -> list[str]:
    """Return the first `n_tokens` words and runs of punctuation of `text`."""
    return [match.group() for _, match in zip(range(n_tokens), WORDS.finditer(text), strict=False)]


def number_words(texts: Sequence[Sequence[str]]) -> tuple[np.ndarray, int]:
    """Convert texts of equal length to ids, with words numbered in the order of their code points.

    Also return the number of distinct words.
    """
    number = {word: i for i, word in enumerate(sorted({word for text in texts for word in text}))}
    return np.array([[number[word] for word in text] for text in texts], dtype=np.int64), len(number)


def visible_text(words: Sequence[str], place: int, *, ordered: bool = False) -> tuple[str, ...]:
    """Return the part of a text that a model can see.

    With `ordered`, this is the whole text. Otherwise, it is the token at `place` and the multiset of the other tokens.
    """
    return tuple(words) if ordered else (words[place], *sorted([*words[:place], *words[place + 1 :]]))


@dataclass(frozen=True)
class DistinctTexts:
    """The texts that can be memorised. `chosen` lists their numbers (indices).

    Several texts may look the same to the model. If they have the same label, the first is chosen, and the others count as
    repeated. If their labels differ, none is chosen, and all of them count as conflicting.
    """

    chosen: list[int]
    n_conflicting: int
    n_repeated: int


def distinct_texts(
    order: Sequence[int], visible: Mapping[int, tuple[str, ...]], labels: Sequence[int]
) -> DistinctTexts:
    """Choose texts that can be memorised. `order` lists the indices of the texts; the chosen ones keep this order.

    `visible` holds the part of each text that a model can see. Of several texts with the same visible part, choose the first if
    all have the same label, and none if their labels differ.
    """
    seen: dict[tuple[str, ...], set[int]] = {}
    first: dict[tuple[str, ...], int] = {}
    for i in order:
        seen.setdefault(visible[i], set()).add(labels[i])
        first.setdefault(visible[i], i)
    chosen = [i for i in order if len(seen[visible[i]]) == 1 and first[visible[i]] == i]
    n_conflicting = sum(len(seen[visible[i]]) > 1 for i in order)
    return DistinctTexts(chosen, n_conflicting, len(order) - n_conflicting - len(chosen))


@dataclass(frozen=True)
class Samples:
    """The file of prepared samples: token ids and labels of the texts drawn from each collection."""

    path: Path

    @classmethod
    def at(cls, folder: Path) -> Samples:
        """Open the samples in `folder`. If there are none, raise `UsageError`, which says how to make them."""
        path = folder / FILE
        if not path.is_file():
            raise UsageError(
                f"there are no prepared samples at {path}.\n"
                f"  Download the texts with `byheart reproduce NAME --texts hub --samples {folder}`, or "
                "give a folder of texts: `--texts FOLDER`.",
                path=str(path),
            )
        return cls(path)

    def ids(self, collection: str, sample: int) -> np.ndarray:
        """Return the token ids (n_samples, n_tokens) of the sample drawn with seed `sample`."""
        return _arrays(str(self.path), collection, sample)[0]

    def describe(self, collection: str, n_samples: int, sample: int) -> dict[str, Any]:
        """Describe, for the configuration of a run, a data set of `n_samples` texts: the first ones that were drawn from the
        collection with the seed `sample`.
        """
        return {
            "kind": "prepared",
            "path": str(self.path),
            "collection": collection,
            "n_samples": n_samples,
            "seed": sample,
            "sha256": _digest(str(self.path), collection, n_samples, sample),
        }


@lru_cache(maxsize=1024)
def _digest(path: str, collection: str, n_samples: int, sample: int) -> str:
    """Return the digest of the first `n_samples` texts of the sample drawn with seed `sample`.

    Digests are cached, because thousands of runs need them.
    """
    ids, labels = _arrays(path, collection, sample)
    if n_samples > len(ids):
        raise DataError(
            f"{path} has too few texts ({len(ids)}) of {collection}; needed: {n_samples}.",
            collection=collection,
        )
    return hashlib.sha256(ids[:n_samples].tobytes() + labels[:n_samples].tobytes()).hexdigest()


@lru_cache(maxsize=64)
def _arrays(path: str, collection: str, sample: int) -> tuple[np.ndarray, np.ndarray]:
    names = [f"{collection}_{sample}_{part}" for part in ("ids", "labels")]
    arrays = read_npz(Path(path), names)
    ids, labels = (arrays[name] for name in names)
    if ids.ndim != 2 or labels.shape != ids.shape[:1] or not {ids.dtype.kind, labels.dtype.kind} <= set("iu"):
        raise DataError(
            f"{path}: {names[0]} must have one row of whole numbers for each text, and "
            f"{names[1]} one number for each text;"
            f" their shapes are {ids.shape} and {labels.shape}.",
            path=path,
        )
    return ids, labels


def training_set_of_sample(d: Mapping[str, Any]) -> TrainingSet:
    """Return the training set for a description that `Samples.describe` returned."""
    ids, labels = _arrays(d["path"], d["collection"], d["seed"])
    ids, labels = ids[: d["n_samples"]], labels[: d["n_samples"]]
    if hashlib.sha256(ids.tobytes() + labels.tobytes()).hexdigest() != d["sha256"]:
        raise DataError(
            f"{d['path']} changed after the runs were set up. Run the same command again.", path=d["path"]
        )
    collection = COLLECTIONS[d["collection"]]
    words, numbered = np.unique(ids, return_inverse=True)
    inputs = numbered.reshape(ids.shape).astype(np.int64)
    if collection.kind == "documents":
        return training_set_of_documents(inputs, len(words))
    return training_set_of_labels(
        inputs, labels.astype(np.int64), n_classes=collection.n_classes, n_vocab=len(words), read="first"
    )
