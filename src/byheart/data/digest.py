"""The digest of a data set's content: SHA-256 over a canonical form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

import numpy as np

VERSION_LINE = b"byheart data set, version 1\n"


def digest_of(
    task: str,
    ordered: bool,
    shape: Sequence[int],
    n_vocab: int | None,
    vocabulary: Sequence[str] | None,
    label_names: Sequence[str],
    parts: Iterable[tuple[int, Iterable[np.ndarray]]],
) -> str:
    """Return the SHA-256 (hex) of a data set: its task, `ordered`, inputs, vocabulary, labels and label names.

    The canonical form is a JSON header, followed by the parts: first offsets and ids (or vectors), then labels. Each part is
    written as its length in bytes, followed by its values as little-endian 64-bit numbers. Different contents therefore have
    different forms. Each item of `parts` is a pair: the number of values of the part, and the arrays that hold these values, in
    order. `n_vocab` is None for vectors.
    """
    header = {
        "task": task,
        "ordered": ordered,
        "inputs": "vectors" if n_vocab is None else "tokens",
        "shape": list(shape),
        "n_vocab": n_vocab,
        "vocabulary": None if vocabulary is None else list(vocabulary),
        "label_names": list(label_names),
    }
    spelled = json.dumps(header, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode("ascii")
    sha = hashlib.sha256(VERSION_LINE + len(spelled).to_bytes(8, "little") + spelled)
    for n_numbers, arrays in parts:
        sha.update((8 * n_numbers).to_bytes(8, "little"))
        for array in arrays:
            sha.update(np.ascontiguousarray(array, dtype="<f8" if array.dtype.kind == "f" else "<i8").data)
    return sha.hexdigest()
