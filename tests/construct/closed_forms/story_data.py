"""Documents for the tests of closed forms: random ones with many continuations, and openings of stories."""

from __future__ import annotations

import numpy as np

from byheart.data import Dataset
from byheart.data.sequences import TokenSequences, offsets_of
from byheart.program.targets import NextTokenTargets, targets_of


def documents(n_documents: int, n_vocab: int, seq_len: int, seed: int) -> Dataset:
    """Documents of 2 to `seq_len` tokens, with common beginnings and so with real distributions."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_documents):
        length = int(rng.integers(2, seq_len + 1))
        rows.append(np.minimum(rng.geometric(0.4, length) - 1, n_vocab - 1))
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return Dataset.from_token_documents(
        TokenSequences(np.concatenate(rows).astype(np.int64), offsets_of(lengths), n_vocab)
    )


def document_targets(
    n_documents: int = 60, n_vocab: int = 12, seq_len: int = 6, seed: int = 0
) -> NextTokenTargets:
    return targets_of(documents(n_documents, n_vocab, seq_len, seed))
