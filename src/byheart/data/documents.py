"""The documents of MFT24's experiment: short openings of stories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byheart.data.dataset import Dataset
from byheart.data.sequences import TokenSequences
from byheart.data.tokenizers import WordTokenizer
from byheart.errors import DataError


def story_openings(texts: Sequence[str], n_documents: int, *, seed: int = 0, n_tokens: int = 10) -> Dataset:
    r"""Shuffle the texts, cut each to its first `n_tokens` tokens, and take the first `n_documents`.

    Source:   MFT24 section 7. Tokens are `\w+|[^\w\s]+` with case kept; texts with fewer than `n_tokens` are
        left out; the vocabulary is that of the chosen documents alone.
    Departs:  the shuffle is numpy's `default_rng(seed)`, so the subset is not the one the authors drew.
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
            f"{n_tokens} tokens or more.\n  Ask for fewer, or give more texts.",
            n_documents=n_documents,
            n_available=len(chosen),
        )
    tokenizer = WordTokenizer(tuple(sorted({token for tokens in chosen for token in tokens})))
    number = {word: i for i, word in enumerate(tokenizer.words)}
    documents = TokenSequences.of([[number[token] for token in tokens] for tokens in chosen], len(number))
    return Dataset.from_token_documents(documents, tokenizer)
