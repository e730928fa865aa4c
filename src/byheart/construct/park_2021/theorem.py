"""A feed-forward network that memorises N vectors with O(N^(2/3)) parameters. It does not store the vectors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from math import log2

import numpy as np

from byheart.construct.park_2021.arrangement import Arrangement, arrange, short_direction
from byheart.construct.park_2021.program import Parts, costs_of, line_program, lookup_blocks, lookup_outline
from byheart.construct.registry import Example, Method, NoOptions
from byheart.data.dataset import Dataset
from byheart.data.generators import uniform_vectors
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.size import Size
from byheart.network.transformer.float_exactness import MANTISSA_BITS
from byheart.process.progress import Progress
from byheart.program.blocks import typical
from byheart.program.construction import ProgramPlan
from byheart.program.count import count
from byheart.program.single_samples import TASKS, assume_single, labelled_vectors, outline_table

NAME = "park-2021"
MOST_BITS = 1 << 28  # the most bits of a weight in an estimate


def memorise_without_keys(
    data: Dataset, options: NoOptions, rng: np.random.Generator, progress: Progress | None = None
) -> ProgramPlan:
    """Compile data with one vector per sample into a feed-forward network.

    The network projects a vector to a point on a line and reflects ("folds") the line until it is short. It then moves segments of
    the line over one another. The result is divided into buckets (ranges of positions). A packed number for each bucket has one
    field of bits for each position. The network reads the label from the field of the point's position.

    Source:     Park, Lee, Yun & Shin (2021): O(N^(2/3) log C + log Δ + d) parameters for N samples of C classes and dimension d,
                where Δ is the largest distance of two samples divided by the smallest. The phases are theirs; this explicit form in
                integers is reconstructed.
    Assumes:    one vector per sample; equal samples carry equal labels.
    Guarantee:  the output equals label + 1 exactly on every sample, over the rationals. No key is stored, so
                any other vector may get any label.
    In floats:  not meant for floats: the packed number of a bucket with n fields has about n · log2 C bits.
    Size:       residual width 4, hidden width at most 6. If the projected points are integers in a range of length R, there are
                about log2(R/N^2) folds and N^(2/3) segments. Up to constant factors, there are √(N^(4/3) · log C) buckets of
                √(N^(4/3) / log C) fields each.
    Departs:    folds reflect instead of shifting (one ReLU, not two). Points are moved in place, starting at the upper end, so
                that a segment or a bucket takes two ReLUs and no register for the old position. The numbers of segments, buckets
                and fields are chosen to minimise the parameters.
    """
    vectors = labelled_vectors(NAME, data)
    points = vectors.tokens.points
    direction, places, unit = short_direction(points, rng)
    lowest = min(places)
    field_bits = field_bits_of(data.n_classes)
    move_cost, field_cost = costs_of(field_bits)
    arrangement = arrange([place - lowest for place in places], rng, move_cost, move_cost, field_cost)
    packed = pack_buckets(arrangement, vectors.labels, field_bits)
    factor = Fraction(2) ** (points.frac_bits - unit)
    return ProgramPlan(
        program=line_program(
            vectors.tokens.table,
            [entry * factor for entry in direction],
            lookup_blocks(arrangement, packed, field_bits, -lowest),
        ),
        data=data,
        method=NAME,
        theorem="Park et al. 2021 (PLYS21), O(N^(2/3)) parameters, an explicit form in integers",
        assumptions=assume_single(data, vectors),
        notes={
            "distinct_samples": len(places),
            "folds": len(arrangement.mirrors),
            "segments": len(arrangement.segments),
            "extent": arrangement.extent,
            "buckets": len(arrangement.starts),
            "fields": arrangement.n_fields,
        },
    )


def field_bits_of(n_classes: int) -> int:
    """Return the number of bits of a field (the room for one label in a packed number): ⌈log2(n_classes)⌉, but at least 1.

    Fields number the classes from 0, because no value is needed for "no label".
    """
    return max(1, (n_classes - 1).bit_length())


def pack_buckets(arrangement: Arrangement, labels: Sequence[int], field_bits: int) -> list[int]:
    """Return one packed number for each bucket (range of positions). It has a field of `field_bits` bits for each position. In a
    bucket that begins at s, field q holds the class number (label - 1) of the point at position s + q.
    """
    packed = [0] * len(arrangement.starts)
    for place, label in zip(arrangement.places, labels, strict=True):
        bucket = bisect_right(arrangement.starts, place) - 1
        packed[bucket] |= (label - 1) << (field_bits * (place - arrangement.starts[bucket]))
    return packed


def size_of(shape: DataShape, options: NoOptions) -> Size:
    """Return the estimated size for data of this shape.

    The numbers of folds, segments, buckets and fields (see `program.Parts`) are typical for random points. The non-zero count
    assumes that no threshold is zero, and that no bucket has only zeros in its fields. The numbers of bits are estimates.
    """
    table = outline_table(NAME, shape)
    n_points, field_bits = shape.context_count, field_bits_of(shape.n_classes)
    parts = expected_parts(shape)
    if parts.n_fields * field_bits > MOST_BITS:
        raise AssumptionViolated(
            f"{NAME} would need weights of {parts.n_fields * field_bits:,} bits; sizes are estimated only up to "
            f"{MOST_BITS:,} bits.",
            weight_bits=parts.n_fields * field_bits,
            most_bits=MOST_BITS,
        )
    axes = [1] if table is not None else [typical(MANTISSA_BITS["float64"])] * (shape.dim or 1)
    steps = lookup_outline(parts, field_bits, 2 * n_points.bit_length())
    return count(line_program(table, axes, steps))


def expected_parts(shape: DataShape) -> Parts:
    """Return the numbers of folds, segments, buckets and fields (see `Parts`) that are usual for random points."""
    n_points = shape.context_count
    move_cost, field_cost = costs_of(field_bits_of(shape.n_classes))
    start_bits = 54 if shape.vocab is None else max(1, shape.vocab - 1).bit_length()
    covered = max(1.0, 0.13 * n_points ** (4 / 3))
    n_fields = max(1, round((covered * move_cost / field_cost) ** 0.5))
    return Parts(
        # folding usually ends between N²/30 and N²/8, and a fold does not quite halve the range
        n_folds=max(1, round(1.15 * (start_bits - 2 * log2(n_points) + 6))),
        n_segments=round(n_points ** (2 / 3)),
        n_buckets=max(1, round(covered / n_fields)),
        n_fields=n_fields,
    )


METHOD = Method(
    name=NAME,
    source="Park, Lee, Yun & Shin 2021",
    tasks=TASKS,
    size_of=size_of,
    plan=memorise_without_keys,
    precisions=("exact",),
    example=lambda: Example(uniform_vectors(40, 1, 3, seed=0)),
    page="rivals.md",
    statements=("KS25-L G.1",),
)
