"""`retrieval` for data larger than memory: the keys are hashed and sorted into shards on disk, and each shard is solved by itself.

Each draw of the hash takes two rounds of tasks. In the first round, each task hashes the keys of one piece of the data and sorts
them by shard (range of table rows). In the second round, each task collects the keys of one shard from all pieces, solves their
equations, and writes the words (table entries) of the shard's rows. A task writes a whole file or none, and is skipped if its file
exists. So an interrupted compilation continues where it stopped. Tasks share nothing but these files, so any worker can run them.

The weights are the same as those that `method.plan` computes for the same data in memory, with the same number of shards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import repeat
from math import ceil
from pathlib import Path

import numpy as np
from jaxtyping import Int

from byheart.construct.retrieval import key_hash
from byheart.construct.retrieval.key_hash import KeyHash
from byheart.construct.retrieval.keys import MAX_LEVELS_BITS, grid_bits_of
from byheart.construct.retrieval.layout import RetrievalLayout
from byheart.construct.retrieval.method import (
    STAGES,
    THEOREM,
    Solution,
    notes_of,
    own_generators,
    ranks_of,
    refuse_keys,
    spread_bits,
)
from byheart.construct.retrieval.program import Contents, describe
from byheart.construct.retrieval.shard import (
    FAILURES,
    Failure,
    FilledTables,
    SolvedShard,
    join_shards,
    solve_shard,
)
from byheart.construct.retrieval.size import NAME, RetrievalOptions, Tokens, layout_of
from byheart.data.assumption import Assumption
from byheart.data.dataset_pieces import DatasetPieces
from byheart.data.distinct_contexts import context_fingerprints
from byheart.data.row_groups import group_rows, representatives
from byheart.data.sequences import TokenSequences
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError
from byheart.files.work_folder import (
    read_arrays,
    read_part,
    remove_parts,
    require_json,
    write_arrays,
    write_json,
    write_parts,
)
from byheart.network.memoriser import Memoriser
from byheart.process.progress import Progress, part_of
from byheart.process.task_runner import Workers
from byheart.program.construction import Construction
from byheart.program.emit import emit

_SURVEYED, _HASHED = 0.1, 0.4
"""How much of the work is reported as done when all pieces of the data are surveyed, and when all are hashed, as shares of 1. The
rest is for solving the equations.
"""


@dataclass(frozen=True, eq=False)
class WholeNumbers:
    """The rules by which the inputs of all pieces are converted to integers.

    pad              id that pads short sequences; None if no sequence is padded
    grid_bits        vectors are integer multiples of 2^-grid_bits
    lowest, highest  bounds of each coordinate; empty for ids
    """

    pad: int | None
    grid_bits: int
    lowest: Int[np.ndarray, " dim"]
    highest: Int[np.ndarray, " dim"]

    @property
    def largest(self) -> int:
        """The largest |coordinate| of a vector; 0 for ids."""
        return int(max(np.abs(self.lowest).max(initial=0), np.abs(self.highest).max(initial=0)))


@dataclass(frozen=True, eq=False)
class _Survey:
    """A task that finds the least and largest coordinates of the vectors of one piece, and the grid on which the vectors lie."""

    pieces: DatasetPieces
    folder: Path
    number: int

    @property
    def file(self) -> Path:
        return self.folder / f"{self.number:06d}.json"


@dataclass(frozen=True, eq=False)
class _Hashing:
    """A task that hashes the keys of one piece and sorts them by shard."""

    pieces: DatasetPieces
    numbers: WholeNumbers
    layout: RetrievalLayout
    hashed: KeyHash
    folder: Path
    number: int

    @property
    def file(self) -> Path:
        return _keys_file(self.folder, self.number)


@dataclass(frozen=True, eq=False)
class _Solving:
    """A task that computes the words (table entries) of one shard, a range of rows.

    `ranks` gives the number that is stored for each class: its rank by frequency if codes have different lengths, else the class
    number itself.
    """

    layout: RetrievalLayout
    ranks: Int[np.ndarray, " n_classes"]
    rng: np.random.Generator
    folder: Path
    n_pieces: int
    shard: int

    @property
    def file(self) -> Path:
        return self.folder / f"shard-{self.shard:06d}.npz"


def build(
    pieces: DatasetPieces,
    options: RetrievalOptions,
    rng: np.random.Generator,
    folder: Path,
    workers: Workers,
    progress: Progress | None = None,
) -> Construction:
    """Compile a data set that is read in pieces. Its contexts must have been counted before. Intermediate results are kept in
    `folder`.
    """
    assert pieces.n_contexts is not None
    n_contexts = pieces.n_contexts
    if options.shards is None:
        raise UsageError(
            "data that are read in pieces can be compiled only in shards.\n  Set the option shards."
        )
    numbers = _whole_numbers(pieces, folder / "survey", workers, progress)
    ranks = ranks_of(np.array(pieces.label_counts))
    found = _solve(pieces, numbers, ranks, n_contexts, options, rng, folder, workers, progress)
    contents = Contents(found.hashed, found.words, found.centres, numbers.pad, numbers.grid_bits)
    program = describe(found.layout, contents)
    network = emit(program, options.precision)
    names = pieces.label_names
    if found.layout.rare_fields:  # classes are then numbered by rank
        names = tuple(names[number] for number in np.argsort(ranks))
    return Construction(
        Memoriser(network, pieces.task, names, pieces.tokenizer, pieces.ordered, pieces.label_type),
        NAME,
        THEOREM,
        _assumptions(pieces, numbers, n_contexts),
        None,
        notes_of(found, program, n_contexts, options.reject_bits),
    )


def _whole_numbers(
    pieces: DatasetPieces, folder: Path, workers: Workers, progress: Progress | None
) -> WholeNumbers:
    none = np.zeros(0, dtype=np.int64)
    if pieces.vocab is not None:
        return WholeNumbers(pieces.vocab if pieces.shortest < pieces.seq_len else None, 0, none, none)
    tasks = [_Survey(pieces, folder, number) for number in range(len(pieces.sizes))]
    workers.run(_survey_piece, tasks, progress and part_of(progress, 0.0, _SURVEYED))
    found = [require_json(task.file) for task in tasks]
    lowest = np.array([piece["lowest"] for piece in found]).min(axis=0)
    highest = np.array([piece["highest"] for piece in found]).max(axis=0)
    largest = float(max(np.abs(lowest).max(), np.abs(highest).max()))
    bits = [piece["grid_bits"] for piece in found]
    if None in bits or np.ldexp(largest, max(bits)) > 2.0**MAX_LEVELS_BITS:
        raise AssumptionViolated(
            "the coordinates of the vectors are not on a regular grid with few levels; such vectors "
            "can be quantised only if they fit into memory.\n"
            "  Round the values to fewer digits, or leave out the option shards."
        )
    scaled = [np.ldexp(bound, max(bits)).astype(np.int64) for bound in (lowest, highest)]
    return WholeNumbers(None, max(bits), scaled[0], scaled[1])


def _survey_piece(task: _Survey) -> None:
    if task.file.exists():
        return
    inputs = task.pieces.piece(task.number).inputs
    assert not isinstance(inputs, TokenSequences)
    flat = inputs.values.reshape(-1, inputs.dim)
    bounds = {"lowest": flat.min(axis=0).tolist(), "highest": flat.max(axis=0).tolist()}
    write_json(task.file, {"grid_bits": grid_bits_of(inputs), **bounds})


def _solve(
    pieces: DatasetPieces,
    numbers: WholeNumbers,
    ranks: Int[np.ndarray, " n_classes"],
    n_contexts: int,
    options: RetrievalOptions,
    rng: np.random.Generator,
    folder: Path,
    workers: Workers,
    progress: Progress | None,
) -> Solution:
    """Draw random hashes until one can store every label: first hashes of the usual kind, then hashes that mix the tokens more,
    and finally hashes that mix the tokens more, with larger tables (see `STAGES`).
    """
    failures: dict[str, int] = dict.fromkeys(FAILURES, 0)
    shape = DataShape(
        pieces.n_samples,
        pieces.seq_len,
        pieces.n_classes,
        n_contexts=n_contexts,
        ragged=pieces.shortest < pieces.seq_len,
        task=pieces.task,
        vocab=pieces.vocab,
        dim=pieces.dim,
        ordered=pieces.ordered,
        label_counts=tuple(sorted(pieces.label_counts, reverse=True)),
    )
    token_bits = None if pieces.vocab is not None else spread_bits(numbers.lowest, numbers.highest, options)
    n_draws = 0
    for stage, more_folds, room, most_draws in STAGES:
        tokens = Tokens(token_bits, more_folds=more_folds)
        layout = replace(layout_of(shape, options, tokens, ceil(room * n_contexts)), n_keys=n_contexts)
        for _ in range(most_draws):
            n_draws += 1
            hashed = key_hash.draw(layout, numbers.lowest, numbers.highest, rng)
            generators = own_generators(options, rng)
            own = ranks if layout.rare_fields else np.arange(len(ranks))
            found = _solve_shards(
                pieces,
                numbers,
                layout,
                own,
                hashed,
                generators,
                folder / f"draw-{n_draws:02d}",
                workers,
                progress,
            )
            if isinstance(found, FilledTables):
                return Solution(layout, hashed, found.words, found.centres, stage, n_draws, failures)
            failures[found] += 1
    raise refuse_keys(n_contexts, n_draws, failures)


def _solve_shards(
    pieces: DatasetPieces,
    numbers: WholeNumbers,
    layout: RetrievalLayout,
    ranks: Int[np.ndarray, " n_classes"],
    hashed: KeyHash,
    generators: list[np.random.Generator],
    folder: Path,
    workers: Workers,
    progress: Progress | None,
) -> FilledTables | Failure:
    n_pieces = len(pieces.sizes)
    solving = [_Solving(layout, ranks, rng, folder, n_pieces, shard) for shard, rng in enumerate(generators)]
    if not all(task.file.exists() for task in solving):
        hashing = [_Hashing(pieces, numbers, layout, hashed, folder, number) for number in range(n_pieces)]
        workers.run(_hash_piece, hashing, progress and part_of(progress, _SURVEYED, _HASHED))
        workers.run(_solve_one, solving, progress and part_of(progress, _HASHED, 1.0))
        remove_parts(piece.file for piece in hashing)
    solved = []
    for task in solving:
        found = _read_shard(task.file)
        if not isinstance(found, SolvedShard):
            return found
        solved.append(found)
    return join_shards(layout, hashed, solved, numbers.largest)


def _hash_piece(task: _Hashing) -> None:
    """Write the keys of one piece of the data, sorted by shard (range of table rows): for each key, its hashed fields (the numbers
    that the hash gives), its label, and a fingerprint of its context. Within a shard, keep the order of the data.
    """
    if task.file.exists():
        return
    layout, data = task.layout, task.pieces.piece(task.number)
    if isinstance(data.inputs, TokenSequences):
        pad = 0 if task.numbers.pad is None else task.numbers.pad
        inputs = data.inputs.pad(pad, task.pieces.seq_len)
    else:
        inputs = np.ldexp(data.inputs.values, task.numbers.grid_bits).astype(np.int64)
    fields = key_hash.evaluate_fields(layout, task.hashed, inputs, last_only=True)
    shard_of = layout.first_rows(fields) // layout.shard_rows
    prints = context_fingerprints(data.inputs, data.task, data.ordered)
    columns = [*np.ascontiguousarray(fields.T), data.labels, *np.ascontiguousarray(prints.T)]
    write_parts(task.file, shard_of, layout.n_shards, columns)


def _solve_one(task: _Solving) -> None:
    """Collect the keys of one shard, each context once, and solve their equations. Write the words (table entries) to the task's
    file, or the reason why there are none.
    """
    if task.file.exists():
        return
    keys = read_part(map(_keys_file, repeat(task.folder), range(task.n_pieces)), task.shard)
    fields, labels, prints = keys[:, :-3], task.ranks[keys[:, -3]], keys[:, -2:]
    first = representatives(group_rows(prints.ravel(), np.arange(len(prints) + 1) * 2))
    solved = solve_shard(task.layout, task.shard, fields[first], labels[first], task.rng)
    if not isinstance(solved, SolvedShard):
        write_arrays(task.file, {"failure": np.array(FAILURES.index(solved))})
        return
    bounds = {"lowest": np.array(solved.lowest), "highest": np.array(solved.highest)}
    write_arrays(task.file, {"words": solved.words, **bounds})


def _keys_file(folder: Path, number: int) -> Path:
    return folder / f"keys-{number:06d}.npy"


def _read_shard(path: Path) -> SolvedShard | Failure:
    arrays = read_arrays(path)
    if "failure" in arrays:
        return FAILURES[int(arrays["failure"])]
    return SolvedShard(arrays["words"], tuple(arrays["lowest"].tolist()), tuple(arrays["highest"].tolist()))


def _assumptions(pieces: DatasetPieces, numbers: WholeNumbers, n_contexts: int) -> tuple[Assumption, ...]:
    found = [
        Assumption(
            "inputs are finite", True, f"sequences: {pieces.n_samples}, maximum length: {pieces.seq_len}"
        ),
        Assumption("equal contexts carry equal labels", True, f"distinct contexts: {n_contexts}"),
    ]
    if pieces.dim is not None:
        found.append(Assumption("vectors lie on a grid", True, f"multiples of 2^{-numbers.grid_bits}"))
    return tuple(found)
