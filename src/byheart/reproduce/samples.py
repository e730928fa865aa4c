"""The texts the papers trained on, as small arrays of token ids: made once where the texts are, then carried anywhere.

One file holds, for each collection and sampling seed, the first tokens of shuffled texts. A run takes the first
`n_samples` of them and numbers their tokens anew, so its vocabulary is that of its subset alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from byheart.errors import DataError, UsageError
from byheart.measure.sources import SOURCES, Description, Source
from byheart.measure.training_set import TrainingSet, training_set_of_documents, training_set_of_labels

FILE = "samples.npz"
SEEDS = (0, 1, 2, 3, 4)
_WORDS = re.compile(r"\w+|[^\w\s]+")  # "wordpunct", case kept, as in MFT24's code

Kind = Literal["documents", "labels"]


@dataclass(frozen=True)
class Collection:
    """Texts of a paper and how they are cut. `hub` is where they live on the Hugging Face hub: (name, config, split)."""

    name: str
    kind: Kind
    n_tokens: int
    most: int
    text: str
    label: str | None
    n_classes: int
    hub: tuple[str, str | None, str]
    whole_only: bool = False  # keep rows that say `whole` is true, where rows say so
    texts: str = ""  # the collection whose texts these are, where it is another's
    sub_words: bool = False  # a class token, then sub-words, as in BERT-style tokenizers

    @property
    def source(self) -> str:
        """The name of its texts."""
        return self.texts or self.name


COLLECTIONS = {
    collection.name: collection
    for collection in (
        Collection(
            "tinystories",
            "documents",
            10,
            1000,
            "text",
            None,
            0,
            ("roneneldan/TinyStories", None, "train"),
            True,
        ),
        Collection(
            "multinli", "labels", 8, 2000, "hypothesis", "label", 3, ("nyu-mll/glue", "mnli", "train")
        ),
        Collection("imdb", "labels", 8, 3000, "text", "label", 2, ("stanfordnlp/imdb", None, "train")),
        Collection(
            "multinli-sub-words",
            "labels",
            8,
            2000,
            "hypothesis",
            "label",
            3,
            ("nyu-mll/glue", "mnli", "train"),
            texts="multinli",
            sub_words=True,
        ),
        Collection(
            "imdb-sub-words",
            "labels",
            8,
            3000,
            "text",
            "label",
            2,
            ("stanfordnlp/imdb", None, "train"),
            texts="imdb",
            sub_words=True,
        ),
    )
}


@dataclass(frozen=True)
class Prepared:
    """What preparing one collection found, for the record."""

    collection: str
    n_texts: int
    n_long_enough: int
    n_conflicting: int  # texts left out because the same tokens occur with another label
    n_repeated: int


CLASS_TOKEN = "[CLS]"
N_SUB_WORDS = 4000  # entries of the tokenizer trained on a collection's own texts


def first_sub_words(texts: Sequence[str], n_tokens: int) -> list[list[str]]:
    """A class token and the first sub-words of every text, by a byte-pair encoding trained on these texts."""
    from tokenizers import (
        Tokenizer,
        models,
        pre_tokenizers,
        trainers,
    )  # where texts are prepared, not where models train

    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(vocab_size=N_SUB_WORDS, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return [[CLASS_TOKEN, *found.tokens[: n_tokens - 1]] for found in tokenizer.encode_batch(list(texts))]


def first_tokens(text: str, n_tokens: int) -> list[str]:
    """The first `n_tokens` words and runs of punctuation of `text`."""
    return [match.group() for _, match in zip(range(n_tokens), _WORDS.finditer(text), strict=False)]


def sample_texts(
    rows: Sequence[dict[str, Any]], collection: Collection, seed: int
) -> tuple[np.ndarray, np.ndarray, Prepared]:
    """Token ids (n_samples, n_tokens) and labels of shuffled texts, and what was left out.

    Labelled texts are read as (first token, multiset of the rest), which is all that averaging attention sees: those that
    occur with two labels cannot be memorised and are left out, repeats count once.
    """
    if collection.whole_only and any("whole" in row for row in rows):
        rows = [row for row in rows if row.get("whole")]
    whole = [str(row[collection.text]) for row in rows]
    if collection.sub_words:
        texts = first_sub_words(whole, collection.n_tokens)
    else:
        texts = [first_tokens(text, collection.n_tokens) for text in whole]
    kept = [i for i, words in enumerate(texts) if len(words) == collection.n_tokens]
    order = [kept[i] for i in np.random.default_rng(seed).permutation(len(kept))]
    n_conflicting = n_repeated = 0
    labels = [0 if collection.label is None else int(row[collection.label]) for row in rows]
    if collection.kind == "labels":
        seen: dict[tuple[str, ...], set[int]] = {}
        for i in order:
            seen.setdefault(_context(texts[i]), set()).add(labels[i])
        n_conflicting = sum(len(seen[_context(texts[i])]) > 1 for i in order)
        used: set[tuple[str, ...]] = set()
        distinct = []
        for i in order:
            context = _context(texts[i])
            if len(seen[context]) == 1 and context not in used:
                used.add(context)
                distinct.append(i)
        n_repeated = len(order) - n_conflicting - len(distinct)
        order = distinct
    found = Prepared(collection.name, len(rows), len(kept), n_conflicting, n_repeated)
    order = order[: collection.most]
    number = {word: n for n, word in enumerate(sorted({word for i in order for word in texts[i]}))}
    ids = np.array([[number[word] for word in texts[i]] for i in order], dtype=np.int32)
    return ids.reshape(-1, collection.n_tokens), np.array([labels[i] for i in order], dtype=np.int8), found


def _context(words: Sequence[str]) -> tuple[str, ...]:
    return (words[0], *sorted(words[1:]))


def prepare(texts: dict[str, Sequence[dict[str, Any]]], folder: Path) -> list[Prepared]:
    """Write the samples of every collection of `texts` into `folder`, and say what was left out."""
    arrays: dict[str, np.ndarray] = {}
    found = []
    for name, collection in COLLECTIONS.items():
        if collection.source not in texts:
            continue
        for seed in SEEDS:
            ids, labels, report = sample_texts(texts[collection.source], collection, seed)
            arrays |= {f"{name}_{seed}_ids": ids, f"{name}_{seed}_labels": labels}
            if seed == SEEDS[0]:
                found.append(report)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / FILE, **arrays)  # type: ignore[arg-type]
    return found


@dataclass(frozen=True)
class Samples:
    """A file of prepared samples."""

    path: Path

    @classmethod
    def at(cls, folder: Path) -> Samples:
        """The samples in `folder`; a `UsageError` says how to make them."""
        path = folder / FILE
        if not path.is_file():
            raise UsageError(
                f"there are no prepared samples at {path}.\n"
                "  Make them with `byheart reproduce --prepare` where the texts are.",
                path=str(path),
            )
        return cls(path)

    def ids(self, collection: str, sample: int) -> np.ndarray:
        """Token ids (n_samples, n_tokens) of the sample drawn with seed `sample`."""
        return _arrays(str(self.path), collection, sample)[0]

    def describe(self, collection: str, n_samples: int, sample: int) -> dict[str, Any]:
        """Data of a run: the first `n_samples` texts of the sample drawn with seed `sample`."""
        ids, labels = _arrays(str(self.path), collection, sample)
        if n_samples > len(ids):
            raise DataError(
                f"{self.path} has {len(ids)} texts of {collection}; {n_samples} were asked for.",
                collection=collection,
            )
        content = hashlib.sha256(ids[:n_samples].tobytes() + labels[:n_samples].tobytes()).hexdigest()
        return {
            "kind": "prepared",
            "path": str(self.path),
            "collection": collection,
            "n_samples": n_samples,
            "seed": sample,
            "sha256": content,
        }


@lru_cache(maxsize=64)
def _arrays(path: str, collection: str, sample: int) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path, allow_pickle=False) as arrays:
        if f"{collection}_{sample}_ids" not in arrays:
            raise DataError(f"{path} has no sample {sample} of {collection}.", path=path)
        return arrays[f"{collection}_{sample}_ids"], arrays[f"{collection}_{sample}_labels"]


def _problem(d: Description) -> TrainingSet:
    ids, labels = _arrays(d["path"], d["collection"], d["seed"])
    ids, labels = ids[: d["n_samples"]], labels[: d["n_samples"]]
    if hashlib.sha256(ids.tobytes() + labels.tobytes()).hexdigest() != d["sha256"]:
        raise DataError(f"{d['path']} changed since the runs were described; describe them again.")
    collection = COLLECTIONS[d["collection"]]
    words, numbered = np.unique(ids, return_inverse=True)
    inputs = numbered.reshape(ids.shape).astype(np.int64)
    if collection.kind == "documents":
        return training_set_of_documents(inputs, len(words))
    return training_set_of_labels(
        inputs,
        labels.astype(np.int64),
        n_classes=collection.n_classes,
        n_vocab=len(words),
        read="first",
    )


SOURCES["prepared"] = Source(
    "prepared",
    {"path": None, "collection": None, "n_samples": None},
    "texts of the papers, cut and numbered beforehand",
    _problem,
)
