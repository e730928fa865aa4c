"""Make the training set of a model from a description of data in a specification.

A description consists of JSON values and is a part of the key of every run, so it must contain everything that the
data depend on. In the key, a data file is represented by the digest of its content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from byheart.errors import DataError, UsageError
from byheart.measure.text_samples import (
    WORDS,
    distinct_texts,
    first_words,
    number_words,
    read_column,
    read_label,
    text_rows,
    training_set_of_sample,
    visible_text,
)
from byheart.measure.training_set import (
    TrainingSet,
    training_set_of_documents,
    training_set_of_labels,
    training_set_of_values,
)
from byheart.process.memory_limit import require_memory

Description = Mapping[str, Any]
Maker = Callable[[Description], TrainingSet]


@dataclass(frozen=True)
class Source:
    """A kind of data: the fields of its description with defaults (None: required), and the function that creates such data.

    n_numbers  a function that takes a description and returns about how many numbers will be generated, or 0 if the data are read
               from a file. This number is used to refuse data that do not fit into memory
    """

    fields: Mapping[str, Any]
    make: Maker
    n_numbers: Callable[[Description], int]


SOURCES: dict[str, Source] = {}


def _source(
    name: str, n_numbers: Callable[[Description], int] = lambda d: 0, **fields: Any
) -> Callable[[Maker], Maker]:
    """Register the decorated function as a kind of data, with the fields of the description and their defaults."""

    def enter(make: Maker) -> Maker:
        SOURCES[name] = Source(fields, make, n_numbers)
        return make

    return enter


def _labels(rng: np.random.Generator, n_classes: int, count: int) -> np.ndarray:
    return rng.integers(0, n_classes, size=(count,))


def _n_associations(d: Description) -> int:
    # beyond 64 tokens, there are more sequences than bytes of memory, so the power is not computed; with
    # one word, there is one sequence
    n_sequences = 1 if d["n_vocab"] == 1 else d["n_vocab"] ** min(d["seq_len"], 64)
    return int(n_sequences * (d["seq_len"] + 1))


@_source("associations", _n_associations, n_vocab=50, seq_len=2)
def _associations(d: Description) -> TrainingSet:
    """Generate all sequences of `seq_len` tokens that the vocabulary allows, each with a random next token (DPC24)."""
    grid = np.indices((d["n_vocab"],) * d["seq_len"]).reshape(d["seq_len"], -1).T
    labels = _labels(np.random.default_rng(d["seed"]), d["n_vocab"], len(grid))
    return training_set_of_labels(grid, labels, n_classes=d["n_vocab"], n_vocab=d["n_vocab"])


@_source("facts", lambda d: d["n_vocab"] + d["n_samples"], n_samples=None, n_vocab=None, n_classes=None)
def _facts(d: Description) -> TrainingSet:
    """Make facts: single tokens with random labels."""
    if d["n_samples"] > d["n_vocab"]:
        raise UsageError(
            f"`n_samples` is {d['n_samples']}, but each fact needs its own token"
            f" and `n_vocab` is {d['n_vocab']}.",
            n_samples=d["n_samples"],
            n_vocab=d["n_vocab"],
        )
    rng = np.random.default_rng(d["seed"])
    keys = rng.permutation(d["n_vocab"])[: d["n_samples"]].reshape(-1, 1)
    labels = _labels(rng, d["n_classes"], d["n_samples"])
    return training_set_of_labels(keys, labels, n_classes=d["n_classes"], n_vocab=d["n_vocab"])


@_source(
    "random-tokens",
    lambda d: d["n_samples"] * (d["seq_len"] + 1),
    n_samples=None,
    n_vocab=1000,
    seq_len=8,
    n_classes=16,
    read="last",
)
def _random_tokens(d: Description) -> TrainingSet:
    """Make uniformly random token sequences with random labels."""
    rng = np.random.default_rng(d["seed"])
    inputs = rng.integers(0, d["n_vocab"], (d["n_samples"], d["seq_len"]))
    _, first, inverse = np.unique(inputs, axis=0, return_index=True, return_inverse=True)
    labels = _labels(rng, d["n_classes"], d["n_samples"])[first[inverse.reshape(-1)]]
    return training_set_of_labels(
        inputs, labels, n_classes=d["n_classes"], n_vocab=d["n_vocab"], read=d["read"]
    )


@_source(
    "rademacher-vectors",
    lambda d: d["n_samples"] * d["seq_len"] * d["dim"],
    n_samples=500,
    seq_len=10,
    dim=6,
    read="last",
)
def _rademacher(d: Description) -> TrainingSet:
    """Make uniformly random vectors with labels ±1, for KS25's study of the sequence length."""
    rng = np.random.default_rng(d["seed"])
    inputs = rng.random((d["n_samples"], d["seq_len"], d["dim"]))
    return training_set_of_values(inputs, rng.choice([-1.0, 1.0], d["n_samples"]), read=d["read"])


