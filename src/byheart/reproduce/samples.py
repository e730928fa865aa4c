"""Turn the texts on which the papers train, from local files or the Hugging Face hub, into a small file of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from byheart.errors import UsageError, import_extra
from byheart.files.whole_file import write_whole
from byheart.measure.text_samples import (
    COLLECTIONS,
    FILE,
    Collection,
    distinct_texts,
    first_words,
    number_words,
    read_column,
    read_label,
    text_rows,
    visible_text,
)

MOST_FROM_HUB = 50_000  # number of rows to read from a split; far more than are sampled


def local_texts(folder: Path) -> dict[str, Sequence[dict[str, Any]]]:
    """Read the rows of NAME.jsonl for every collection of texts. Raise `UsageError`, naming the file, if one is missing."""
    found: dict[str, Sequence[dict[str, Any]]] = {}
    for name in dict.fromkeys(collection.source for collection in COLLECTIONS.values()):
        path = folder / f"{name}.jsonl"
        if not path.is_file():
            raise UsageError(
                f"there is no file {path}.\n  Give the folder that holds the texts with --texts FOLDER. To download the texts, "
                "give --texts hub.",
                path=str(path),
            )
        found[name] = text_rows(path.read_bytes(), path)
    return found


def hub_texts() -> dict[str, Sequence[dict[str, Any]]]:
    """Download texts from the Hugging Face hub: the first rows of the split that each collection names."""
    datasets = import_extra("datasets", "hub", "Fetching texts from the Hugging Face hub")
    found: dict[str, Sequence[dict[str, Any]]] = {}
    for collection in COLLECTIONS.values():
        if collection.source not in found:
            repository, config, split = collection.hub
            rows = datasets.load_dataset(repository, config, split=split, streaming=True)
            found[collection.source] = [dict(row) for row in islice(rows, MOST_FROM_HUB)]
    return found


N_MADE_UP, N_WORDS = 120, 300


def made_up_texts() -> dict[str, Sequence[dict[str, Any]]]:
    """Return random words with random labels. They are used at the smoke scale, which only tests that figures can be made."""
    rng = np.random.default_rng(0)
    found: dict[str, Sequence[dict[str, Any]]] = {}
    for name, collection in COLLECTIONS.items():
        if collection.source == name:
            words = rng.integers(0, N_WORDS, (N_MADE_UP, collection.n_tokens + 2))
            labels = rng.integers(0, max(collection.n_classes, 1), N_MADE_UP)
            found[name] = [
                {
                    collection.text: " ".join(f"w{word}" for word in row),
                    collection.label or "label": int(label),
                }
                for row, label in zip(words, labels, strict=True)
            ]
    return found


SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Prepared:
    """The number of texts in one collection, and how many of them can be used.

    Of `n_texts` texts, `n_long_enough` have enough tokens. Of these, `n_conflicting` are left out because the same tokens occur
    with another label, and `n_repeated` because an earlier text has the same tokens and label.
    """

    collection: str
    n_texts: int
    n_long_enough: int
    n_conflicting: int  # texts left out because the same tokens occur with another label
    n_repeated: int


CLASS_TOKEN = "[CLS]"
N_SUB_WORDS = 4000  # vocabulary size of the tokenizer that is trained on the texts of a collection


def first_sub_words(texts: Sequence[str], n_tokens: int) -> list[list[str]]:
    """For every text, return a class token followed by the first sub-words of the text, at most `n_tokens` tokens in all.

    The byte-pair encoding is trained on these texts.
    """
    # needed where texts are prepared, not where models are trained
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(vocab_size=N_SUB_WORDS, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return [[CLASS_TOKEN, *found.tokens[: n_tokens - 1]] for found in tokenizer.encode_batch(list(texts))]


def sample_texts(
    rows: Sequence[dict[str, Any]], collection: Collection, seed: int
) -> tuple[np.ndarray, np.ndarray, Prepared]:
    """Return the token ids (n_samples, n_tokens) and labels of shuffled texts, and how many texts were left out.

    Models with averaging attention see only the first token of a labelled text and the multiset of the others. Of texts that such a
    model cannot distinguish, one is used if their labels are equal. If their labels differ, all of them are left out, because no
    such model can memorise them.
    """
    if collection.whole_only and any("whole" in row for row in rows):
        rows = [row for row in rows if row.get("whole")]
    whole = read_column(rows, collection.text, collection.source)
    if collection.sub_words:
        texts = first_sub_words(whole, collection.n_tokens)
    else:
        texts = [first_words(text, collection.n_tokens) for text in whole]
    kept = [i for i, words in enumerate(texts) if len(words) == collection.n_tokens]
    order = [kept[i] for i in np.random.default_rng(seed).permutation(len(kept))]
    labels = [0] * len(rows)
    if collection.label is not None:
        cells = read_column(rows, collection.label, collection.source)
        labels = [read_label(cell, collection.source, collection.n_classes) for cell in cells]
    n_conflicting = n_repeated = 0
    if collection.kind == "labels":
        distinct = distinct_texts(order, {i: visible_text(texts[i], 0) for i in order}, labels)
        order, n_conflicting, n_repeated = distinct.chosen, distinct.n_conflicting, distinct.n_repeated
    found = Prepared(collection.name, len(rows), len(kept), n_conflicting, n_repeated)
    order = order[: collection.most]
    ids, _ = number_words([texts[i] for i in order])
    return (
        ids.astype(np.int32).reshape(-1, collection.n_tokens),
        np.array([labels[i] for i in order], dtype=np.int8),
        found,
    )


def prepare(texts: dict[str, Sequence[dict[str, Any]]], folder: Path) -> list[Prepared]:
    """Write the samples of every collection of `texts` to `folder`. For each collection, return how many texts were left out."""
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
    write_whole(folder / FILE, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]  # an array is taken for the flag allow_pickle
    return found
