"""Vardi, Yehudai & Shamir 2022: a feed-forward network of about √N blocks that memorises N vectors."""

from __future__ import annotations

import numpy as np

from byheart.bounds.predecessors import vardi_2022_size
from byheart.construct.registry import Example, Method, NoOptions
from byheart.data.dataset import Dataset
from byheart.data.generators import uniform_vectors
from byheart.data.shape import DataShape
from byheart.network.size import Size
from byheart.process.progress import Progress
from byheart.program.blocks import Block, Program, Step, TokenTable, Unit
from byheart.program.construction import ProgramPlan
from byheart.program.count import count
from byheart.program.distinct_tokens import project_tokens
from byheart.program.lookup import ANSWER, LOOKUP, LookupPlan, X, memorise_points, plan_lookup
from byheart.program.projection import LineMap, typical_line
from byheart.program.single_samples import (
    TASKS,
    assume_single,
    expected_line_bits,
    labelled_vectors,
    outline_table,
)

NAME = "vardi-2022"
MODEL_WIDTH = len(LOOKUP)


def memorise_vectors(
    data: Dataset, options: NoOptions, rng: np.random.Generator, progress: Progress | None = None
) -> ProgramPlan:
    """Compile single vectors into a deep feed-forward network: project, find the group, extract the label.

    Source:     Vardi, Yehudai & Shamir (2022), Theorem 3.1, in the form of KS25 Lemma C.1 (Stages I to III).
    Assumes:    one vector per sample; equal samples carry equal labels. Bounds and separation are computed
                from the data.
    Guarantee:  the output equals label + 1 exactly on every sample, over the rationals, and 0 on any other vector whose projection
                is at least 2 away from those of all samples.
    In floats:  not meant for floats; packed numbers have about √(N log N) bits.
    Size:       ⌈N/k⌉ + k·(max(key bits, label bits) + 2) + 2 blocks for N samples in groups of k, with the best k; residual
                width 9, hidden width 8.
    Departs:    the blocks are residual, so the width is 9 instead of 12. The group size minimises
                parameters instead of being √(N / log N). Errata 2 to 6 of KS25's proof are corrected (see `memorise_points`).
    """
    vectors = labelled_vectors(NAME, data)
    separation = vectors.tokens.separation
    line = project_tokens(vectors.tokens, rng)
    labelled = dict(zip(line.values, vectors.labels, strict=True))
    plan = _plan_groups(len(labelled), line.value_bits, data.n_classes)
    return ProgramPlan(
        program=_program(vectors.tokens.table, line, memorise_points(labelled, plan)),
        data=data,
        method=NAME,
        theorem="VYS22 Theorem 3.1, as KS25 Lemma C.1, repaired",
        assumptions=assume_single(data, vectors),
        theorem_size=vardi_2022_size(
            len(vectors), data.n_classes, vectors.tokens.dim, separation.r_squared, separation.delta or 1.0
        ),
        notes={
            "distinct_samples": len(labelled),
            "key_bits": line.value_bits,
            "groups": plan.n_groups,
            "group_size": plan.group_size,
        },
    )


def size_of(shape: DataShape, options: NoOptions) -> Size:
    """Return the estimated size for data of this shape.

    The numbers to which vectors are projected are assumed to have as many bits as for random data. The non-zero count assumes that
    no coordinate of the projection is zero. The number of bits assumes that all packed numbers and all ends of intervals have their
    full length.
    """
    table = outline_table(NAME, shape)
    key_bits = expected_line_bits(shape)
    plan = _plan_groups(shape.context_count, key_bits, shape.n_classes)
    return count(_program(table, typical_line(shape, key_bits), plan.outline()))


def _plan_groups(n_points: int, key_bits: int, n_classes: int) -> LookupPlan:
    return plan_lookup(n_points, key_bits, n_classes.bit_length(), MODEL_WIDTH)


def _program(table: TokenTable | None, line: LineMap, lookup: tuple[Step, ...]) -> Program:
    """Return the program that projects a vector to a number, adds an offset to this number, and looks up the vector's label.

    With the offset, the number is at least 2 for each vector of the data. The input map of a program is linear, so a block adds the
    offset.
    """
    # the bias of the second layer adds the offset; the unit without effect is there because a block must have a hidden unit
    shift = Block((Unit({}, 0, {}),), {X: line.offset})
    return Program(LOOKUP, {X: line.coefficients}, (shift, *lookup), ANSWER, 1, table)


METHOD = Method(
    name=NAME,
    source="Vardi, Yehudai & Shamir 2022, Theorem 3.1",
    statements=("KS25-L C.1",),
    page="rivals.md",
    tasks=TASKS,
    precisions=("exact",),
    size_of=size_of,
    plan=memorise_vectors,
    example=lambda: Example(uniform_vectors(40, 1, 3, seed=0)),
)