@_source("documents", path=None, n_documents=None, n_tokens=10, field="text")
def _documents(d: Description) -> TrainingSet:
    """Read `n_documents` random documents for next-token prediction (MFT24), each cut to its first `n_tokens` tokens.

    Shorter documents are left out. The vocabulary contains only tokens of the chosen documents.
    """
    rows = _rows(d["path"], d["sha256"])
    texts = [WORDS.findall(text) for text in read_column(rows, d["field"], d["path"])]
    texts = [words[: d["n_tokens"]] for words in texts if len(words) >= d["n_tokens"]]
    order = np.random.default_rng(d["seed"]).permutation(len(texts))[: d["n_documents"]]
    if order.size < d["n_documents"]:
        raise DataError(
            f"`n_documents` is {d['n_documents']}, but the number of documents in {d['path']} that are long enough"
            f" (`n_tokens` = {d['n_tokens']}) is only {order.size}.",
            path=d["path"],
            n_documents=int(order.size),
            n_wanted=d["n_documents"],
        )
    return training_set_of_documents(*number_words([texts[i] for i in order]))


@_source(
    "sentences",
    path=None,
    n_samples=None,
    seq_len=8,
    field="text",
    label="label",
    read="first",
    ordered=False,
)
def _sentences(d: Description) -> TrainingSet:
    """Read `n_samples` random labelled texts (KS25), each cut to its first `seq_len` tokens.

    Shorter texts are left out, and so are inputs that occur with two labels. Repeated inputs are used once.
    """
    rows = _rows(d["path"], d["sha256"])
    columns = [read_column(rows, name, d["path"]) for name in d["field"].split("+")]
    texts = [first_words(" ".join(cells), d["seq_len"]) for cells in zip(*columns, strict=True)]
    labels = [read_label(cell, d["path"]) for cell in read_column(rows, d["label"], d["path"])]
    kept = [i for i, words in enumerate(texts) if len(words) == d["seq_len"]]
    order = [kept[i] for i in np.random.default_rng(d["seed"]).permutation(len(kept))]
    place = 0 if d["read"] == "first" else d["seq_len"] - 1
    visible = {i: visible_text(texts[i], place, ordered=d["ordered"]) for i in order}
    chosen = distinct_texts(order, visible, labels).chosen[: d["n_samples"]]
    if len(chosen) < d["n_samples"]:
        raise DataError(
            f"`n_samples` is {d['n_samples']}, but the number of distinct samples in {d['path']} that are long enough"
            f" (`seq_len` = {d['seq_len']}) and have one label is only {len(chosen)}.",
            path=d["path"],
            n_samples=len(chosen),
            n_wanted=d["n_samples"],
        )
    ids, n_vocab = number_words([texts[i] for i in chosen])
    chosen_labels = np.array([labels[i] for i in chosen])
    return training_set_of_labels(
        ids, chosen_labels, n_classes=max(labels) + 1, n_vocab=n_vocab, read=d["read"]
    )


