"""The digest of a data set, spelt out by hand: it names the data in every certificate, so it never changes."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np

from byheart.data.dataset import Dataset


def spelt(header: dict[str, object], *parts: bytes) -> str:
    text = json.dumps(dict(sorted(header.items())), separators=(",", ":")).encode("ascii")
    content = b"byheart data set, version 1\n" + struct.pack("<Q", len(text)) + text
    for part in parts:
        content += struct.pack("<Q", len(part)) + part
    return hashlib.sha256(content).hexdigest()


def test_tokens_are_spelt_as_offsets_ids_and_labels() -> None:
    data = Dataset.from_pairs([("ba", "é"), ("c", "x")])
    header = {
        "task": "next-token",
        "ordered": True,
        "inputs": "tokens",
        "shape": [2],
        "n_vocab": 3,
        "vocabulary": ["a", "b", "c"],
        "label_names": ["x", "é"],
    }
    numbers = ((0, 2, 3), (1, 0, 2), (1, 0))
    parts = [struct.pack(f"<{len(each)}q", *each) for each in numbers]
    assert data.digest == spelt(header, *parts)


def test_vectors_are_spelt_as_64_bit_floats() -> None:
    values = np.arange(12.0, dtype=np.float32).reshape(3, 2, 2)
    data = Dataset.from_arrays(values, [5, 6, 5])
    header = {
        "task": "next-token",
        "ordered": data.ordered,
        "inputs": "vectors",
        "shape": [3, 2, 2],
        "n_vocab": None,
        "vocabulary": None,
        "label_names": ["5", "6"],
    }
    parts = (values.astype("<f8").tobytes(), struct.pack("<3q", 0, 1, 0))
    assert data.digest == spelt(header, *parts)
    turned = Dataset.from_arrays(np.asfortranarray(values.astype(np.float64)), [5, 6, 5])
    assert turned.digest == data.digest
