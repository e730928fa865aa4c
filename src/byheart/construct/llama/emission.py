"""From a hash, tables and a layout to the tensors of a checkpoint."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from jaxtyping import Int

from byheart.construct.llama.blocks import PIN_BITS, BlockWriter
from byheart.construct.llama.heads import choose_rotation, write_heads
from byheart.construct.llama.layout import DIGIT, FIELD_BITS, FINGERPRINT_SHIFT, N_FIELDS, WORD_BITS, Layout
from byheart.construct.llama.window_hash import WindowHash, n_turns
from byheart.network.llama.architecture import Llama
from byheart.network.llama.spec import EMBEDDING, FINAL_NORM

TokenNumbers: TypeAlias = Int[np.ndarray, " n_vocab"]
"""The tokens' numbers in the logits: 0 for the token that says "unknown", 1 to n_labels for labels, the rest above."""

LOGIT_SCALE = 64.0
"""The right token leads by 64 nats: sampling at temperature 1 errs with probability e^-64 per token."""
HALF = 1 << (WORD_BITS - 1)
WINDOWS = (-3 * HALF, -HALF, HALF, 3 * HALF)
"""What a known context's sum may be, less its label: half of 2^23 more than a multiple of 2^23."""


def emit(
    layout: Layout, window_hash: WindowHash, tables: np.ndarray, numbers: TokenNumbers, bos: int, eos: int
) -> Llama:
    """Write all parts. `tables` has shape (3, n_rows, n_words)."""
    spec = layout.spec(bos, eos)
    writer = BlockWriter(spec)
    _embed(writer, layout, window_hash, numbers)
    _gather(writer, layout, window_hash)
    _address(writer, layout)
    _read_tables(writer, layout, tables)
    _pick(writer, layout)
    _strip_fields(writer, layout)
    _decide(writer, layout, layout.shape.n_labels)
    return Llama(spec, writer.weights)


def _embed(writer: BlockWriter, layout: Layout, window_hash: WindowHash, numbers: TokenNumbers) -> None:
    """Limbs of each token; and, because the embedding makes the logits too, its number n and n².

    The logit of n is 2·n·L - n², largest at n = L; with two digits, the same of each.
    """
    table = writer.weights[EMBEDDING]
    number, square, high = layout.squares[:3]
    table[writer.spec.bos, layout.flag] = 1
    table[:, layout.limbs] = window_hash.codes
    low_digit, high_digit = numbers % DIGIT, numbers // DIGIT
    table[:, number], table[:, high] = low_digit, high_digit
    table[:, square] = low_digit**2 + high_digit**2
    # only these columns go through to the logits
    writer.weights[FINAL_NORM][[number, square, high]] = 2.0**PIN_BITS * LOGIT_SCALE


def _gather(writer: BlockWriter, layout: Layout, window_hash: WindowHash) -> None:
    rotation = choose_rotation(layout.shape.max_positions)
    for level, (offsets, coefficients, folds) in enumerate(
        zip(window_hash.offsets, window_hash.coefficients, window_hash.folds, strict=True)
    ):
        write_heads(writer, level, rotation, offsets, coefficients, layout.limbs, layout.flag)
        for column, m, largest in zip(layout.limbs, folds, window_hash.largest(level), strict=True):
            writer.mirror(level, column, m, n_turns(largest, m))


def _address(writer: BlockWriter, layout: Layout) -> None:
    """Rows with their squares, then the channel with its; the columns of the embedding's numbers are cleared first."""
    layer, channel = layout.n_levels, layout.limbs[3]
    for column in (layout.flag, *layout.squares[:3]):
        writer.erase(layer, column)
    for row, square in zip(layout.limbs[:3], layout.squares[:3], strict=True):
        writer.spread(layer, row, layout.n_rows, layout.row_folds, square)
    first, second = layout.channel_folds
    writer.spread(layer + 1, channel, second * layout.n_channels, first)
    writer.spread(layer + 2, channel, layout.n_channels, second, layout.squares[3])


def _read_tables(writer: BlockWriter, layout: Layout, tables: np.ndarray) -> None:
    """The fingerprint into the sum, and one unit per row wherever units are free."""
    layers = iter(layout.table_layers)
    layer = next(layers)
    writer.unit(layer, {layout.limbs[4]: 1}, 0, {layout.total: -(1 << FINGERPRINT_SHIFT)})
    writer.unit(layer, {}, 1, {layout.total: HALF})
    into = np.array(layout.words)
    for row_column, square, words in zip(layout.limbs[:3], layout.squares[:3], tables, strict=True):
        done = 0
        while done < len(words):
            if not writer.free(layer):
                layer = next(layers)
            n = min(writer.free(layer), len(words) - done)
            writer.rows(layer, row_column, square, done, words[done : done + n], into)
            done += n


