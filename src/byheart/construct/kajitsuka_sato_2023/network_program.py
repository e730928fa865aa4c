"""The network of `theorem` as a program: token values on a line, one softmax head, one wide hidden layer, and rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byheart.construct.kajitsuka_sato_2023.context_ids import EPS, MIDDLE, SoftmaxIds, table_scale
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.program.blocks import (
    Block,
    Blocks,
    Numbers,
    Program,
    RegisterAttention,
    Step,
    TableBlock,
    TokenTable,
    Unit,
    clear,
    head,
)
from byheart.program.distinct_tokens import DistinctTokens, table_of_shape

PLACE, CONTEXT, VALUE, ANSWER = REGISTERS = ("place", "context", "value", "answer")

ALLOWED_ERROR = 0.24
"""The largest error allowed in a number that the network then rounds to an integer. This rounding corrects errors below 1/4."""


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """The piecewise linear function first_value + Σ slope_changes · ReLU(id - knots), and a bound on its error in float64."""

    first_value: float
    knots: np.ndarray
    slope_changes: np.ndarray
    error: float


def interpolate(ids: SoftmaxIds, labels: np.ndarray) -> HiddenLayer:
    """Return the piecewise linear function through all points (id, label).

    Raises `AssumptionViolated` if float64 cannot compute the function precisely enough.
    """
    order = np.argsort(ids.ids)
    x, y = ids.ids[order], labels[order]
    slopes = np.diff(y) / np.diff(x)
    changes = np.diff(slopes, prepend=0.0)
    magnitude = float((np.abs(changes) * (x[-1] - x[:-1])).sum()) + float(y[0])
    # a sum of t terms with 4 roundings each has an error of at most (t + 4)·eps times the sum of the magnitudes
    error = (len(changes) + 4) * EPS * magnitude + float(np.abs(slopes).max(initial=0.0)) * ids.error
    if not error <= ALLOWED_ERROR:
        raise AssumptionViolated(
            f"in float64 the answers for these {len(x)} contexts may be off by {error:.3g}, but only {ALLOWED_ERROR} is allowed: "
            f"the closest two context ids differ by only {ids.gap:.3g}, so the terms of the hidden layer add up to "
            f"{magnitude:.3g}.\n"
            "  Use fewer samples, or an exact construction, such as kajitsuka-sato-2025.",
            error=error,
            gap=ids.gap,
        )
    return HiddenLayer(float(y[0]), x[:-1], changes, error)


def network_program(tokens: DistinctTokens, ids: SoftmaxIds, hidden: HiddenLayer, n_bits: int) -> Program:
    """Build the network. Its layer `hidden` maps the context ids in `ids` to labels of `n_bits` bits."""
    direction = ids.places.direction
    used, idle = np.ones(len(hidden.knots)), np.zeros(0 if len(hidden.knots) else 1)

    def column(of_knots: np.ndarray, of_last: float) -> np.ndarray:
        return np.concatenate([of_knots, idle, [of_last]])

    # the last unit subtracts the value of the token, so that its register is free for rounding; values are positive
    wide = TableBlock(
        n_units=len(used) + len(idle) + 1,
        reads={PLACE: column(ids.place_weight * used, 1.0), CONTEXT: column(ids.context_weight * used, 0.0)},
        biases=column(-hidden.knots, 0.0),
        writes={VALUE: column(hidden.slope_changes, 0.0), PLACE: column(0.0 * used, -1.0)},
        adds={VALUE: hidden.first_value},
    )
    table = None if tokens.table is None else _scale_table(tokens.table, table_scale(tokens))
    axes = [1.0] if direction is None else direction
    return _assemble(table, axes, ids.beta, wide, n_bits, tokens.sequences.shape[1], tokens.pad)


def network_outline(shape: DataShape) -> Program:
    """Return the program that `network_program` would build for data of this shape, so that its parameters can be counted.

    The numbers that come from the data are assumed to be non-zero.
    """
    n_knots = shape.context_count - 1
    wide = TableBlock(
        n_units=max(1, n_knots) + 1,
        reads={PLACE: 1.0, CONTEXT: 1.0},
        biases=1.0,
        writes={VALUE: 1.0},
        adds={VALUE: 1.0},
    )
    table = table_of_shape(shape)
    axes = [1.0] * (shape.dim or 1)
    return _assemble(table, axes, 1.0, wide, shape.n_classes.bit_length(), shape.seq_len, None)


def _assemble(
    table: TokenTable | None,
    axes: Numbers,
    beta: float,
    wide: TableBlock,
    n_bits: int,
    seq_len: int,
    pad: int | None,
) -> Program:
    steps: list[Step] = []
    if table is None:
        steps.append(Block((Unit({}, 0, {}),), {PLACE: MIDDLE}))
    softmax = head(value={PLACE: 1.0}, output={CONTEXT: 1.0}, key={PLACE: beta}, query={PLACE: 1.0})
    steps += [RegisterAttention((softmax,), "softmax"), wide]
    steps += round_to_whole(VALUE, ANSWER, PLACE, n_bits)
    return Program(REGISTERS, {PLACE: axes}, steps, ANSWER, seq_len, table, pad)


def _scale_table(table: TokenTable, scale: float) -> TokenTable:
    """Return a table that gives 1 + v / `scale` wherever `table` gives the value v.

    A value is the token's entry plus, if the table has positions, the position's entry. The 1 is added only to tokens' entries.
    `scale` is a power of two, so no entry is rounded.
    """
    tokens, positions = np.array(table.tokens[0], dtype=np.float64), table.positions
    if positions is None:
        return TokenTable((1 + tokens / scale,))
    return TokenTable((1 + tokens / scale,), (np.array(positions[0], dtype=np.float64) / scale,))


def round_to_whole(number: str, into: str, helper: str, n_bits: int) -> Blocks:
    """Add to `into` the integer below 2^n_bits that lies within 1/4 of `number`. The register `number` is overwritten.

    Assumes:    `helper` is zero, `into` is an integer.
    Guarantee:  exact in any floating-point type that holds all integers up to 2^(n_bits + 2), in any order of summation. For each
                bit k, from the highest down, ReLU(1 - ReLU(4·2^k - 1 - 4·number)) is exactly 1 if number is above 2^k - 1/4
                and exactly 0 if it is below 2^k - 1/2. In these ranges the inner ReLU is exactly 0 or at least 1.
    Size:       2 blocks per bit, of one and two units.
    """
    steps = []
    for bit in reversed(range(n_bits)):
        worth = 1 << bit
        steps.append(Block((Unit({number: -4}, 4 * worth - 1, {helper: 1}),)))
        is_set = Unit({helper: -1}, 1, {number: -worth, into: worth})
        steps.append(Block((is_set, *clear(helper))))
    return tuple(steps)
