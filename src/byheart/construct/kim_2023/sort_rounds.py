"""Sorting by attention: in each round every token learns the largest place left and how often it occurs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from byheart.construct.kim_2023.string_ids import StringIds
from byheart.network.exact.dyadic import Number, SparseMatrix
from byheart.network.transformer.architecture import Attention, Head, Layer
from byheart.program.blocks import Block, Unit, clear
from byheart.program.distinct_tokens import Words
from byheart.program.emit import emit_layers
from byheart.program.lookup import LookupRegisters
from byheart.program.projection import Projection

LOOKUP = LookupRegisters()
REGISTERS = (LOOKUP.x, *LOOKUP.words, "key", "value", "hit", LOOKUP.into)
MODEL_WIDTH = len(REGISTERS)
# While sorting, registers that the lookup needs later do other work; all are zero again when it begins.
LEFT, LARGEST, IS_LARGEST, STRING_ID = LOOKUP.keys_high, LOOKUP.keys_low, LOOKUP.labels_high, LOOKUP.into


def shift(words: Words, line: Projection) -> tuple[Layer, ...]:
    """Both copies of the token's place move by the offset, which E_in cannot add."""
    if words.embedding is not None:
        return ()
    return emit_layers((Block((Unit({}, 0, {}),), {LOOKUP.x: line.offset, LEFT: line.offset}),), REGISTERS)


def sorting(strings: StringIds, place_bits: int, seq_len: int) -> Iterator[Layer]:
    """n rounds: find the largest place left, erase it, count it."""
    channel = {name: number for number, name in enumerate(REGISTERS)}

    def row(name: str) -> SparseMatrix:
        return SparseMatrix.of((1, MODEL_WIDTH), {(0, channel[name]): 1})

    def column(entries: Mapping[str, Number]) -> SparseMatrix:
        return SparseMatrix.of((MODEL_WIDTH, 1), {(channel[name], 0): v for name, v in entries.items()})

    (erase,) = emit_layers((erasing_step(1 << place_bits),), REGISTERS)
    for weight, count_weight in zip(strings.place_weights, strings.count_weights, strict=True):
        # keys are the places left; the query is the token's own place, positive, so every token sees the
        # largest
        largest = Head(
            value=row(LEFT),
            output=column({LARGEST: 1, STRING_ID: weight}),
            key=row(LEFT),
            query=row(LOOKUP.x),
        )
        yield Attention((largest,), "hardmax")
        yield erase
        count = Head(value=row(IS_LARGEST), output=column({STRING_ID: seq_len * count_weight}))
        yield Attention((count,), "uniform")


def erasing_step(above_all: int) -> Block:
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


def context_step(line: Projection) -> Block:
    """The context (string id, place) goes to its own number on the line."""
    reads = dict(zip((STRING_ID, LOOKUP.x), line.coefficients, strict=True))
    place = Unit({name: value for name, value in reads.items() if value}, line.offset, {LOOKUP.x: 1})
    return Block((place, *clear(LOOKUP.x, STRING_ID, IS_LARGEST)))
