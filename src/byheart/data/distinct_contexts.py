"""Count the distinct contexts of a data set that is stored in pieces, and find equal contexts with different labels.

The context of a label is everything that a network can use to predict it (see `consistency`).

A fingerprint is a 128-bit hash of a context. The fingerprints of every piece are sorted into partitions by their
first bits. Equal contexts are therefore in the same partition, and partitions can be examined one at a time.

To compute a fingerprint, every token is hashed to a 64-bit word, and the words of a context are mixed and added up.
This is done twice, with different salts. Contexts with equal fingerprints are assumed to be equal. Among N contexts,
two different ones have equal fingerprints with a probability of about N² · 2^-129. The answers of the model are verified
later by running it on the samples; the number of contexts is not checked again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt64

from byheart.data.consistency import conflicting_labels, flat_tokens
from byheart.data.dataset_pieces import DatasetPieces, spool
from byheart.data.options import Task
from byheart.data.row_groups import mix
from byheart.data.sequences import Sequences, VectorSequences
from byheart.files.work_folder import (
    read_json,
    read_part,
    remove_parts,
    require_json,
    write_json,
    write_parts,
)
from byheart.process.progress import Progress, part_of
from byheart.process.task_runner import Workers

PARTITION_SAMPLES = 1 << 21
_SALTS = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))
_STEP = np.uint64(0x9E3779B97F4A7C15)


def context_fingerprints(inputs: Sequences, task: Task, ordered: bool) -> UInt64[np.ndarray, "n_samples 2"]:
    """Return the fingerprint (128-bit hash) of each sample's context, which is what a network can use to predict the label.

    No input may be empty.
    """
    return np.stack([_hash_contexts(inputs, task, ordered, salt) for salt in _SALTS], axis=1)


def _hash_contexts(
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
    # without positions, the token that carries the label is part of the context
    if not ordered and task != "set":
        total = mix(total) + words[offsets[1:] - 1]
    return mix(total)


@dataclass(frozen=True)
class _Piece:
    pieces: DatasetPieces
    folder: Path
    number: int
    n_partitions: int

    @property
    def file(self) -> Path:
        return _piece_file(self.folder, self.number)


@dataclass(frozen=True)
class _Partition:
    folder: Path
    number: int
    n_pieces: int

    @property
    def file(self) -> Path:
        return self.folder / f"partition-{self.number:06d}.json"


def read_in_pieces(
    path: Path, folder: Path, workers: Workers, progress: Progress | None = None, **options: Any
) -> DatasetPieces:
    """Read a file into pieces under `folder` and count its contexts. `options` are those of `Dataset.read`."""
    pieces = spool(path, folder / "pieces", **options)
    n_contexts, label_counts = count_contexts(pieces, folder / "contexts", workers, progress)
    return replace(pieces, n_contexts=n_contexts, label_counts=label_counts)


def count_contexts(
    pieces: DatasetPieces, folder: Path, workers: Workers, progress: Progress | None = None
) -> tuple[int, tuple[int, ...]]:
    """Return the number of distinct contexts, and the number of contexts with each label.

    Raise `ConflictingLabels`, naming both rows, if equal contexts have different labels.
    """
    done = folder / "counted.json"
    if read_json(done) is None:
        n_partitions = -(-pieces.n_samples // PARTITION_SAMPLES)
        n_pieces = len(pieces.sizes)
        workers.run(
            _sort_piece,
            [_Piece(pieces, folder, number, n_partitions) for number in range(n_pieces)],
            progress and part_of(progress, 0.4, 0.7),
        )
        partitions = [_Partition(folder, number, n_pieces) for number in range(n_partitions)]
        workers.run(_count_partition, partitions, progress and part_of(progress, 0.7, 1.0))
        found = [require_json(partition.file) for partition in partitions]
        total = sum(partition["n_contexts"] for partition in found)
        conflicts = [partition["first"] for partition in found if partition["n_conflicts"]]
        n_conflicts = sum(partition["n_conflicts"] for partition in found)
        label_counts = [0] * pieces.n_classes
        for partition in found:
            for label, n_contexts in partition["label_counts"]:
                label_counts[label] += n_contexts
        write_json(
            done,
            {
                "n_contexts": total,
                "label_counts": label_counts,
                "n_conflicts": n_conflicts,
                "first": min(conflicts, default=None),
            },
        )
        remove_parts(map(_piece_file, repeat(folder), range(n_pieces)))
    known = require_json(done)
    if known["n_conflicts"]:
        later, earlier, *labels = known["first"]
        a, b = (pieces.label_names[label] for label in labels)
        raise conflicting_labels(
            f"rows {earlier} and {later} are equal but labelled {a!r} and {b!r}",
            known["n_conflicts"],
            "Drop these rows.",
            rows=(earlier, later),
        )
    return int(known["n_contexts"]), tuple(known["label_counts"])


def _sort_piece(task: _Piece) -> None:
    """Write the fingerprints (hashes) of the contexts in one piece to disk, sorted by partition (a range of fingerprints).

    Each fingerprint is stored with the label and the row number of its sample.
    """
    if task.file.exists():
        return
    data = task.pieces.piece(task.number)
    assert data.rows is not None
    prints = context_fingerprints(data.inputs, data.task, data.ordered)
    # the upper 32 bits times the number of partitions, divided by 2^32
    partition = ((prints[:, 0] >> np.uint64(32)) * np.uint64(task.n_partitions)) >> np.uint64(32)
    columns = np.ascontiguousarray(prints.T)
    write_parts(task.file, partition, task.n_partitions, [*columns, data.labels, data.rows])


def _count_partition(task: _Partition) -> None:
    """Count the distinct contexts whose fingerprints are in one partition, in total and for each label.

    A context with several labels counts for its first label, and every row with another label counts as one conflict. Write the
    counts and the first conflict to disk.
    """
    if task.file.exists():
        return
    found = read_part(map(_piece_file, repeat(task.folder), range(task.n_pieces)), task.number)
    found = found[np.lexsort((found[:, 3], found[:, 1], found[:, 0]))]
    labels, rows = found[:, 2], found[:, 3]
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = (found[1:, :2] != found[:-1, :2]).any(axis=1)
    context = np.cumsum(is_new) - 1
    first = np.flatnonzero(is_new)[context] if len(rows) else rows
    wrong = np.flatnonzero(labels != labels[first])
    used, counts = np.unique(labels[is_new], return_counts=True)
    document: dict[str, object] = {
        "n_contexts": int(is_new.sum()),
        "label_counts": np.stack([used, counts], axis=1).tolist(),
        "n_conflicts": len(wrong),
        "first": None,
    }
    if len(wrong):
        at = wrong[np.argmin(rows[wrong])]
        document["first"] = [int(n) for n in (rows[at], rows[first[at]], labels[first[at]], labels[at])]
    write_json(task.file, document)


def _piece_file(folder: Path, number: int) -> Path:
    return folder / f"piece-{number:06d}.npy"
