"""128 bits that stand for a context, so that equal ones are found among more than memory holds.

Every token becomes a random-looking word, every context a sum of scrambled words, twice with different salts. Contexts with equal
sums are taken for equal; two different ones among N have equal sums with a probability of about N² · 2^-129. What rests on that is
checked later by asking every sample.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt64

from byheart.data.consistency import flat_tokens
from byheart.data.options import Task
from byheart.data.row_groups import mix
from byheart.data.sequences import Sequences, VectorSequences

_SALTS = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))
_STEP = np.uint64(0x9E3779B97F4A7C15)


def context_fingerprints(inputs: Sequences, task: Task, ordered: bool) -> UInt64[np.ndarray, "n_samples 2"]:
    """One fingerprint for each sample, whose context is as in `consistency`; no input is empty."""
    return np.stack([_salted(inputs, task, ordered, salt) for salt in _SALTS], axis=1)


def _salted(
    inputs: Sequences, task: Task, ordered: bool, salt: np.uint64
) -> UInt64[np.ndarray, " n_samples"]:
    if isinstance(inputs, VectorSequences):
        places = np.arange(1, inputs.dim + 1, dtype=np.uint64) * _STEP
        bits = inputs.values.reshape(-1, inputs.dim).view(np.uint64)
        words = mix(bits + places + salt).sum(axis=1, dtype=np.uint64)
        offsets = np.arange(len(inputs) + 1) * inputs.seq_len
    else:
        tokens, offsets = flat_tokens(inputs)
        words = mix(tokens.view(np.uint64) + salt)
    lengths = np.diff(offsets)
    terms = words
    if ordered:
        positions = np.arange(len(words)) - np.repeat(offsets[:-1], lengths)
        terms = words + (positions.astype(np.uint64) + np.uint64(1)) * _STEP
    total = np.add.reduceat(mix(terms), offsets[:-1]) + lengths.astype(np.uint64) * _STEP
    if not ordered and task != "set":  # without positions the token that carries the label tells
        total = mix(total) + words[offsets[1:] - 1]
    return mix(total)
