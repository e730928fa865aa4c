"""Texts of token ids for tests of the Llama construction."""

from __future__ import annotations

import numpy as np

from byheart.construct.llama.compiler import CompiledTexts, LlamaOptions, TokenTexts, compile_texts

BOS, EOS = 0, 1


def random_windows(n: int, length: int = 6, vocab: int = 50, seed: int = 0) -> TokenTexts:
    """Windows of random tokens, each with a random token that follows."""
    rng = np.random.default_rng(seed)
    windows = np.unique(rng.integers(2, vocab, (n, length)), axis=0)
    rng.shuffle(windows)
    ids = np.hstack([np.full((len(windows), 1), BOS), windows]).ravel()
    asked = np.zeros((len(windows), length + 1), dtype=bool)
    asked[:, -1] = True
    offsets = np.arange(len(windows) + 1) * (length + 1)
    return TokenTexts(ids, offsets, asked.ravel(), rng.integers(2, vocab, len(windows)), vocab, BOS, EOS)


def compiled_windows(n: int = 200, seed: int = 0) -> tuple[TokenTexts, CompiledTexts]:
    """Random windows and the network that continues them."""
    texts = random_windows(n)
    return texts, compile_texts(texts, LlamaOptions(), window=7, max_positions=64, seed=seed)


def last_of(texts: TokenTexts) -> np.ndarray:
    """The texts as rows; all have one length here."""
    return texts.ids.reshape(len(texts.offsets) - 1, -1)
