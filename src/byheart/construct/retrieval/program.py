"""Hash, addresses and tables as one program, from which the network is built and its size is counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Shaped

from byheart.construct.retrieval.dual_table import ROLE
from byheart.construct.retrieval.gadgets import HALF, reflect_above
from byheart.construct.retrieval.key_hash import KeyHash
from byheart.construct.retrieval.label_reader import label_steps
from byheart.construct.retrieval.layout import LABEL, ONE, HashedField, RetrievalLayout
from byheart.construct.retrieval.quantiser import Quantiser, quantising_blocks
from byheart.network.exact.dyadic import Number
from byheart.program.blocks import (
    Block,
    Numbers,
    Program,
    Repeated,
    Step,
    TokenTable,
    Unit,
    threshold,
    typical,
)
from byheart.program.short_numbers import short_parts, split_column, with_short_biases


@dataclass(frozen=True, eq=False)
class Contents:
    """The numbers of a network that its layout does not determine.

    words      the words (entries) of the tables
    centres    for each part of the label, which is encoded in a sum of words: the integer c for which c·2^word_bits is closest to
               the middle between the lowest and the highest of these sums
    pad        the id that pads short sequences
    grid_bits  vectors are integer multiples of 2^-grid_bits
    quantiser  turns vectors that are not on a grid into integers
    """

    hashed: KeyHash
    words: Shaped[np.ndarray, " n_words"]
    centres: tuple[int, ...]
    pad: int | None = None
    grid_bits: int = 0
    quantiser: Quantiser | None = None


def describe(layout: RetrievalLayout, contents: Contents | None = None) -> Program:
    """Return the program of a network. Without `contents`, its parameters can be counted, but the network cannot be built."""
    entrance, registers, n_parts = layout.entrance, layout.entry_registers, layout.n_entering_parts
    table: TokenTable | None = None
    extra: Numbers
    if entrance.kind == "table":
        n_columns = 1 if entrance.is_narrow else len(registers)
        columns = (
            np.ones((len(registers), 1), dtype=int) if entrance.is_narrow else np.eye(n_columns, dtype=int)
        )
        inputs: dict[str, Numbers] = dict(zip(registers, np.tile(columns, n_parts), strict=True))
        table = _typical_tokens(layout) if contents is None else _tokens(layout, contents.hashed)
        extra = [1] * n_columns * n_parts
        if contents is not None:
            extra = contents.hashed.extra[:n_columns]
            extra = extra if n_parts == 1 else np.concatenate(split_column(extra, n_parts))
    elif contents is None:
        number = typical(max(field.n_values for field in layout.hashed_fields).bit_length())
        entered = layout.channels[: entrance.n_projections] if entrance.kind == "real" else registers
        inputs = dict.fromkeys(entered, Repeated(number, entrance.dim, entrance.dim))
        extra = [1] * entrance.dim
    elif contents.quantiser is None:
        scale = Fraction(2) ** contents.grid_bits
        rows = np.concatenate(split_column(contents.hashed.weights.T.astype(object) * scale, n_parts))
        inputs = dict(zip(_parts_of_fields(layout), rows, strict=True))
        extra = contents.hashed.extra.astype(object) / scale
    else:
        inputs = dict(zip(layout.channels, contents.quantiser.directions, strict=False))
        extra = contents.hashed.extra
    steps = tuple(_steps(layout, contents))
    if contents is not None and layout.stored == "bfloat16":
        steps = tuple(with_short_biases(steps, ONE))
    return Program(
        (*layout.slots, *layout.word_registers),
        inputs,
        steps,
        LABEL,
        entrance.seq_len,
        table,
        None if contents is None else contents.pad,
        extra if layout.has_extra_token else None,
    )


def _steps(layout: RetrievalLayout, contents: Contents | None) -> Iterator[Step]:
    hashed = None if contents is None else contents.hashed
    if layout.entrance.kind == "real":
        quantiser = None if contents is None else contents.quantiser
        weights = None if hashed is None else hashed.weights
        yield from quantising_blocks(
            quantiser, weights, layout.entrance, layout.entry_registers, layout.channels
        )
    if layout.stored == "bfloat16":
        yield _constant_block(layout, hashed)
    yield from _entrance_blocks(layout, hashed)
    yield from layout.pooling_steps()
    yield from _fold_blocks(layout)
    yield from layout.lookup_steps(None if contents is None else contents.words)
    yield from label_steps(layout, None if contents is None else contents.centres)


def _parts_of_fields(layout: RetrievalLayout) -> tuple[str, ...]:
    """Return the registers that receive a vector. Each of them gets a weighted sum of the vector's coordinates.

    There is one register for each hashed field. If a coefficient is too long for one weight, it is split into parts, and each
    field has a register for each part. The registers of all fields for the first part come first, then those for the second part,
    and so on.
    """
    n_fields = len(layout.hashed_fields)
    return (*layout.entry_registers, *layout.word_registers[n_fields : n_fields * layout.n_entering_parts])


def _constant_block(layout: RetrievalLayout, hashed: KeyHash | None) -> Block:
    """Return a block that sets the register ONE to 1.

    If inputs are vectors, the block also completes each hashed field. A field may have been computed in several parts, because
    one short weight does not hold a whole coefficient. The block adds these parts up. It then adds an offset, so that the field
    is not negative.
    """
    units, adds = [Unit({}, 1, {ONE: 1})], dict[str, Number]()
    if layout.entrance.kind != "table":
        fields, n_parts = layout.entry_registers, layout.n_entering_parts
        for at, part in enumerate(_parts_of_fields(layout)[len(fields) :]):
            whole = fields[at % len(fields)]
            units += [Unit({part: 1}, 0, {whole: 1, part: -1}), Unit({part: -1}, 0, {whole: -1, part: 1})]
        offsets = np.zeros(len(fields), dtype=int) if hashed is None else hashed.offsets
        shares = [short_parts(int(offset), n_parts) for offset in offsets]
        adds = {register: parts[0] for register, parts in zip(fields, shares, strict=True) if parts[0]}
        for number in range(1, n_parts):
            units.append(
                Unit({}, 1, {name: parts[number] for name, parts in zip(fields, shares, strict=True)})
            )
    return Block(units, adds, "constant")


def _tokens(layout: RetrievalLayout, hashed: KeyHash) -> TokenTable:
    taken = slice(1 if layout.entrance.is_narrow else None)

    def columns(values: np.ndarray) -> tuple[np.ndarray, ...]:
        n_parts = layout.n_entering_parts
        return tuple(
            values.T[taken] if n_parts == 1 else np.concatenate(split_column(values.T[taken], n_parts))
        )

    return TokenTable(columns(hashed.tokens), columns(hashed.positions) if layout.entrance.ordered else None)


def _typical_tokens(layout: RetrievalLayout) -> TokenTable:
    entrance = layout.entrance
    fields = layout.hashed_fields[: 1 if entrance.is_narrow else None] * layout.n_entering_parts
    return TokenTable(
        _typical_columns(fields, entrance.n_rows),
        _typical_columns(fields, entrance.seq_len) if entrance.ordered else None,
    )


def _typical_columns(fields: Sequence[HashedField], n_rows: int) -> list[Numbers]:
    return [Repeated(typical(field.n_values.bit_length()), n_rows, n_rows) for field in fields]


def _entrance_blocks(layout: RetrievalLayout, hashed: KeyHash | None) -> Iterator[Block]:
    """Yield the blocks before pooling (the sum of the fields over the tokens). Each block reflects every field once.

    The first block also makes every field non-negative (with bfloat16 weights, `_constant_block` does so). In layouts with an extra
    token, which is the same for every input, this block also marks that token.
    """
    n_fields = len(layout.hashed_fields)
    offsets = [0] * n_fields
    # with bfloat16 the offsets have been added already
    if hashed is not None and layout.stored != "bfloat16":
        offsets = hashed.offsets.tolist()
    for level in range(layout.entrance.n_folds):
        shifts = offsets if level == 0 else [0] * n_fields
        largest = [field.n_values for field in layout.hashed_fields]
        centres = largest if hashed is None else hashed.centres[level].tolist()
        entering = list(zip(layout.entry_registers, centres, shifts, strict=True))
        units = [
            Unit({register: 1}, HALF - centre + shift, {register: -2}) for register, centre, shift in entering
        ]
        if level == 0 and layout.has_extra_token:
            least = centres[0] if hashed is None else hashed.role_from - offsets[0]
            units += threshold(layout.entry_registers[0], least, {ROLE: 1})
        adds: dict[str, Number] = {register: shift for register, _, shift in entering if shift}
        has_offsets = level == 0 and layout.entrance.kind != "table"
        yield Block(units, adds, "entrance", ("b1", "b2") if has_offsets else ("b1",))


def _fold_blocks(layout: RetrievalLayout) -> Iterator[Block]:
    """Yield the reflections that bring every field into its range [0, base)."""
    for level in reversed(range(max(field.n_folds for field in layout.hashed_fields))):
        folded = [field for field in layout.hashed_fields if field.n_folds > level]
        yield Block([reflect_above(field.register, field.base << level) for field in folded], {}, "fold")
