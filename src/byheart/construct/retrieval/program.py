"""Hash, addresses and tables as one program: what is emitted, and what its size is counted from."""

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
from byheart.construct.retrieval.layout import LABEL, HashedField, RetrievalLayout
from byheart.construct.retrieval.quantiser import Quantiser, quantising_blocks
from byheart.network.exact.dyadic import Number
from byheart.program.blocks import Block, Numbers, Program, Repeated, Step, TokenTable, Unit, typical
from byheart.program.gadgets import threshold


@dataclass(frozen=True, eq=False)
class Contents:
    """The numbers of one network that its layout leaves open.

    words      the words of the tables       centres    for each part, the multiple of 2^word_bits in the middle of its sums
    pad        the id that fills up short sequences
    grid_bits  vectors are whole multiples of 2^-grid_bits
    quantiser  what makes whole numbers of vectors that lie on no grid
    """

    hashed: KeyHash
    words: Shaped[np.ndarray, " n_words"]
    centres: tuple[int, ...]
    pad: int | None = None
    grid_bits: int = 0
    quantiser: Quantiser | None = None


def describe(layout: RetrievalLayout, contents: Contents | None = None) -> Program:
    """The program of a network. Without contents it stands for any network of the layout, and is only counted."""
    entrance, registers = layout.entrance, layout.entry_registers
    table: TokenTable | None = None
    extra: Numbers
    if entrance.kind == "table":
        n_columns = 1 if entrance.is_narrow else len(registers)
        columns = (
            np.ones((len(registers), 1), dtype=int) if entrance.is_narrow else np.eye(n_columns, dtype=int)
        )
        inputs: dict[str, Numbers] = dict(zip(registers, columns, strict=True))
        table = _typical_tokens(layout) if contents is None else _tokens(layout, contents.hashed)
        extra = [1] * n_columns if contents is None else contents.hashed.extra[:n_columns]
    elif contents is None:
        number = typical(max(field.n_values for field in layout.hashed_fields).bit_length())
        entered = layout.channels[: entrance.n_projections] if entrance.kind == "real" else registers
        inputs = dict.fromkeys(entered, Repeated(number, entrance.dim, entrance.dim))
        extra = [1] * entrance.dim
    elif contents.quantiser is None:
        scale = Fraction(2) ** contents.grid_bits
        rows = contents.hashed.weights.T.astype(object) * scale
        inputs = dict(zip(registers, rows, strict=True))
        extra = contents.hashed.extra.astype(object) / scale
    else:
        inputs = dict(zip(layout.channels, contents.quantiser.directions, strict=False))
        extra = contents.hashed.extra
    return Program(
        (*layout.slots, *layout.word_registers),
        inputs,
        tuple(_steps(layout, contents)),
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
    yield from _entrance_blocks(layout, hashed)
    yield from layout.pooling_steps()
    yield from _fold_blocks(layout)
    yield from layout.lookup_steps(None if contents is None else contents.words)
    yield from label_steps(layout, None if contents is None else contents.centres)


def _tokens(layout: RetrievalLayout, hashed: KeyHash) -> TokenTable:
    taken = slice(1 if layout.entrance.is_narrow else None)
    positions = tuple(hashed.positions.T[taken]) if layout.entrance.ordered else None
    return TokenTable(tuple(hashed.tokens.T[taken]), positions)


def _typical_tokens(layout: RetrievalLayout) -> TokenTable:
    entrance = layout.entrance
    fields = layout.hashed_fields[: 1 if entrance.is_narrow else None]
    return TokenTable(
        _typical_columns(fields, entrance.n_rows),
        _typical_columns(fields, entrance.seq_len) if entrance.ordered else None,
    )


def _typical_columns(fields: Sequence[HashedField], n_rows: int) -> list[Numbers]:
    return [Repeated(typical(field.n_values.bit_length()), n_rows, n_rows) for field in fields]


def _entrance_blocks(layout: RetrievalLayout, hashed: KeyHash | None) -> Iterator[Block]:
    """The reflections before pooling. The first also makes every field non-negative and tells the extra token from others."""
    n_fields = len(layout.hashed_fields)
    offsets = [0] * n_fields if hashed is None else hashed.offsets.tolist()
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
        yield Block(units, adds, "entrance")


def _fold_blocks(layout: RetrievalLayout) -> Iterator[Block]:
    """Bring every field into [0, base)."""
    for level in reversed(range(max(field.n_folds for field in layout.hashed_fields))):
        folded = [field for field in layout.hashed_fields if field.n_folds > level]
        yield Block([reflect_above(field.register, field.base << level) for field in folded], {}, "fold")
