"""One shard: the keys of a range of rows, solved without the keys of other ranges.

All rows of a key are in one shard (`addresses.step_rows`), so the equations of two shards share no unknown. Each shard is
solved with its own random bits, so the result does not depend on where and in which order shards are solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Int, Shaped

from byheart.construct.retrieval import exactness, table_solver
from byheart.construct.retrieval.addresses import Addresses
from byheart.construct.retrieval.key_hash import KeyHash
from byheart.construct.retrieval.layout import RetrievalLayout
from byheart.construct.retrieval.table_solver import SolvedTable
from byheart.process.progress import Progress, part_of

Failure = Literal["equal addresses", "dependent equations", "headroom"]
FAILURES: tuple[Failure, ...] = ("equal addresses", "dependent equations", "headroom")


@dataclass(frozen=True, eq=False)
class SolvedShard:
    """The words of one range of rows, and bounds on their sums.

    For each part of the label, a key reads several words, and their sum encodes the part. `lowest` and `highest` hold the least and
    the largest of these sums over all keys, for each part.

    `words` has one table row after the other: in each, the words of the first part, then those of the next part, and so on.
    """

    words: Shaped[np.ndarray, " n_words"]
    lowest: tuple[int, ...]
    highest: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FilledTables:
    """The words (entries) of the tables, in the order of `SolvedShard.words`.

    Each part of a label is encoded in a sum of words. For each part, `centres` has the integer c for which c·2^word_bits is
    closest to the middle between the lowest and the highest of these sums.
    """

    words: Shaped[np.ndarray, " n_words"]
    centres: tuple[int, ...]


def solve_shard(
    layout: RetrievalLayout,
    shard: int,
    fields: Int[np.ndarray, "n_keys n_fields"],
    labels: Int[np.ndarray, " n_keys"],
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> SolvedShard | Failure:
    """Compute the words (table entries) of one shard (a range of table rows). `fields` are the hashed fields of its keys."""
    where = layout.addresses(fields)
    where = Addresses(where.rows - shard * layout.shard_rows, where.patterns, where.planes)
    if where.n_duplicates:
        return "equal addresses"
    own = replace(layout, n_rows=layout.shard_rows, n_shards=1, n_keys=len(labels))
    tables = _solve_parts(own, where, labels, rng, progress)
    if tables is None:
        return "dependent equations"
    words = [table.words.reshape(-1, layout.n_channels) for table in tables]
    return SolvedShard(
        np.concatenate(words, axis=1).reshape(-1),
        tuple(int(min(table.sums, default=0)) for table in tables),
        tuple(int(max(table.sums, default=0)) for table in tables),
    )


def _solve_parts(
    layout: RetrievalLayout,
    where: Addresses,
    labels: Int[np.ndarray, " n_keys"],
    rng: np.random.Generator,
    progress: Progress | None,
) -> list[SolvedTable] | None:
    """Return the words of every part of the label, or None if equations are dependent.

    For every part, the left sides of the equations are the same, and only the label bits on the right sides differ.
    """
    tables = []
    for part in range(layout.n_parts):
        own = labels
        if layout.n_parts > 1:
            own = (labels >> part * layout.field_bits) & ((1 << layout.field_bits) - 1)
        share = progress and part_of(progress, part / layout.n_parts, (part + 1) / layout.n_parts)
        table = table_solver.solve(layout, where, own, rng, share)
        if not isinstance(table, SolvedTable):
            return None
        assert (table_solver.read_labels(layout, where, table.sums) == own).all()
        tables.append(table)
    return tables


def join_shards(
    layout: RetrievalLayout, hashed: KeyHash, shards: Sequence[SolvedShard], largest_input: int
) -> FilledTables | Failure:
    """Combine the shards into the tables of the network, and check that every sum is exact. `largest_input` is the largest absolute
    value of a coordinate, for vectors on a grid.
    """
    words = np.concatenate([shard.words for shard in shards])
    by_part = words.reshape(-1, layout.n_parts, layout.n_channels)
    centres = []
    for part in range(layout.n_parts):
        bounds = [bound for shard in shards for bound in (shard.lowest[part], shard.highest[part])]
        sums = np.array(bounds, dtype=words.dtype)
        centre = exactness.centre_of(layout, sums)
        try:
            found = exactness.margins(
                layout, hashed, by_part[:, part].reshape(-1), sums, centre, largest_input
            )
            exactness.require_exact(found, layout.mantissa_bits)
        except exactness.NotExactInFloats:
            return "headroom"
        centres.append(centre)
    return FilledTables(words, tuple(centres))
