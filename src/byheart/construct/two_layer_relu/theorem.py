"""One hidden layer of N - 1 ReLU units that memorises N vectors: piecewise linear interpolation along a line.

The weights have few bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from byheart.bounds.predecessors import two_layer_relu_size
from byheart.construct.registry import Example, Method
from byheart.data.dataset import Dataset
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.network.size import Size
from byheart.network.transformer.architecture import Precision
from byheart.network.transformer.float_exactness import MANTISSA_BITS
from byheart.process.progress import Progress
from byheart.program.blocks import Block, Program, TableBlock, TokenTable, Unit, typical
from byheart.program.construction import ProgramPlan
from byheart.program.count import count
from byheart.program.distinct_tokens import project_tokens
from byheart.program.projection import LineMap, typical_line
from byheart.program.single_samples import (
    TASKS,
    assume_single,
    expected_line_bits,
    labelled_vectors,
    outline_table,
)

NAME = "two-layer-relu"
LINE = "line"
_SLOPE_BITS = 4  # slopes are multiples of 2^-4; finer slopes would only make the weights longer


@dataclass(frozen=True)
class InterpolationOptions:
    precision: Precision = "exact"


@dataclass(frozen=True)
class Knot:
    """The term `weight` · ReLU(x - `at`). At `at`, it changes the slope by `weight`, which is 0 or ± a power of two."""

    at: Fraction
    weight: Fraction


def interpolating_knots(points: Sequence[tuple[Fraction, int]], slope: Fraction) -> list[Knot]:
    """Return knots that bend a line so that it passes through all points. The line starts at the first point with slope `slope`.

    Source:     folklore; the power-of-two weights are reconstructed.
    Assumes:    points ascending and distinct, with dyadic coordinates.
    Guarantee:  (label at x_1) + slope·(x - x_1) + Σ weight·ReLU(x - at) equals the label at every point x_i, exactly. Knot i is in
                [x_i, x_{i+1}).
    Size:       one knot between every two neighbouring points; weights ±2^j or 0.
    """
    knots = []
    for (x, label), (x_next, label_next) in pairwise(points):
        # Continuing with the old slope misses the next label by `miss`. A bend of ±2^j at distance |miss|/2^j before the next
        # point corrects it, and this bend is not before x if 2^j >= |miss|/gap. A bend at x itself would need the weight miss/gap,
        # which is not dyadic in general.
        gap = x_next - x
        miss = label_next - label - slope * gap
        if miss == 0:
            knots.append(Knot(x, Fraction(0)))
            continue
        power = max(_power_at_least(abs(miss) / gap), Fraction(1, 1 << _SLOPE_BITS))
        knots.append(Knot(x_next - abs(miss) / power, power if miss > 0 else -power))
        slope += knots[-1].weight
    return knots


def _power_at_least(value: Fraction) -> Fraction:
    """Return the smallest 2^j that is at least `value` > 0."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    power = Fraction(2) ** exponent  # value is in (power / 2, 2 · power)
    if value <= power / 2:
        return power / 2
    return power if value <= power else 2 * power


def memorise_by_interpolation(
    data: Dataset, options: InterpolationOptions, rng: np.random.Generator, progress: Progress | None = None
) -> ProgramPlan:
    """Compile single vectors into one hidden layer: a projection to a line, and a piecewise linear function.

    The function has one knot between each pair of neighbouring points.

    Source:     folklore: a direction is chosen that separates N distinct points, and N ReLU units along it fit any labels. Baum
                (1988) and Bubeck et al. (2020) improve on this: they need fewer units for points in general position.
    Assumes:    one vector per sample; equal samples carry equal labels.
    Guarantee:  the output equals label + 1 exactly on every sample, over the rationals.
    In floats:  with precision float64 or float32, the same network runs natively. It is checked that every sum on these data is
                exact in any order; otherwise the data are rejected. Token ids and grids usually fit into float64;
                random floats do not.
    Size:       N - 1 units and 3N + d - 1 dense parameters for N >= 2 distinct vectors of dimension d. The length of a weight in
                bits grows only with log N. In constructions with about √N blocks, such as `vardi-2022`, it grows with √N.
    Departs:    knots lie between the points, at places chosen so that every outgoing weight is a power of two
                (reconstructed). All units share the first layer, which projects to a line, so a unit has 3
                parameters instead of d + 2.
    """
    vectors = labelled_vectors(NAME, data)
    line = project_tokens(vectors.tokens, rng)
    ordered = sorted(zip(line.values, vectors.labels, strict=True))
    # The channel holds x without its offset. The skip connection is the line of slope 1, to which the knots are added.
    units = [
        Unit({LINE: 1}, line.offset - knot.at, {LINE: knot.weight}) if knot.weight else Unit({}, 0, {})
        for knot in interpolating_knots(ordered, Fraction(1))
    ]
    first, first_label = ordered[0]
    bends = Block(tuple(units) or (Unit({}, 0, {}),), {LINE: first_label - first + line.offset})
    plan = ProgramPlan(
        program=_program(vectors.tokens.table, line, bends),
        data=data,
        method=NAME,
        theorem="two-layer ReLU interpolation",
        assumptions=assume_single(data, vectors),
        theorem_size=two_layer_relu_size(len(vectors), vectors.tokens.dim),
        notes={"distinct_samples": len(vectors), "line_bits": line.value_bits},
    )
    return plan if options.precision == "exact" else plan.in_floats(options.precision, progress)


def size_of(shape: DataShape, options: InterpolationOptions) -> Size:
    """Return the estimated size for data of this shape.

    Dense parameters, depth and width are exact if all samples are distinct.

    The non-zero count assumes that every unit changes the slope. Bits are estimates.
    """
    table = outline_table(NAME, shape)
    line_bits = expected_line_bits(shape)
    # bits after the binary point, for vectors of floats
    finer = 0 if table is not None else MANTISSA_BITS["float64"]
    knot = typical(line_bits + _SLOPE_BITS + finer)
    n_units = max(1, shape.context_count - 1)
    bends = TableBlock(n_units, {LINE: 1}, knot, {LINE: typical(_SLOPE_BITS)}, {LINE: knot})
    return count(_program(table, typical_line(shape, line_bits), bends), options.precision)


def _program(table: TokenTable | None, line: LineMap, bends: Block | TableBlock) -> Program:
    return Program((LINE,), {LINE: line.coefficients}, (bends,), LINE, 1, table)


METHOD = Method(
    name=NAME,
    source="folklore; Baum 1988, Bubeck et al. 2020",
    tasks=TASKS,
    precisions=("exact", "float64", "float32"),
    options=InterpolationOptions,
    plan=memorise_by_interpolation,
    size_of=size_of,
    example=lambda: Example(random_tokens(40, 1, 100, seed=0)),
    page="rivals.md",
    statements=("KS25-L C.2",),
)