def _pick(writer: BlockWriter, layout: Layout) -> None:
    """Add the channel's word to the sum, its side words to columns of their own; clear what is read no more."""
    layer, channel, square = layout.pick, layout.limbs[3], layout.squares[3]
    for column in (*layout.limbs, *layout.squares):
        writer.erase(layer, column)
    for column in layout.words[: len(WINDOWS) + 1]:
        writer.erase(layer, column, signed=True)
    for p in range(layout.n_channels):
        here = {channel: 2 * p, square: -1}
        writer.unit(layer, here, 1 - p * p, {layout.total: 1}, times=layout.words[p])
        for side in range(layout.shape.n_side):
            writer.unit(
                layer,
                here,
                1 - p * p,
                {side_sum(layout, side): 1},
                times=layout.words[layout.side_column(side, p)],
            )
    if layout.shape.n_side:
        for field in range(1, N_FIELDS):
            writer.step(layer, {channel: 1}, -field * layout.group, {layout.limbs[field - 1]: 1})


def side_sum(layout: Layout, side: int) -> int:
    """Column of the sum of a side word, from the pick on."""
    return (layout.squares[3], layout.limbs[3], layout.limbs[4])[side]


def _strip_fields(writer: BlockWriter, layout: Layout) -> None:
    """Let a context pass only if its field of each side word is 0.

    Fields above it are subtracted from the top down; what is left must be below the field's own place. The column
    `limbs[i - 1]` says that the field is i or a later one; adding it times 2^19 keeps a stage from acting.
    """
    if not layout.shape.n_side:
        return
    at_least, off = layout.limbs[:3], 1 << 19
    top = N_FIELDS - 1
    for side in range(layout.shape.n_side):
        column = side_sum(layout, side)
        layer = layout.pick + 1
        for t in (1, 2):  # the topmost field: only what overflows
            size = 1 << (N_FIELDS * FIELD_BITS)
            writer.step(layer, {column: 1, at_least[top - 1]: off}, -off - t * size, {column: -size})
        for stage in range(top, 0, -1):  # fields below `stage`
            size = 1 << (stage * FIELD_BITS)
            most = 3 << FIELD_BITS if stage == top else 1 << FIELD_BITS
            for t in range(1, most):
                writer.step(layer, {column: 1, at_least[stage - 1]: -off}, -t * size, {column: -size})
            layer += 1
        places = {
            at_least[i - 1]: (1 << i * FIELD_BITS) - (1 << (i - 1) * FIELD_BITS) for i in range(1, N_FIELDS)
        }
        writer.step(layer, {column: 1, **{c: -w for c, w in places.items()}}, -1, {failure(layout): 1})


def failure(layout: Layout) -> int:
    """Column that counts the side words that did not fit."""
    return layout.words[len(WINDOWS)]


def _decide(writer: BlockWriter, layout: Layout, n_labels: int) -> None:
    """From the sum to the number of a token: 1 + label where sum - label is one of WINDOWS, else 0.

    For each window w the sum is first clipped to v = clip(sum - w + 1, 0, n_labels + 1), from the side that keeps numbers
    small; then v - (n_labels + 1)·[v = n_labels + 1] is 0 below the window and above it.
    """
    clip, last = layout.pick + 1, layout.decide
    number, square, high = layout.squares[:3]
    total, off = layout.total, 1 << 19
    for window, column in zip(WINDOWS, layout.words[: len(WINDOWS)], strict=True):
        if window > 0:
            writer.unit(clip, {total: 1}, 1 - window, {column: 1})
            writer.unit(clip, {total: 1}, -window - n_labels, {column: -1})
        else:  # n_labels + 1 - clip(window + n_labels - sum, 0, n_labels + 1)
            writer.unit(clip, {total: -1}, window + n_labels, {column: -1})
            writer.unit(clip, {total: -1}, window - 1, {column: 1})
        raised = 0 if window > 0 else n_labels + 1  # the constant is added where the column is read
        reads = {column: 1, failure(layout): -off} if layout.shape.n_side else {column: 1}
        writer.unit(last, reads, raised, {number: 2})
        writer.unit(last, reads, raised - n_labels, {number: -2 * (n_labels + 1)})
    writer.unit(last, {}, 1, {square: -1})
    if layout.shape.n_vocab > DIGIT:
        for t in range(1, layout.shape.n_vocab // DIGIT + 1):
            writer.step(last + 1, {number: 1}, -2 * DIGIT * t, {number: -2 * DIGIT, high: 2})
