"""One hidden layer of N - 1 ReLU units: piecewise linear interpolation along a line, with short weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.construct.registry import Method
from byheart.data.dataset import Dataset
from byheart.errors import UsageError
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.memory import Progress
from byheart.network.size import Size
from byheart.network.transformer.architecture import Precision
from byheart.network.transformer.float_exactness import MANTISSA_BITS
from byheart.program.blocks import Block, Unit
from byheart.program.construction import Construction, Statistics
from byheart.program.emit import emit_layers
from byheart.program.single_vectors import (
    TASKS,
    assumptions_on,
    labelled_vectors,
    line_bits_guess,
    measured,
    memory_of,
    natively,
    onto_the_line,
    refuse_options,
    require_single,
    size_of_blocks,
)
from byheart.program.weight_count import alike, tally

NAME = "two-layer-relu"
PRECISIONS: tuple[Precision, ...] = ("exact", "float64", "float32")
LINE = "line"
_SLOPE_BITS = 4  # slopes are multiples of 2^-4: finer ones would only lengthen the weights


@dataclass(frozen=True)
class Knot:
    """Adds `weight` · ReLU(x - `at`): the slope changes by `weight`, a power of two or its negative."""

    at: Fraction
    weight: Fraction


def interpolating_knots(points: Sequence[tuple[Fraction, int]], slope: Fraction) -> list[Knot]:
    """Knots that lead a line of slope `slope` through the first point on through all points.

    Source:     folklore; the power-of-two weights are reconstructed.
    Assumes:    points ascending and distinct, with dyadic coordinates.
    Guarantee:  value(x_1) + slope·(x - x_1) + Σ weight·ReLU(x - at) equals the label at every point, exactly.
                Knot i lies in [x_i, x_{i+1}).
    Size:       one knot between two neighbours; weights ±2^j.
    """
    knots = []
    for (x, label), (x_next, label_next) in pairwise(points):
        # Going on with the old slope misses the next label by `miss`. A bend of ±2^j at distance |miss|/2^j
        # before the next point repairs it, and lies after x once 2^j >= |miss|/gap. Bends at the points
        # themselves would need the weight miss/gap, which is no dyadic number.
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
    """The smallest 2^j that is at least `value` > 0."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    power = Fraction(2) ** exponent  # value lies in (power / 2, 2 · power)
    if value <= power / 2:
        return power / 2
    return power if value <= power else 2 * power


def memorise_by_interpolation(
    data: Dataset, options: Mapping[str, object], rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile single vectors into one hidden layer: x ↦ a line, bent once between two neighbours.

    Source:     the two-layer bound behind Baum (1988) and Bubeck et al. (2020), who need fewer units for
                points in general position: N distinct points are fitted by N ReLU units along a direction
                that tells them apart (folklore).
    Assumes:    one vector per sample; equal samples carry equal labels.
    Guarantee:  the output equals label + 1 exactly on every sample, over the rationals.
    In floats:  with precision float64 or float32, the same network natively: every sum on these data is checked to be
                exact in any order, or the data are refused. Token ids and grids usually fit float64, floats do not.
    Size:       `size_of`: N - 1 units, 3N + d - 1 dense parameters. Weights have O(log) bits, unlike those of
                the √N constructions.
    Departs:    bends lie between the points, where they make every outgoing weight a power of two
                (reconstructed). The first layer is shared, the projection on a line, so a unit costs 3
                parameters instead of d + 2.
    """
    precision = _precision(options)
    vectors = labelled_vectors(NAME, data)
    line = onto_the_line(vectors, rng)
    ordered = sorted(zip(line.values, vectors.labels, strict=True))
    # The channel holds x without its offset; the skip connection is the line of slope 1 that the knots bend.
    knots = interpolating_knots(ordered, Fraction(1))
    units = [
        Unit({LINE: 1}, line.offset - knot.at, {LINE: knot.weight}) if knot.weight else Unit({}, 0, {})
        for knot in knots
    ]
    first, first_label = ordered[0]
    step = Block(tuple(units) or (Unit({}, 0, {}),), {LINE: first_label - first + line.offset})
    w_in = SparseMatrix.of((1, vectors.dim), {(0, axis): v for axis, v in enumerate(line.coefficients)})
    if progress is not None:
        progress(1, 1)
    memory = memory_of(data, vectors, w_in, emit_layers((step,), (LINE,)), 0)
    notes: dict[str, object] = {"distinct_samples": vectors.points.n_points, "line_bits": line.value_bits}
    if precision != "exact":
        memory, notes["mantissa_bits_needed"] = natively(NAME, memory, data, precision)
    return Construction(
        memory=memory,
        method=NAME,
        theorem="two-layer ReLU interpolation",
        assumptions=assumptions_on(data, vectors),
        theorem_size=theorem_size(vectors.points.n_points, vectors.dim),
        notes=notes,
        statistics=replace(
            measured(data, vectors),
            context_bits=line.value_bits,
            precision=precision,
            numbers={
                "axes": tally(line.coefficients),
                "bends": tally(knot.weight for knot in knots),
                "biases": tally(unit.bias for unit in units),
                "shift": tally(step.adds.values()),
            },
        ),
    )


def _precision(options: Mapping[str, object]) -> Precision:
    refuse_options(NAME, {name: value for name, value in options.items() if name != "precision"})
    chosen = options.get("precision", "exact")
    for precision in PRECISIONS:
        if chosen == precision:
            return precision
    raise UsageError(f"{NAME} builds {', '.join(PRECISIONS)} weights, not {chosen}.", precision=chosen)


def theorem_size(n_points: int, dim: int) -> TheoremSize:
    """N units that each read the whole vector, and a bias."""
    return TheoremSize(
        name="two-layer ReLU interpolation",
        statement="",
        width=max(dim, n_points),
        depth=2,
        parameters=n_points * (dim + 2) + 1,
        weight_bits=0,
        assumptions=("distinct samples", "real weights"),
        source="folklore (Baum 1988; Bubeck et al. 2020 for general position)",
    )


def size_of(statistics: Statistics) -> Size:
    """The size `memorise_by_interpolation` builds, without building.

    Everything is exact for the statistics a construction reports. Where only the shape of the data is known, dense
    parameters, depth and width still are; the non-zero count takes every unit as one that bends, and bits are estimates.
    """
    require_single(NAME, statistics.seq_len)
    n_points = statistics.n_samples if statistics.n_contexts is None else statistics.n_contexts
    n_units = max(1, n_points - 1)
    numbers = statistics.numbers
    if numbers is None:
        line_bits = statistics.context_bits or line_bits_guess(statistics)
        has_table = statistics.vocab is not None
        finer = (
            0 if has_table else MANTISSA_BITS["float64"]
        )  # places of floats have as many bits after the point
        knot_bits = line_bits + _SLOPE_BITS + finer
        numbers = {
            "axes": alike(1, 1) if has_table else alike(statistics.dim or 1, line_bits),
            "bends": alike(n_units, _SLOPE_BITS),
            "biases": alike(n_units, knot_bits),
            "shift": alike(1, knot_bits),
        }
    reads = alike(numbers["bends"].count, 1)
    weights = numbers["axes"] + reads + numbers["bends"] + numbers["biases"] + numbers["shift"]
    return size_of_blocks(statistics, 1, [(1, n_units)], weights)


METHOD = Method(
    name=NAME,
    source="folklore; Baum 1988, Bubeck et al. 2020",
    tasks=TASKS,
    precisions=PRECISIONS,
    size_of=size_of,
    build=memorise_by_interpolation,
)
