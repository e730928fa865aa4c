"""Vardi, Yehudai & Shamir 2022: a feed-forward network of about √N blocks that memorises N vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.bounds.lookup import Points, dense_parameters, lookup_size, normalised
from byheart.construct.registry import Method
from byheart.data.dataset import Dataset
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.memory import Progress
from byheart.network.size import Size
from byheart.program.blocks import Block, Unit
from byheart.program.construction import Construction, Statistics
from byheart.program.emit import emit_layers
from byheart.program.lookup import (
    LookupRegisters,
    memorise_points,
    plan_lookup,
)
from byheart.program.lookup_size import (
    expected_lookup_numbers,
    lookup_numbers,
    lookup_tally,
)
from byheart.program.projection import Projection
from byheart.program.single_vectors import (
    TASKS,
    LabelledVectors,
    assumptions_on,
    labelled_vectors,
    line_bits_guess,
    measured,
    memory_of,
    onto_the_line,
    refuse_options,
    require_single,
    size_of_blocks,
)
from byheart.program.weight_count import NOTHING, alike, tally

NAME = "vardi-2022"
LOOKUP = LookupRegisters()
REGISTERS = (LOOKUP.x, *LOOKUP.words, "key", "value", "hit", LOOKUP.into)
MODEL_WIDTH = len(REGISTERS)


def memorise_vectors(
    data: Dataset, options: Mapping[str, object], rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile single vectors into a deep feed-forward network: project, find the group, extract the label.

    Source:     Vardi, Yehudai & Shamir (2022), Theorem 3.1, in the form of KS25 Lemma C.1 (Stages I to III).
    Assumes:    one vector per sample; equal samples carry equal labels. Bounds and separation are computed
                from the data.
    Guarantee:  the output equals label + 1 exactly on every sample, over the rationals, and 0 on any other
                vector whose projection is at least 2 from theirs.
    In floats:  not meant for floats; words have about √(N log N) bits.
    Size:       `size_of`. N/k + k·(max(key bits, label bits) + 2) + 2 blocks with the best k, residual width
                9, hidden width 8.
    Departs:    residual blocks, as the architecture has them, so width 9 instead of 12; the group size
                minimises parameters instead of being √(N / log N). Errata 2 to 7 of KS25's account are
                repaired (see `memorise_points`).
    """
    refuse_options(NAME, options)
    vectors = labelled_vectors(NAME, data)
    line = onto_the_line(vectors, rng)
    labelled = dict(zip(line.values, vectors.labels, strict=True))
    plan = plan_lookup(len(labelled), line.value_bits, data.n_classes.bit_length(), MODEL_WIDTH)
    program = (_shifted(line), *memorise_points(labelled, plan, LOOKUP))
    w_in = SparseMatrix.of(
        (MODEL_WIDTH, vectors.dim), {(0, axis): value for axis, value in enumerate(line.coefficients)}
    )
    if progress is not None:
        progress(1, 1)
    return Construction(
        memory=memory_of(data, vectors, w_in, emit_layers(program, REGISTERS), REGISTERS.index(LOOKUP.into)),
        method=NAME,
        theorem="VYS22 Theorem 3.1, as KS25 Lemma C.1, repaired",
        assumptions=assumptions_on(data, vectors),
        theorem_size=theorem_size(vectors, data.n_classes),
        notes={
            "distinct_samples": len(labelled),
            "key_bits": line.value_bits,
            "groups": plan.n_groups,
            "group_size": plan.group_size,
        },
        statistics=replace(
            measured(data, vectors),
            context_bits=line.value_bits,
            numbers={
                "axes": tally(line.coefficients),
                "offset": tally([line.offset]),
                **lookup_numbers(labelled, plan),
            },
        ),
    )


def _shifted(line: Projection) -> Block:
    """x ← x + offset, which is at least 2 on the data: E_in is linear and cannot shift."""
    # the bias of the second layer does it; the one idle unit is there because a block has hidden units
    return Block((Unit({}, 0, {}),), {LOOKUP.x: line.offset})


def theorem_size(vectors: LabelledVectors, n_classes: int) -> TheoremSize:
    """What Theorem 3.1 promises, with the constants of KS25 Lemma C.1."""
    _, delta = normalised(1, vectors.separation.delta or 1.0)
    n_points, r_squared = vectors.points.n_points, max(vectors.separation.r_squared, Fraction(1))
    size = lookup_size(Points(n_points, vectors.dim, r_squared, 0, delta), n_points, n_classes)
    return TheoremSize(
        name="VYS22 Theorem 3.1",
        statement="KS25-L C.1",
        width=12,
        depth=size.depth,
        parameters=dense_parameters(12, size.depth, vectors.dim),
        weight_bits=size.weight_bits,
        assumptions=("samples have norm at most r and differ by at least δ",),
        source="Vardi, Yehudai & Shamir 2022, Theorem 3.1, counted as in KS25 Lemma C.1",
    )


def size_of(statistics: Statistics) -> Size:
    """The size `memorise_vectors` builds, without building.

    Everything is exact for the statistics a construction reports. Where only the shape of the data is known, the bits of a
    place on the line are taken as random data have them, the non-zero count takes every coordinate of the projection as
    non-zero, and the bits take every packed word and every edge at full length.
    """
    require_single(NAME, statistics.seq_len)
    n_points = statistics.n_samples if statistics.n_contexts is None else statistics.n_contexts
    key_bits = statistics.context_bits or line_bits_guess(statistics)
    plan = plan_lookup(n_points, key_bits, statistics.n_classes.bit_length(), MODEL_WIDTH)
    numbers = statistics.numbers
    if numbers is None:
        has_table = statistics.vocab is not None
        numbers = {
            "axes": alike(1, 1) if has_table else alike(statistics.dim or 1, key_bits),
            "offset": NOTHING if has_table else alike(1, key_bits),
            **expected_lookup_numbers(plan),
        }
    weights = numbers["axes"] + numbers["offset"] + lookup_tally(plan, numbers)
    return size_of_blocks(statistics, MODEL_WIDTH, [(1, 1), *plan.blocks()], weights)


METHOD = Method(
    name=NAME,
    source="Vardi, Yehudai & Shamir 2022, Theorem 3.1",
    tasks=TASKS,
    precisions=("exact",),
    size_of=size_of,
    build=memorise_vectors,
)
