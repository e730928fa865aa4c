"""The network of `theorem` by its registers: places in, one softmax head, one wide hidden layer, rounding."""

from __future__ import annotations

import numpy as np

from byheart.construct.kajitsuka_sato_2023.context_ids import SoftmaxIds
from byheart.construct.kajitsuka_sato_2023.hidden_layer import HiddenLayer
from byheart.construct.kajitsuka_sato_2023.staircase import round_to_whole
from byheart.construct.kajitsuka_sato_2023.token_line import MIDDLE, table_scale
from byheart.data.shape import DataShape
from byheart.program.blocks import (
    Block,
    Numbers,
    Program,
    RegisterAttention,
    Step,
    TableBlock,
    TokenTable,
    Unit,
    head,
)
from byheart.program.distinct_tokens import DistinctTokens, table_of_shape
from byheart.program.emit import list_numbers

PLACE, CONTEXT, VALUE, ANSWER = REGISTERS = ("place", "context", "value", "answer")


def network_program(tokens: DistinctTokens, ids: SoftmaxIds, hidden: HiddenLayer, n_bits: int) -> Program:
    """The network whose hidden layer answers the ids of these contexts with numbers of `n_bits` bits."""
    direction = ids.places.direction
    used, idle = np.ones(len(hidden.knots)), np.zeros(0 if len(hidden.knots) else 1)

    def column(of_knots: np.ndarray, of_last: float) -> np.ndarray:
        return np.concatenate([of_knots, idle, [of_last]])

    # the last unit takes the place away, so that its register can help with rounding: places are positive
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
    """The same for counting, before the data are seen: no number of theirs is zero."""
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
    """1 + (place of the token)/scale, as token entry plus position entry, both without rounding."""
    tokens = np.array(list_numbers(table.tokens[0]), dtype=np.float64)
    if table.positions is None:
        return TokenTable((1 + tokens / scale,))
    return TokenTable(
        (1 + tokens / scale,), (np.array(list_numbers(table.positions[0]), dtype=np.float64) / scale,)
    )
