"""Memorise whole texts: map every window of consecutive tokens to the next token, and recite by looking up one token after the
other.

All windows have the same length, except at the beginning of a text, where they are shorter. This length is the smallest for
which windows determine the next token wherever the whole text so far determines it. If texts agree up to some point and then
differ, nothing can determine the next token. There, the first of these texts is continued, and the windows must determine its
next token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int

from byheart.data.dataset import Dataset
from byheart.data.row_groups import flat_ranges, pair_ids, representatives
from byheart.data.sequences import TokenSequences, offsets_of
from byheart.data.tokenizers import Tokenizer, make_tokenizer
from byheart.errors import DataError, UsageError
from byheart.network.memoriser import Memoriser
from byheart.network.transformer.architecture import Transformer
from byheart.network.transformer.module import to_module

END = ""
"""The label of a context that ends its text."""


def recitation(texts: Sequence[str], tokenizer: str | Tokenizer = "word") -> Dataset:
    """Return the data set to memorise so that greedy decoding recites `texts`: windows of tokens, each labelled with the next
    token.
    """
    if not texts:
        raise DataError("there are no texts to recite.")
    chosen = make_tokenizer(tokenizer, texts)
    documents = chosen.encode_all(texts)
    if int(documents.lengths.min()) == 0:
        number = int(np.argmin(documents.lengths)) + 1
        raise DataError(f"text {number} has no tokens.\n  Leave it out.", number=number)
    return recitation_of_tokens(documents, chosen)


def recitation_of_tokens(documents: TokenSequences, tokenizer: Tokenizer | None = None) -> Dataset:
    """Return the same data set as `recitation`, for texts that are given as token ids."""
    n_vocab = documents.n_vocab
    following = np.append(documents.ids[1:], n_vocab)
    following[documents.offsets[1:] - 1] = n_vocab  # the last token of each text is followed by the end
    contexts, length = _shortest_windows(documents, following)
    kept = representatives(contexts)
    sizes = np.minimum(documents.positions[kept] + 1, length)
    flat = flat_ranges(kept + 1 - sizes, sizes)
    windows = TokenSequences(documents.ids[flat], offsets_of(sizes), n_vocab)
    names = tokenizer.vocabulary if tokenizer is not None else tuple(map(str, range(n_vocab)))
    return Dataset(windows, following[kept], "next-token", (*names, END), tokenizer, True)


def _shortest_windows(
    documents: TokenSequences, following: Int[np.ndarray, " n_tokens"]
) -> tuple[Int[np.ndarray, " n_tokens"], int]:
    """For each token, find the window that ends with it: the last L tokens of the text so far, or the whole text so far if it is
    shorter. Return a number for each window, and the length L. Equal windows have equal numbers.

    `following` holds the next token of each token. Several texts may begin with the same tokens; only the next token of the first
    of them must be determined. L is the smallest length with which the windows determine all these next tokens.

    The window of length L at a token is the window of length L - 1 at the previous token, followed by the token. If L is the
    length of the longest text, every window is the whole text so far.
    """
    begins = documents.positions == 0
    ids = documents.ids
    is_decided = ~_differs_from_first(_prefixes(documents), following)
    windows = pair_ids(ids, np.zeros_like(ids))
    for length in range(1, documents.max_len + 1):
        if not (_differs_from_first(windows, following) & is_decided).any():
            return windows, length
        before = np.where(begins, 0, 1 + np.append(0, windows[:-1]))
        windows = pair_ids(before, ids)
    return windows, documents.max_len


def _prefixes(documents: TokenSequences) -> Int[np.ndarray, " n_tokens"]:
    """Return a number for the prefix that ends at each token. Equal prefixes get equal numbers."""
    numbers = np.zeros_like(documents.ids)
    for position in range(documents.max_len):
        here = np.flatnonzero(documents.positions == position)
        before = numbers[here - 1] if position else np.zeros_like(here)
        numbers[here] = pair_ids(before, documents.ids[here])
    return pair_ids(documents.positions, numbers)


def _differs_from_first(
    contexts: Int[np.ndarray, " n_tokens"], following: Int[np.ndarray, " n_tokens"]
) -> Bool[np.ndarray, " n_tokens"]:
    """For each token, return whether its next token differs from the token that followed the first occurrence of its context."""
    return np.asarray(following[representatives(contexts)[contexts]] != following)


def recite(memoriser: Memoriser, prompt: str, max_tokens: int = 10_000) -> Iterator[str]:
    """Yield the tokens that follow `prompt` until the text ends, the network answers "unknown", or `max_tokens` are generated."""
    if memoriser.tokenizer is None:
        raise UsageError(
            "this model has no tokenizer, so it cannot recite texts.\n  Compile the texts with --recite."
        )
    ids = memoriser.tokenizer.encode(prompt)
    if not ids:
        raise UsageError("the prompt has no tokens; give a prompt with at least one.")
    numbers = {name: number for number, name in enumerate(memoriser.tokenizer.vocabulary)}
    network = memoriser.network
    if not isinstance(network, Transformer):
        family = network.spec.family
        raise UsageError(
            f"this model's network ({family}) cannot recite texts.\n"
            "  Compile the texts with the method `retrieval` or `llama`.",
            family=family,
        )
    module = to_module(network).eval()
    for _ in range(max_tokens):
        window = np.array(ids[-network.seq_len :], dtype=np.int64)
        inputs = TokenSequences(window, np.array([0, len(window)]), len(numbers))
        with torch.no_grad():
            output = float(module(torch.from_numpy(memoriser.encode(inputs)), last_only=True)[0, -1, 0])
        if not (output.is_integer() and 1 <= output <= len(memoriser.label_names)):
            return
        name = memoriser.label_names[int(output) - 1]
        if name == END:
            return
        ids.append(numbers[name])
        yield name
