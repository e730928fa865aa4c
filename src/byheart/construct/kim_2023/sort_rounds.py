"""Sorting by attention: in each round every token learns the largest place left and how often it occurs."""

from __future__ import annotations

from collections.abc import Sequence

from byheart.network.exact.dyadic import Number
from byheart.program.blocks import (
    Block,
    Numbers,
    Program,
    RegisterAttention,
    Step,
    TokenTable,
    Unit,
    clear,
    head,
)
from byheart.program.lookup import ANSWER, KEYS_HIGH, KEYS_LOW, LABELS_HIGH, LOOKUP, X
from byheart.program.projection import LineMap

MODEL_WIDTH = len(LOOKUP)
# While sorting, registers that the lookup needs later do other work; all are zero again when it begins.
LEFT, LARGEST, IS_LARGEST, STRING_ID = KEYS_HIGH, KEYS_LOW, LABELS_HIGH, ANSWER


def sorting_program(
    table: TokenTable | None,
    pad: int | None,
    token_line: LineMap,
    rounds: Sequence[Step],
    context_line: LineMap,
    lookup: Sequence[Step],
    seq_len: int,
) -> Program:
    """Two copies of the token's place, rounds of sorting, the context on its line, and the lookup of its label."""
    places: Numbers = token_line.coefficients
    # both copies move by the offset, which E_in cannot add
    shift = Block((Unit({}, 0, {}),), {X: token_line.offset, LEFT: token_line.offset})
    steps = (*(() if table is not None else (shift,)), *rounds, context_block(context_line), *lookup)
    return Program(LOOKUP, {X: places, LEFT: places}, steps, ANSWER, seq_len, table, pad)


def sorting_round(weight: Number, count_weight: Number, place_bits: int) -> tuple[Step, Step, Step]:
    """Find the largest place left, erase it, count it; add both to the string id by their weights.

    Keys are the places left; the query is the token's own place, positive, so every token sees the largest. `count_weight`
    carries the factor n that turns the mean of a uniform head into a sum.
    """
    largest = head(value={LEFT: 1}, output={LARGEST: 1, STRING_ID: weight}, key={LEFT: 1}, query={X: 1})
    count = head(value={IS_LARGEST: 1}, output={STRING_ID: count_weight})
    return (
        RegisterAttention((largest,), "hardmax"),
        erasing_block(1 << place_bits),
        RegisterAttention((count,), "uniform"),
    )


def erasing_block(above_all: int) -> Block:
    """Mark and erase the largest place M: z <= M, and places differ by at least 2.

    ReLU(z - M + 1) is [z = M]. ReLU(z - B·(M - z)) is z if z = M, and 0 otherwise, because B·2 exceeds every
    place. When all is erased, z = M = 0 marks every token, which the sorted counts expect.
    """
    return Block(
        (
            Unit({LEFT: 1, LARGEST: -1}, 1, {IS_LARGEST: 1}),
            Unit({LEFT: 1 + above_all, LARGEST: -above_all}, 0, {LEFT: -1}),
            *clear(LARGEST, IS_LARGEST),
        )
    )


def context_block(line: LineMap) -> Block:
    """The context (string id, place) goes to its own number on the line."""
    return Block((line.unit((STRING_ID, X), X), *clear(X, STRING_ID, IS_LARGEST)))
