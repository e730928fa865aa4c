"""O(N^(2/3)) parameters: a feed-forward network that keeps no keys."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log2

import numpy as np

from byheart.construct.park_2021.arrangement import Arrangement, arrange, short_direction
from byheart.construct.park_2021.program import (
    BIT_UNITS,
    FIELD_UNITS,
    FIRST_FIELD_UNITS,
    FOLD_UNITS,
    MOVE_UNITS,
    PLACE,
    REGISTERS,
    lookup_program,
)
from byheart.construct.park_2021.program_size import (
    Parts,
    expected_program_numbers,
    program_numbers,
    program_tally,
)
from byheart.construct.registry import Method
from byheart.data.dataset import Dataset
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.memory import Progress
from byheart.network.size import Size
from byheart.network.transformer.float_exactness import MANTISSA_BITS
from byheart.program.construction import Construction, Statistics
from byheart.program.emit import emit_layers
from byheart.program.single_vectors import (
    TASKS,
    assumptions_on,
    labelled_vectors,
    measured,
    memory_of,
    refuse_options,
    require_single,
    size_of_blocks,
)
from byheart.program.weight_count import alike, tally

NAME = "park-2021"
MODEL_WIDTH = len(REGISTERS)


def memorise_without_keys(
    data: Dataset, options: Mapping[str, object], rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile single vectors into a feed-forward network: project, fold, overlay, cut into buckets, read the field.

    Source:     Park, Lee, Yun & Shin (2021): O(N^(2/3) log C + log Δ + d) parameters. The four phases are
                theirs; this explicit form in whole numbers is reconstructed.
    Assumes:    one vector per sample; equal samples carry equal labels.
    Guarantee:  the output equals label + 1 exactly on every sample, over the rationals. No key is stored, so
                any other vector may get any label.
    In floats:  not meant for floats; a word has n_fields · log2 C bits.
    Size:       `size_of`. Residual width 4, hidden width at most 6. About log2(Δ^2/N^2) folds, N^(2/3)
                segments, and √(N^(4/3) / log C) buckets and fields.
    Departs:    folds reflect instead of shifting (one ReLU, not two); points are moved in place, from the top
                down, so that a segment or a bucket takes two ReLUs and no register for the old place; group
                sizes minimise parameters.
    """
    refuse_options(NAME, options)
    vectors = labelled_vectors(NAME, data)
    direction, places, unit = short_direction(vectors.points, rng)
    lowest = min(places)
    field_bits = field_bits_of(data.n_classes)
    costs = costs_of(field_bits)
    arrangement = arrange([place - lowest for place in places], rng, costs.move, costs.move, costs.field)
    words = _words(arrangement, vectors.labels, field_bits)
    factor = Fraction(2) ** (vectors.points.frac_bits - unit)
    w_in = SparseMatrix.of(
        (MODEL_WIDTH, vectors.dim),
        {(REGISTERS.index(PLACE), axis): entry * factor for axis, entry in enumerate(direction)},
    )
    program = lookup_program(arrangement, words, field_bits, -lowest)
    if progress is not None:
        progress(1, 1)
    statistics = replace(
        measured(data, vectors),
        n_folds=len(arrangement.mirrors),
        n_segments=len(arrangement.segments),
        n_buckets=len(arrangement.starts),
        n_fields=arrangement.n_fields,
        numbers={
            "axes": tally(entry * factor for entry in direction),
            **program_numbers(arrangement, words, -lowest),
        },
    )
    return Construction(
        memory=memory_of(data, vectors, w_in, emit_layers(program, REGISTERS), REGISTERS.index("answer")),
        method=NAME,
        theorem="PLYS21, O(N^(2/3)) parameters, reconstructed in whole numbers",
        assumptions=assumptions_on(data, vectors),
        theorem_size=None,
        notes={
            "distinct_samples": len(places),
            "folds": statistics.n_folds,
            "segments": statistics.n_segments,
            "extent": arrangement.extent,
            "buckets": statistics.n_buckets,
            "fields": statistics.n_fields,
        },
        statistics=statistics,
    )