@_source("file", path=None, n_samples=0, tokenizer="word", read="last")
def _file(d: Description) -> TrainingSet:
    """Read `n_samples` random samples of a data file (0: all samples).

    The file may have any format that `byheart compile` accepts, and must have one answer per sequence.
    """
    from byheart.data.dataset import Dataset
    from byheart.data.sequences import TokenSequences

    _content(d["path"], d["sha256"])
    dataset = Dataset.read(d["path"], tokenizer=d["tokenizer"], on_conflict="keep")
    if dataset.task != "next-token":
        raise DataError(
            f"{d['path']} is read as data of the task {dataset.task}; training from a file needs the task "
            "next-token, with one answer per row.",
            task=dataset.task,
        )
    chosen = np.random.default_rng(d["seed"]).permutation(dataset.n_samples)[: d["n_samples"] or None]
    if d["n_samples"] > chosen.size:
        raise DataError(
            f"`n_samples` is {d['n_samples']}, but the number of samples in {d['path']} is only {chosen.size}.",
            path=d["path"],
            n_samples=int(chosen.size),
            n_wanted=d["n_samples"],
        )
    labels = dataset.labels[chosen]
    if not isinstance(dataset.inputs, TokenSequences):
        values = dataset.inputs.values[chosen]
        return training_set_of_labels(values, labels, n_classes=dataset.n_classes, read=d["read"])
    lengths = dataset.inputs.lengths[chosen]
    inputs = np.zeros((chosen.size, int(lengths.max())), dtype=np.int64)
    for row, sample in enumerate(chosen):
        inputs[row, : lengths[row]] = dataset.inputs[int(sample)]
    return training_set_of_labels(
        inputs,
        labels,
        n_classes=dataset.n_classes,
        n_vocab=dataset.inputs.n_vocab,
        lengths=lengths,
        read=d["read"],
    )


_source("prepared", path=None, collection=None, n_samples=None)(training_set_of_sample)


def complete_description(data: Description, seed: int, folder: Path) -> dict[str, Any]:
    """Return a description of data with everything filled in: the defaults, the argument `seed` if the description sets no
    seed, and, for data in a file, the absolute path and the digest of the file. A relative path is relative to `folder`.

    Raise `UsageError` if the description is not valid.
    """
    kind = data.get("kind")
    if kind == "prepared":
        raise UsageError(
            "only `byheart reproduce` can use data of kind prepared; set `kind` in [data] to documents or sentences."
        )
    if kind not in SOURCES:
        kinds = ", ".join(name for name in SOURCES if name != "prepared")
        raise UsageError(f"no kind of data `{kind}`; choose from: {kinds}.", kind=kind)
    source = SOURCES[kind]
    full = dict(source.fields) | {"seed": seed} | dict(data)
    for name in data:
        if name not in {*source.fields, "kind", "seed"}:
            raise UsageError(
                f"data of kind {kind} have no field `{name}`; choose from: {', '.join(source.fields)}.",
                kind=kind,
                name=name,
                fields=source.fields,
            )
    missing = [name for name in source.fields if full[name] is None]
    if missing:
        named = ", ".join(f"`{name}`" for name in missing)
        some = "field" if len(missing) == 1 else "fields"
        raise UsageError(f"data of kind {kind} need the {some} {named}.", kind=kind, missing=missing)
    for name, default in source.fields.items():
        value = full[name]
        wanted = type(default) if default is not None else (str if name == "path" else int)
        if type(value) is not wanted or (isinstance(value, int) and wanted is int and value < (default != 0)):
            words = {
                int: f"a whole number of at least {int(default != 0)}",
                str: "a text",
                bool: "true or false",
            }
            raise UsageError(
                f"`{name}` of data of kind {kind} must be {words[wanted]}; got {value!r}.", name=name
            )
    if type(full["seed"]) is not int or full["seed"] < 0:
        raise UsageError(
            f"`seed` of data must be a whole number of at least 0; got {full['seed']!r}.", seed=full["seed"]
        )
    require_memory(f"data of kind {kind}", 8 * source.n_numbers(full))
    if full.get("read", "last") not in ("first", "last"):
        raise UsageError(f"`read` must be first or last; got {full['read']!r}.", read=full["read"])
    if "path" in full:
        path = folder / str(full["path"])
        if "\0" in str(path) or not path.is_file():
            raise UsageError(f"there is no file {path}.", path=str(path))
        path = path.resolve()
        full |= {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return full


def training_set_of(data: Description) -> TrainingSet:
    """Return the training set of a complete description. Equal descriptions share one training set."""
    return _problem(json.dumps(dict(data), sort_keys=True))


@lru_cache(maxsize=256)
def _problem(text: str) -> TrainingSet:
    data = json.loads(text)
    return SOURCES[data["kind"]].make(data)


@lru_cache(maxsize=4)
def _rows(path: str, sha256: str) -> list[dict[str, Any]]:
    return text_rows(_content(path, sha256), path)


def _content(path: str, sha256: str) -> bytes:
    """Return the content of a file. Raise `DataError` if the digest of the content is not `sha256`: the file has changed."""
    raw = Path(path).read_bytes()
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise DataError(f"{path} changed after the runs were set up. Run the same command again.", path=path)
    return raw
