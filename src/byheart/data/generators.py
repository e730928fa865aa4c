"""Generate random data sets of the kinds that the papers use. With the same version of NumPy, the same arguments give the same
data set.

Except in documents, labels are drawn independently and uniformly. If two samples have equal contexts, the later one gets the label
of the earlier one, so these data sets can be memorised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from byheart.data.consistency import context_ids
from byheart.data.dataset import Dataset
from byheart.data.options import Task
from byheart.data.row_groups import representatives
from byheart.data.sequences import Sequences, TokenSequences, VectorSequences, offsets_of
from byheart.data.tokenizers import WordTokenizer
from byheart.errors import DataError


def uniform_vectors(
    n_samples: int,
    seq_len: int = 8,
    dim: int = 4,
    n_classes: int = 16,
    *,
    seed: int,
    task: Task = "next-token",
    ordered: bool = False,
) -> Dataset:
    """Draw tokens uniformly from [0, 1)^dim and labels uniformly from the classes (KS25)."""
    rng = np.random.default_rng(seed)
    values = rng.random((n_samples, seq_len, dim))
    return random_labels(VectorSequences(values), n_classes, rng, task, ordered)


def grid_vectors(
    n_samples: int,
    seq_len: int = 8,
    dim: int = 4,
    n_classes: int = 16,
    *,
    levels: int = 16,
    seed: int,
    task: Task = "next-token",
    ordered: bool = False,
) -> Dataset:
    """Draw tokens uniformly from the grid {0, ..., levels - 1}^dim and labels uniformly from the classes."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, levels, size=(n_samples, seq_len, dim)).astype(np.float64)
    return random_labels(VectorSequences(values), n_classes, rng, task, ordered)


def rademacher_vectors(n_samples: int = 500, seq_len: int = 10, dim: int = 6, *, seed: int) -> Dataset:
    """Draw tokens uniformly from [0, 1)^dim and labels from -1 and +1 (KS25 Appendix H, the study of the sequence length)."""
    return replace(uniform_vectors(n_samples, seq_len, dim, 2, seed=seed), label_names=("-1", "1"))


def random_tokens(
    n_samples: int,
    seq_len: int = 8,
    n_vocab: int = 1000,
    n_classes: int = 16,
    *,
    seed: int,
    min_len: int | None = None,
    task: Task = "next-token",
    ordered: bool | None = None,
) -> Dataset:
    """Draw token ids uniformly from the vocabulary, in sequences of `seq_len` tokens.

    With `min_len`, draw each length uniformly from `min_len` to `seq_len`.
    """
    rng = np.random.default_rng(seed)
    lengths = np.full(n_samples, seq_len)
    if min_len is not None:
        lengths = rng.integers(min_len, seq_len, size=n_samples, endpoint=True)
    ids = rng.integers(0, n_vocab, size=int(lengths.sum()))
    sequences = TokenSequences(ids, offsets_of(lengths), n_vocab)
    return random_labels(sequences, n_classes, rng, task, task != "set" if ordered is None else ordered)


def associations(n_vocab: int = 50, seq_len: int = 2, *, seed: int) -> Dataset:
    """Return every sequence of `seq_len` tokens, each with one uniformly random next token (DPC24 section 4.2)."""
    rng = np.random.default_rng(seed)
    grid = np.indices((n_vocab,) * seq_len).reshape(seq_len, -1).T
    return random_labels(TokenSequences.of(grid, n_vocab), n_vocab, rng, "next-token", True)


def zipf_documents(n_documents: int, n_tokens: int = 10, n_vocab: int = 500, *, seed: int) -> Dataset:
    """Generate documents with common prefixes, like stories (similar to the data of MFT24 section 7).

    The token with rank k comes next with probability proportional to 1/k². The ranking of the vocabulary is shifted
    by a number that depends on the previous token. Many documents therefore begin alike, and every context has only a few
    likely next tokens.
    """
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, n_vocab + 1) ** 2
    ranks = rng.choice(n_vocab, size=(n_documents, n_tokens), p=weights / weights.sum())
    shifts = rng.integers(0, n_vocab, size=n_vocab)
    ids = np.empty_like(ranks)
    ids[:, 0] = ranks[:, 0]
    for t in range(1, n_tokens):
        ids[:, t] = (ranks[:, t] + shifts[ids[:, t - 1]]) % n_vocab
    return Dataset.from_token_documents(TokenSequences.of(ids, n_vocab))


def random_labels(
    inputs: Sequences, n_classes: int, rng: np.random.Generator, task: Task, ordered: bool
) -> Dataset:
    """Label inputs uniformly at random, with equal labels for equal contexts. Classes are named 0, 1, ..."""
    contexts = context_ids(inputs, task, ordered)
    drawn = rng.integers(0, n_classes, size=contexts.size)
    labels = drawn[representatives(contexts)[contexts]]
    return Dataset(inputs, labels, task, tuple(map(str, range(n_classes))), None, ordered)


def story_openings(texts: Sequence[str], n_documents: int, *, seed: int = 0, n_tokens: int = 10) -> Dataset:
    r"""Shuffle the texts, cut each to its first `n_tokens` tokens, and take the first `n_documents`.

    Source:   MFT24 section 7. Tokens are matches of `\w+|[^\w\s]+`, with case kept. Texts with fewer than `n_tokens` tokens are
              left out. The vocabulary contains only tokens of the chosen documents.
    Departs:  the shuffle is numpy's `default_rng(seed)`, so the chosen documents differ from those of the authors.
    """
    chosen: list[list[str]] = []
    for index in np.random.default_rng(seed).permutation(len(texts)):
        tokens = WordTokenizer.cut(texts[index])
        if len(tokens) >= n_tokens:
            chosen.append(tokens[:n_tokens])
        if len(chosen) == n_documents:
            break
    if len(chosen) < n_documents:
        raise DataError(
            f"{n_documents} documents were asked for, but only {len(chosen)} of {len(texts)} texts have "
            f"{n_tokens} tokens or more.\n  Ask for fewer documents, or give more texts.",
            n_documents=n_documents,
            n_available=len(chosen),
        )
    tokenizer = WordTokenizer(tuple(sorted({token for tokens in chosen for token in tokens})))
    number = {word: i for i, word in enumerate(tokenizer.words)}
    documents = TokenSequences.of([[number[token] for token in tokens] for tokens in chosen], len(number))
    return Dataset.from_token_documents(documents, tokenizer)