def field_bits_of(n_classes: int) -> int:
    """⌈log2 C⌉, at least 1: fields hold class numbers from 0, since there is no "no label" to tell from them."""
    return max(1, (n_classes - 1).bit_length())


@dataclass(frozen=True)
class Costs:
    """Dense parameters of a block that moves points, and of a field with all its bits."""

    move: int
    field: int


def costs_of(field_bits: int) -> Costs:
    """The costs for fields of this many bits."""
    return Costs(_block(MOVE_UNITS), _block(FIELD_UNITS) + (field_bits - 1) * _block(BIT_UNITS))


def _block(hidden: int) -> int:
    return 2 * MODEL_WIDTH * hidden + hidden + MODEL_WIDTH


def _words(arrangement: Arrangement, labels: tuple[int, ...], field_bits: int) -> list[int]:
    """The word of each bucket: class number of place start + q in field q."""
    words = [0] * len(arrangement.starts)
    for place, label in zip(arrangement.places, labels, strict=True):
        bucket = bisect_right(arrangement.starts, place) - 1
        words[bucket] |= (label - 1) << (field_bits * (place - arrangement.starts[bucket]))
    return words


def size_of(statistics: Statistics) -> Size:
    """The size `memorise_without_keys` builds, without building.

    Everything is exact for the statistics a construction reports. Where only the shape of the data is known, the numbers of
    folds, segments, buckets and fields are what random points were found to need, the non-zero count takes no threshold
    and no word as zero, and bits are estimates.
    """
    require_single(NAME, statistics.seq_len)
    n_points = statistics.n_samples if statistics.n_contexts is None else statistics.n_contexts
    field_bits = field_bits_of(statistics.n_classes)
    parts = _parts(statistics, n_points, field_bits)
    blocks = [
        (max(1, parts.n_folds), FOLD_UNITS),
        (parts.n_segments + parts.n_buckets, MOVE_UNITS),
        (1, FIRST_FIELD_UNITS),
        (parts.n_fields - 1, FIELD_UNITS),
        (parts.n_fields * (field_bits - 1), BIT_UNITS),
        (1, 1),
    ]
    numbers = statistics.numbers
    if numbers is None:
        has_table = statistics.vocab is not None
        axes = alike(1, 1) if has_table else alike(statistics.dim or 1, MANTISSA_BITS["float64"])
        numbers = {"axes": axes, **expected_program_numbers(parts, field_bits, 2 * n_points.bit_length())}
    weights = numbers["axes"] + program_tally(parts, field_bits, numbers)
    return size_of_blocks(statistics, MODEL_WIDTH, blocks, weights)


def _parts(statistics: Statistics, n_points: int, field_bits: int) -> Parts:
    """Folds, segments, buckets and fields: as measured, or as random points have them."""
    costs = costs_of(field_bits)
    start_bits = 54 if statistics.vocab is None else max(1, statistics.vocab - 1).bit_length()
    # folding ends near N²/64, and each fold but few halves the range
    n_folds = max(1, round(1.15 * (start_bits - 2 * log2(n_points) + 6)))
    n_segments = round(n_points ** (2 / 3))
    covered = max(1.0, 0.13 * n_points ** (4 / 3))
    n_fields = max(1, round((covered * costs.move / costs.field) ** 0.5))
    n_buckets = max(1, round(covered / n_fields))

    def known(measured: int | None, guess: int) -> int:
        return guess if measured is None else measured

    return Parts(
        known(statistics.n_folds, n_folds),
        known(statistics.n_segments, n_segments),
        known(statistics.n_buckets, n_buckets),
        known(statistics.n_fields, n_fields),
    )


METHOD = Method(
    name=NAME,
    source="Park, Lee, Yun & Shin 2021",
    tasks=TASKS,
    precisions=("exact",),
    size_of=size_of,
    build=memorise_without_keys,
)
