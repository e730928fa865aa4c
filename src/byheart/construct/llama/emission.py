"""Convert a hash, tables and a layout into the tensors of a checkpoint."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from jaxtyping import Int

from byheart.construct.llama.blocks import (
    PIN_BITS,
    BlockWriter,
    mirror_units,
    spread_units,
    square_unit,
    table_rows,
)
from byheart.construct.llama.heads import choose_rotation, write_heads
from byheart.construct.llama.layout import (
    DIGIT,
    FIELD_BITS,
    FINGERPRINT_SHIFT,
    FOLD_UNITS,
    N_FIELDS,
    SIDE_FOLDS,
    WORD_BITS,
    Layout,
)
from byheart.construct.llama.registers import (
    CHANNEL,
    CLIPS,
    DIGITS,
    FAILURES,
    FIELD_AT_LEAST,
    FINGERPRINT,
    FIRST_TOKEN,
    HIGH_DIGIT,
    LIMBS,
    NUMBER,
    NUMBER_SQUARE,
    ROW_SQUARES,
    ROWS,
    SIDE_SUMS,
    TOTAL,
)
from byheart.construct.llama.tables import Tables
from byheart.construct.llama.window_hash import N_VALUES, WindowHash, n_turns
from byheart.network.llama.architecture import Llama
from byheart.network.llama.spec import EMBEDDING, FINAL_NORM
from byheart.program.blocks import Unit, clear, threshold

TokenNumbers: TypeAlias = Int[np.ndarray, " n_vocab"]
"""A number for each token, used in the logits: 0 for the token that means "unknown", 1 to n_labels for the labels (tokens that may
be predicted), larger numbers for all other tokens."""

LOGIT_SCALE = 64.0
"""The logit of the right token exceeds every other logit by at least 64. So sampling at temperature 1 errs with a probability of
about e^-64 per token."""
HALF = 1 << (WORD_BITS - 1)
WINDOWS = (-3 * HALF, -HALF, HALF, 3 * HALF)
"""For a known context, total - label is one of these odd multiples of 2^22, which is half of the modulus 2^23.

