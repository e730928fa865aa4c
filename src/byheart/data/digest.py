"""The name of a data set's content: SHA-256 over one canonical spelling of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from byheart.data.sequences import Sequences, VectorSequences

VERSION_LINE = b"byheart data set, version 1\n"


def digest_header(
    task: str,
    ordered: bool,
    shape: Sequence[int],
    n_vocab: int | None,
    vocabulary: Sequence[str] | None,
    label_names: Sequence[str],
) -> bytes:
    """The first part of what is digested; vectors have no `n_vocab`."""
    header = {
        "task": task,
        "ordered": ordered,
        "inputs": "vectors" if n_vocab is None else "tokens",
        "shape": list(shape),
        "n_vocab": n_vocab,
        "vocabulary": None if vocabulary is None else list(vocabulary),
        "label_names": list(label_names),
    }
    return json.dumps(header, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode("ascii")


def digest_of(
    inputs: Sequences,
    labels: Int[np.ndarray, " n_labels"],
    task: str,
    ordered: bool,
    vocabulary: Sequence[str] | None,
    label_names: Sequence[str],
) -> str:
    """Return the SHA-256 (hex) of task, order, inputs, vocabulary, labels and label names.

    The spelling: a JSON header, then the arrays as little-endian 64-bit numbers, each part with its length in
    bytes before it, so that no two contents are spelled alike.
    """
    shape = list(inputs.values.shape) if isinstance(inputs, VectorSequences) else [len(inputs)]
    n_vocab = None if isinstance(inputs, VectorSequences) else inputs.n_vocab
    header = digest_header(task, ordered, shape, n_vocab, vocabulary, label_names)
    parts = [np.frombuffer(header, dtype=np.uint8)]
    if isinstance(inputs, VectorSequences):
        parts.append(inputs.values.astype("<f8", copy=False))
    else:
        parts += [array.astype("<i8", copy=False) for array in (inputs.offsets, inputs.ids)]
    parts.append(labels.astype("<i8", copy=False))
    sha = hashlib.sha256(VERSION_LINE)
    for part in parts:
        sha.update(part.nbytes.to_bytes(8, "little"))
        sha.update(np.ascontiguousarray(part).data)
    return sha.hexdigest()
