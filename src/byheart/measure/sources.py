"""From a description of data, as a specification writes it, to the training set a model is trained on.

A description is plain JSON and goes into the key of every run, so it says all that the data depend on; a file enters by
its content's digest.
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

Description = Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """A kind of data: the fields its description has, with defaults (None: must be given), and how it is made."""

    name: str
    fields: Mapping[str, Any]
    meaning: str
    make: Callable[[Description], TrainingSet]


def _labels(rng: np.random.Generator, n_classes: int, count: int) -> np.ndarray:
    return rng.integers(0, n_classes, size=(count,))


def _associations(d: Description) -> TrainingSet:
    grid = np.indices((d["n_vocab"],) * d["seq_len"]).reshape(d["seq_len"], -1).T
    labels = _labels(np.random.default_rng(d["seed"]), d["n_vocab"], len(grid))
    return training_set_of_labels(grid, labels, n_classes=d["n_vocab"], n_vocab=d["n_vocab"])


def _facts(d: Description) -> TrainingSet:
    if d["n_samples"] > d["n_vocab"]:
        raise UsageError(
            f"`n_samples` = {d['n_samples']} facts need as many tokens; `n_vocab` is {d['n_vocab']}."
        )
    rng = np.random.default_rng(d["seed"])
    keys = rng.permutation(d["n_vocab"])[: d["n_samples"]].reshape(-1, 1)
    labels = _labels(rng, d["n_classes"], d["n_samples"])
    return training_set_of_labels(keys, labels, n_classes=d["n_classes"], n_vocab=d["n_vocab"])


def _random_tokens(d: Description) -> TrainingSet:
    rng = np.random.default_rng(d["seed"])
    inputs = rng.integers(0, d["n_vocab"], (d["n_samples"], d["seq_len"]))
    _, first, inverse = np.unique(inputs, axis=0, return_index=True, return_inverse=True)
    labels = _labels(rng, d["n_classes"], d["n_samples"])[first[inverse.reshape(-1)]]
    return training_set_of_labels(
        inputs, labels, n_classes=d["n_classes"], n_vocab=d["n_vocab"], read=d["read"]
    )


def _rademacher(d: Description) -> TrainingSet:
    rng = np.random.default_rng(d["seed"])
    inputs = rng.random((d["n_samples"], d["seq_len"], d["dim"]))
    return training_set_of_values(inputs, rng.choice([-1.0, 1.0], d["n_samples"]), read=d["read"])


def _documents(d: Description) -> TrainingSet:
    """MFT24: shuffled by the seed, cut to `n_tokens`, the vocabulary that of the subset alone."""
    texts = [WORDS.findall(str(row[d["field"]])) for row in _rows(d["path"], d["sha256"])]
    texts = [words[: d["n_tokens"]] for words in texts if len(words) >= d["n_tokens"]]
    order = np.random.default_rng(d["seed"]).permutation(len(texts))[: d["n_documents"]]
    if order.size < d["n_documents"]:
        raise DataError(
            f"{d['path']} has {order.size} documents of at least {d['n_tokens']} tokens;"
            f" {d['n_documents']} were asked for."
        )
    vocabulary = sorted({word for i in order for word in texts[i]})
    number = {word: i for i, word in enumerate(vocabulary)}
    return training_set_of_documents(
        np.array([[number[w] for w in texts[i]] for i in order]), len(vocabulary)
    )


def _sentences(d: Description) -> TrainingSet:
    """KS25: texts cut to `seq_len` tokens; inputs that occur with two labels are left out, repeats count once."""
    rows = _rows(d["path"], d["sha256"])
    fields = d["field"].split("+")
    texts = [first_words(" ".join(str(row[name]) for name in fields), d["seq_len"]) for row in rows]
    labels = [int(row[d["label"]]) for row in rows]
    kept = [i for i, words in enumerate(texts) if len(words) == d["seq_len"]]
    order = [kept[i] for i in np.random.default_rng(d["seed"]).permutation(len(kept))]
    place = 0 if d["read"] == "first" else d["seq_len"] - 1
    visible = {i: visible_text(texts[i], place, ordered=d["ordered"] is not False) for i in order}
    chosen = distinct_texts(order, visible, labels).chosen[: d["n_samples"]]
    if len(chosen) < d["n_samples"]:
        raise DataError(f"{d['path']} gives {len(chosen)} distinct samples; {d['n_samples']} were asked for.")
    number = {word: k for k, word in enumerate(sorted({word for i in chosen for word in texts[i]}))}
    return training_set_of_labels(
        np.array([[number[word] for word in texts[i]] for i in chosen]),
        np.array([labels[i] for i in chosen]),
        n_classes=max(labels) + 1,
        n_vocab=len(number),
        read=d["read"],
    )


def _file(d: Description) -> TrainingSet:
    """A labelled data file of any kind that `byheart compile` reads, one answer per sequence."""
    from byheart.data.dataset import Dataset
    from byheart.data.sequences import TokenSequences

    dataset = Dataset.read(d["path"], tokenizer=d["tokenizer"], on_conflict="keep")
    if dataset.task != "next-token":
        raise DataError(
            f"{d['path']} is of task {dataset.task}; only next-token data can be trained on from a file."
        )
    chosen = np.random.default_rng(d["seed"]).permutation(dataset.n_samples)[: d["n_samples"] or None]
    if d["n_samples"] > chosen.size:
        raise DataError(f"{d['path']} has {chosen.size} samples; {d['n_samples']} were asked for.")
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


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            "associations",
            {"n_vocab": 50, "seq_len": 2},
            "every sequence of tokens with a random next token (DPC24)",
            _associations,
        ),
        Source(
            "facts",
            {"n_samples": None, "n_vocab": None, "n_classes": None},
            "single tokens with random labels",
            _facts,
        ),
        Source(
            "random-tokens",
            {"n_samples": None, "n_vocab": 1000, "seq_len": 8, "n_classes": 16, "read": "last"},
            "uniform token sequences with random labels",
            _random_tokens,
        ),
        Source(
            "rademacher-vectors",
            {"n_samples": 500, "seq_len": 10, "dim": 6, "read": "last"},
            "uniform vectors with labels ±1 (KS25's study of the sequence length)",
            _rademacher,
        ),
        Source(
            "documents",
            {"path": None, "n_documents": None, "n_tokens": 10, "field": "text"},
            "next tokens of documents cut short, collapsed to distinct contexts (MFT24)",
            _documents,
        ),
        Source(
            "sentences",
            {
                "path": None,
                "n_samples": None,
                "seq_len": 8,
                "field": "text",
                "label": "label",
                "read": "first",
                "ordered": False,
            },
            "labelled texts cut short (KS25)",
            _sentences,
        ),
        Source(
            "file",
            {"path": None, "n_samples": 0, "tokenizer": "word", "read": "last"},
            "samples of a data file as `byheart compile` reads it (0: all of them)",
            _file,
        ),
        Source(
            "prepared",
            {"path": None, "collection": None, "n_samples": None},
            "texts of the papers, cut and numbered beforehand",
            training_set_of_sample,
        ),
    )
}


def complete_description(data: Description, seed: int, folder: Path) -> dict[str, Any]:
    """A full description: defaults filled in, the seed set, a file named by its content; a `UsageError` otherwise."""
    kind = data.get("kind")
    if kind not in SOURCES:
        raise UsageError(f"no kind of data `{kind}`; there are: {', '.join(SOURCES)}.", kind=kind)
    source = SOURCES[kind]
    full = dict(source.fields) | {"seed": seed} | dict(data)
    for name in data:
        if name not in {*source.fields, "kind", "seed"}:
            raise UsageError(
                f"data of kind {kind} have no field `{name}`; they have: {', '.join(source.fields)}."
            )
    for name, default in source.fields.items():
        value = full[name]
        if value is None:
            raise UsageError(f"data of kind {kind} need the field `{name}`.", name=name)
        wanted = type(default) if default is not None else (str if name == "path" else int)
        if type(value) is not wanted or (isinstance(value, int) and wanted is int and value < (default != 0)):
            raise UsageError(
                f"`{name}` of data of kind {kind} must be a {'positive whole number' if wanted is int else wanted.__name__};"
                f" got {value!r}.",
                name=name,
            )
    if full.get("read", "last") not in ("first", "last"):
        raise UsageError(f"`read` must be first or last; got {full['read']!r}.")
    if "path" in full:
        path = (folder / str(full["path"])).resolve()
        if not path.is_file():
            raise UsageError(f"there is no file {path}.", path=str(path))
        full |= {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return full


def training_set_of(data: Description) -> TrainingSet:
    """The training set of a full description; equal descriptions share one training set."""
    return _problem(json.dumps(dict(data), sort_keys=True))


@lru_cache(maxsize=256)
def _problem(text: str) -> TrainingSet:
    data = json.loads(text)
    return SOURCES[data["kind"]].make(data)


@lru_cache(maxsize=4)
def _rows(path: str, sha256: str) -> list[dict[str, Any]]:
    raw = Path(path).read_bytes()
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise DataError(f"{path} changed since the runs were described; describe them again.", path=path)
    return text_rows(raw, path)
