"""What the sections of the closed forms' benchmark share: clock, stories, random contexts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from byheart.data.generators import story_openings
from byheart.data.sequences import TokenSequences, offsets_of
from byheart.program.targets import NextTokenTargets, targets_of

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
Row = dict[str, Any]
Value = TypeVar("Value")


def timed(function: Callable[[], Value]) -> tuple[Value, float]:
    """What `function` returns, and the seconds it took."""
    start = time.perf_counter()
    return function(), time.perf_counter() - start


def story_targets(n_stories: int) -> tuple[NextTokenTargets, int]:
    """Contexts of the first stories and the size of their vocabulary."""
    lines = (SHARED / "data" / "tinystories.jsonl").read_text(encoding="utf-8").splitlines()
    data = story_openings([json.loads(line)["text"] for line in lines], n_stories)
    return targets_of(data), data.vocab or 0


def sequences_from_rows(rows: np.ndarray, n_vocab: int) -> TokenSequences:
    """Contexts of one length, one per row."""
    lengths = np.full(len(rows), rows.shape[1], dtype=np.int64)
    return TokenSequences(rows.reshape(-1), offsets_of(lengths), n_vocab)


def random_targets(
    n_contexts: int, n_vocab: int, seq_len: int, n_outputs: int, seed: int
) -> NextTokenTargets:
    """Distinct random contexts with one to three continuations each."""
    rng = np.random.default_rng(seed)
    rows = np.unique(rng.integers(0, n_vocab, (int(n_contexts * 1.05) + 10, seq_len)), axis=0)
    rows = rows[rng.permutation(len(rows))[:n_contexts]]
    n_next = rng.integers(1, 4, n_contexts)
    entries = np.repeat(np.arange(n_contexts), n_next)
    place = np.arange(len(entries)) - np.repeat(np.cumsum(n_next) - n_next, n_next)
    tokens = (rng.integers(0, n_outputs, n_contexts)[entries] + place * 3) % n_outputs
    counts = rng.integers(1, 5, len(entries))
    totals = np.bincount(entries, weights=counts).astype(np.int64)
    return NextTokenTargets(
        sequences_from_rows(rows, n_vocab), totals, entries, tokens, counts / totals[entries], n_outputs
    )


def bigrams_of(n_tokens: int) -> np.ndarray:
    """All ordered pairs of tokens."""
    return np.stack(np.meshgrid(range(n_tokens), range(n_tokens), indexing="ij"), -1).reshape(-1, 2)