The total is the sum of the context's three table words, minus 2^12 times its fingerprint (a part of its hash), plus 2^22.
"""
HOLD = 1 << 19
"""A number that exceeds any sum of three side words (words that detect unknown contexts). To disable a threshold unit, it is
subtracted from the unit's input. The input is then negative, so the unit stays 0.
"""
assert 3 << (N_FIELDS * FIELD_BITS) <= HOLD


def emit(
    layout: Layout, window_hash: WindowHash, tables: Tables, numbers: TokenNumbers, bos: int, eos: int
) -> Llama:
    """Write all parts of the network into the tensors of a checkpoint, and return it."""
    spec = layout.spec(bos, eos)
    writer = BlockWriter(spec, layout.columns)
    _embed(writer, window_hash, numbers)
    _gather(writer, layout, window_hash)
    _address(writer, layout, tables.starts)
    _read_tables(writer, layout, tables)
    _strip_fields(writer, layout)
    _decide(writer, layout, layout.shape.n_labels)
    return Llama(spec, writer.weights)


def _embed(writer: BlockWriter, window_hash: WindowHash, numbers: TokenNumbers) -> None:
    """Write the embedding: for each token its limbs (random numbers for the hash), its number n, and n². The embedding is also the
    output matrix, so n and n² determine the logits.

    If the answer's number is L, the logit of number n is `LOGIT_SCALE` · (2·n·L - n²), which is largest at n = L. If numbers have
    two digits, the logit is the sum of such terms, one for each digit.
    """
    table, columns = writer.weights[EMBEDDING], writer.columns
    table[writer.spec.bos, columns[FIRST_TOKEN]] = 1
    table[:, [columns[name] for name in LIMBS]] = window_hash.codes
    low_digit, high_digit = numbers % DIGIT, numbers // DIGIT
    table[:, columns[NUMBER]], table[:, columns[HIGH_DIGIT]] = low_digit, high_digit
    table[:, columns[NUMBER_SQUARE]] = low_digit**2 + high_digit**2
    # only these columns contribute to the logits
    writer.weights[FINAL_NORM][[columns[name] for name in DIGITS]] = 2.0**PIN_BITS * LOGIT_SCALE


def _gather(writer: BlockWriter, layout: Layout, window_hash: WindowHash) -> None:
    rotation = choose_rotation(layout.shape.max_positions)
    for level, (offsets, coefficients, folds) in enumerate(
        zip(window_hash.offsets, window_hash.coefficients, window_hash.folds, strict=True)
    ):
        write_heads(writer, level, rotation, offsets, coefficients)
        for limb, m, largest in zip(LIMBS, folds, window_hash.largest(level), strict=True):
            writer.add(level, *mirror_units(limb, m, n_turns(largest, m)))


def _address(writer: BlockWriter, layout: Layout, starts: Int[np.ndarray, " n_channels"]) -> None:
    """Write the layers that turn the hash into an address: table rows and their squares, and the channel as one-hot columns.

    The first of these layers also sets the register `TOTAL`, to which later layers add table words, to 2^22 minus 2^12 times the
    fingerprint (a part of the hash). It also clears the digits of the token's number. The last layer clears the register of the
    channel.
    """
    first, last = layout.n_levels, layout.n_levels + len(layout.address) - 1
    writer.add(first, *clear(FIRST_TOKEN, *layout.digits), Unit({}, 1, {TOTAL: HALF}))
    writer.add(first, Unit({FINGERPRINT: 1}, 0, {TOTAL: -(1 << FINGERPRINT_SHIFT), FINGERPRINT: -1}))
    if layout.shape.n_side:
        for field, at_least in enumerate(FIELD_AT_LEAST, 1):
            writer.add(first, *threshold(FINGERPRINT, field * N_VALUES // N_FIELDS, {at_least: 1}))
    hots = layout.hots
    for layer, part in enumerate(layout.address, first):
        for row in part.rows:
            writer.add(layer, square_unit(ROWS[row], ROW_SQUARES[row]))
            writer.add(layer, *spread_units(ROWS[row], layout.n_rows, layout.row_folds, ROW_SQUARES[row]))
        for p in part.channels:
            writer.add(layer, *threshold(CHANNEL, int(starts[p]), {hots[p]: 1, hots[p - 1]: -1}))
    writer.add(last, *clear(CHANNEL), Unit({}, 1, {hots[0]: 1}))


def _read_tables(writer: BlockWriter, layout: Layout, tables: Tables) -> None:
    """Write one unit per table row. For a context that reads this row, the unit adds the word (entry) that is in the row and in the
    context's channel (a column of the tables).

    If the last layer of a table has free units, the next table begins there. The first table of side words (words that detect
    unknown contexts) begins in a new layer.
    """
    layer = _write_rows(writer, layout, layout.table_layers.start, tables.words, TOTAL)
    if layout.shape.n_side:
        if writer.free(layer) < FOLD_UNITS:
            layer += 1
        for row, square in zip(ROWS, ROW_SQUARES, strict=True):
            writer.add(layer, *spread_units(row, layout.side_rows, SIDE_FOLDS, square))
        layer += 1
    for words, name in zip(tables.side_words, SIDE_SUMS, strict=False):
        layer = _write_rows(writer, layout, layer, words, name)
    writer.add(layout.clip - 1, *clear(*ROWS, *ROW_SQUARES, *layout.hots[:2]))


def _write_rows(writer: BlockWriter, layout: Layout, layer: int, tables: np.ndarray, into: str) -> int:
    """Write the units for the rows of three tables, starting in `layer`. Return the last layer that they use."""
    for row, square, words in zip(ROWS, ROW_SQUARES, tables, strict=True):
        done = 0
        while done < len(words):
            if not writer.free(layer):
                layer += 1
            n = min(writer.free(layer), len(words) - done)
            chosen = dict(zip(layout.hots, words[done : done + n].T, strict=True))
            writer.add_table(layer, table_rows(row, square, done, n, into), chosen)
            done += n
    return layer


def _strip_fields(writer: BlockWriter, layout: Layout) -> None:
    """Write the layers that accept a context only if its own field is 0 in each of its sums of side words.

    Side words are table entries that detect unknown contexts. Side words and their sums consist of bit fields. A part of the
    context's hash, its fingerprint, determines which of these fields is its own.

    The layers subtract all higher fields from the sum, starting at the top. The context's own field is 0 if the remainder is less
    than 2^k, for the lowest bit k of this field. The layers must not subtract this field or a lower one: `HOLD` disables the
    thresholds that would do so.
    """
    top = N_FIELDS - 1
    for name in SIDE_SUMS[: layout.shape.n_side]:
        layer = layout.clip
        for t in (1, 2):  # from the topmost field, subtract only the overflow
            size = 1 << (N_FIELDS * FIELD_BITS)
            is_top = {FIELD_AT_LEAST[top - 1]: HOLD}
            writer.add(layer, *threshold(name, HOLD + t * size, {name: -size}, is_top))
        for stage in range(top, 0, -1):  # subtract the field at `stage`
            size = 1 << (stage * FIELD_BITS)
            most = 3 << FIELD_BITS if stage == top else 1 << FIELD_BITS
            for t in range(1, most):
                writer.add(
                    layer, *threshold(name, t * size, {name: -size}, {FIELD_AT_LEAST[stage - 1]: -HOLD})
                )
            layer += 1
        places = {
            FIELD_AT_LEAST[i - 1]: (1 << (i - 1) * FIELD_BITS) - (1 << i * FIELD_BITS)
            for i in range(1, N_FIELDS)
        }
        writer.add(layer, *threshold(name, 1, {FAILURES: 1}, places))


def _decide(writer: BlockWriter, layout: Layout, n_labels: int) -> None:
    """Write the layers that compute the number of the answer token from the register TOTAL, whose value is called total here.

    For a known context, total - label is one of the four numbers in `WINDOWS`. So if there is a label from 0 to n_labels - 1 with
    this property, the answer's number is 1 + label. Otherwise, the number is 0, which means "unknown". It is also 0 if a side
    word (a word that detects unknown contexts) does not match.

    For each w in `WINDOWS`, the first layer computes v = clip(total - w + 1, 0, n_labels + 1), written so that its terms stay
    small. Then v - (n_labels + 1)·[v = n_labels + 1] is 1 + label if total - w is a label, else 0.
    """
    clip, last = layout.clip, layout.decide
    # one failure must outweigh v, which is at most n_labels + 1
    hold = {FAILURES: -max(HOLD, 1 << n_labels.bit_length())} if layout.shape.n_side else {}
    for window, name in zip(WINDOWS, CLIPS, strict=True):
        if window > 0:
            low, high = (
                Unit({TOTAL: 1}, 1 - window, {name: 1}),
                Unit({TOTAL: 1}, -window - n_labels, {name: -1}),
            )
        else:  # n_labels + 1 - clip(window + n_labels - total, 0, n_labels + 1)
            low, high = (
                Unit({TOTAL: -1}, window + n_labels, {name: -1}),
                Unit({TOTAL: -1}, window - 1, {name: 1}),
            )
        writer.add(clip, low, high)
        raised = 0 if window > 0 else n_labels + 1  # the constant is added where the register is read
        reads = {name: 1, **hold}
        writer.add(
            last,
            Unit(reads, raised, {NUMBER: 2}),
            Unit(reads, raised - n_labels, {NUMBER: -2 * (n_labels + 1)}),
        )
    writer.add(last, Unit({}, 1, {NUMBER_SQUARE: -1}))
    if HIGH_DIGIT in layout.digits:
        for t in range(1, layout.shape.n_vocab // DIGIT + 1):
            writer.add(last + 1, *threshold(NUMBER, 2 * DIGIT * t, {NUMBER: -2 * DIGIT, HIGH_DIGIT: 2}))
