"""The layout of the network: the use of its columns and layers, and the choice of the smallest network for given data.

Columns   constants | three row numbers | their squares | total | fields and sums of side words, if any | one-hot: the channel
Layers    hash (one per level) | address | rows of tables | rows of tables of side words, if any | decide

The total is the sum of the table words that a context reads, minus a part of the context's hash. The layers called decide convert
the total to the number of a token. Side words are table words that detect unknown contexts; they consist of bit fields. A channel
is a column of the tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from byheart.construct.llama.blocks import pinned_count
from byheart.construct.llama.heads import choose_rotation
from byheart.construct.llama.registers import (
    DIGITS,
    FIELD_AT_LEAST,
    FIXED,
    HIGH_DIGIT,
    NUMBER,
    NUMBER_SQUARE,
    REUSED,
    ROW_SQUARES,
    ROWS,
    SIDE_SUMS,
    hot,
)
from byheart.construct.llama.window_hash import LIMB, N_LIMBS, N_VALUES, level_offsets
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.llama.spec import LlamaSpec

WORD_BITS = 23
"""The number of bits of a table word. Sums of words are taken modulo 2^23. The total is the sum of three words between -2^22
and 2^22, plus 2^22, minus 2^12 times a fingerprint below 2^11. So it is between -2^24 and 2^24."""
FINGERPRINT_SHIFT = 12
N_FIELDS, FIELD_BITS = 4, 4
"""A side word (a table entry that detects unknown contexts) has four fields of four bits. The fingerprint of a context, a part of
its hash, determines which field belongs to the context."""
SIDE_FOLDS = 3
"""A table of words has this many times as many rows as a table of side words. A side word has room for four contexts, one in each
field. The ratio is nevertheless less than four, because chance gives some fields more contexts than others."""
MOST_SIDE = len(SIDE_SUMS)
"""The most side words (words that detect unknown contexts) per context."""
DIGIT = 2048
"""The base of the digits in which tokens are numbered. A vocabulary of at most this size needs only one digit per token. Its
logits are exact in float32, because 3·2048² < 2^24."""
WIDTHS = (32, 64, 128, 256, 512)
LEAST_CHANNELS = 8
FOLD_UNITS = 3 * 2 * (SIDE_FOLDS - 1)
CLEAR_UNITS = len(ROWS) + len(ROW_SQUARES) + 2
"""The number of units in the last table layer that set columns to zero for reuse: rows, their squares and two one-hot columns."""
LOADS = ((3000, 0.905), (300, 0.9), (150, 0.87), (0, 0.84))


@dataclass(frozen=True)
class TextShape:
    """The numbers that determine the size of the network."""

    n_vocab: int
    n_labels: int
    n_contexts: int
    window: int
    max_positions: int
    reject_bits: int = 16

    @property
    def n_side(self) -> int:
        """The number of side words (words that detect unknown contexts) that check each context.

        Without side words, the network accepts n_labels out of 2^23 unknown contexts. Each side word divides this share
        by 16.
        """
        if self.reject_bits == 0:
            return 0
        missing = math.log2(max(1, self.n_labels)) + self.reject_bits - WORD_BITS
        return max(0, math.ceil(missing / FIELD_BITS))


@dataclass(frozen=True)
class AddressLayer:
    """The work of one address layer, which turns the hash into three row numbers and a channel (a column of the tables).

    rows      which of the three row numbers (0 to 2) the layer computes, by folding a hash value into the range of table rows
    channels  which channels the layer tests, by comparing the hash with the channel's first hash value
    """

    rows: tuple[int, ...]
    channels: range


@dataclass(frozen=True)
class Layout:
    """The sizes of a network, and the properties that follow from them."""

    shape: TextShape
    hidden: int
    inner: int
    n_heads: int
    n_rows: int

    # columns

    @property
    def n_pinned(self) -> int:
        """The number of columns that hold a large constant, which makes RMSNorm the identity."""
        return pinned_count(self.hidden)

    @cached_property
    def _registers(self) -> tuple[str, ...]:
        """The registers, which are names of columns of the residual stream.

        Columns that hold a constant, and the one-hot columns for the channel (a column of the tables), are not included.
        """
        n_side = self.shape.n_side
        return (*FIXED, *FIELD_AT_LEAST, *SIDE_SUMS[:n_side]) if n_side else FIXED

    @property
    def n_channels(self) -> int:
        """The number of channels, which are the columns of the tables. Each context reads the words of one channel."""
        return self.hidden - self.n_pinned - len(self._registers)

    @cached_property
    def hots(self) -> tuple[str, ...]:
        """The registers that hold the channel (table column) of the context, one-hot."""
        return tuple(map(hot, range(self.n_channels)))

    @cached_property
    def columns(self) -> dict[str, int]:
        """The column of every register."""
        columns = {name: self.n_pinned + at for at, name in enumerate((*self._registers, *self.hots))}
        return columns | {name: columns[other] for name, other in REUSED.items()}

    @property
    def digits(self) -> tuple[str, ...]:
        """The registers for a token's number: its low digit, the sum of the squares of its digits and, if the vocabulary needs
        two digits, its high digit.
        """
        return DIGITS if self.shape.n_vocab > DIGIT else (NUMBER, NUMBER_SQUARE)

    # folds

    @property
    def row_folds(self) -> int:
        """The number of possible hash values per row: a hash value that gives a row number is below `row_folds` · `n_rows`."""
        return max(1, -(-LIMB // (2 * self.n_rows)))

    @property
    def last_folds(self) -> list[int]:
        """For each limb (a part of the hash), the largest value that it can have after the last layer that computes the hash."""
        return [self.row_folds * self.n_rows - 1] * 3 + [LIMB, LIMB]

    @property
    def side_rows(self) -> int:
        """The number of rows in each of the three tables of side words, which detect unknown contexts."""
        return -(-self.n_rows // SIDE_FOLDS) if self.shape.n_side else 0

    # layers

    @property
    def n_levels(self) -> int:
        """The number of layers whose heads gather earlier tokens into the hash."""
        return len(level_offsets(self.shape.window, self.n_heads))

    @property
    def start_units(self) -> int:
        """The number of units that the first address layer needs for three tasks: clear unneeded registers, initialise the
        sum of the words, and find which field of the side words (words that detect unknown contexts) belongs to the context.
        """
        fields = 2 * len(FIELD_AT_LEAST) if self.shape.n_side else 0
        return 1 + len(self.digits) + 2 + fields

    @cached_property
    def address(self) -> tuple[AddressLayer, ...]:
        """The work of each address layer (a layer that turns the hash into table rows and a channel). There are as few of these
        layers as the number of units in a layer permits.
        """
        chunk = row_units(self.row_folds)
        free = [self.inner - self.start_units]
        rows: list[list[int]] = [[]]
        for row in range(3):  # a fold reads the register that it changes, so its units must be in one layer
            if free[-1] < chunk:
                free.append(self.inner)
                rows.append([])
            free[-1] -= chunk
            rows[-1].append(row)
        # a channel takes a pair of units; the last two pairs overwrite the channel's register, so nothing may read it later
        while free[-1] < 4 or sum(units // 2 for units in free) < self.n_channels:
            free.append(self.inner)
            rows.append([])
        found, last = [], self.n_channels
        for units, own in zip(free[:-1], rows[:-1], strict=True):
            first = max(2, last - units // 2)
            found.append(AddressLayer(tuple(own), range(first, max(first, last))))
            last = first
        return (*found, AddressLayer(tuple(rows[-1]), range(1, last)))

    @property
    def table_layers(self) -> range:
        """The layers that hold table rows."""
        first = self.n_levels + len(self.address)
        units = 3 * self.n_rows + (FOLD_UNITS if self.shape.n_side else CLEAR_UNITS)
        return range(first, first + -(-units // self.inner))

    @property
    def side_layers(self) -> range:
        """The layers that hold rows of the tables of side words, which detect unknown contexts."""
        first, n_side = self.table_layers.stop, self.shape.n_side
        units = 3 * self.side_rows * n_side + CLEAR_UNITS if n_side else 0
        return range(first, first + -(-units // self.inner))

    @property
    def clip(self) -> int:
        """The first layer after the tables, which clips the total (the sum of the table words that a context reads)."""
        return self.side_layers.stop

    @property
    def decide(self) -> int:
        """The layer that converts the total (the sum of the table words that a context reads) to the number of a token, or to 0
        for an unknown context.
        """
        return self.clip + (1 if self.shape.n_side == 0 else N_FIELDS)

    @property
    def n_layers(self) -> int:
        return self.decide + 1 + (HIGH_DIGIT in self.digits)

    def spec(self, bos: int = 0, eos: int = 0, sep: int = 0) -> LlamaSpec:
        """Return the checkpoint's shape, with these special tokens."""
        rotation = choose_rotation(self.shape.max_positions)
        return LlamaSpec(
            n_tokens=self.shape.n_vocab,
            hidden=self.hidden,
            inner=self.inner,
            n_layers=self.n_layers,
            n_heads=self.n_heads,
            head_dim=rotation.head_dim,
            max_positions=self.shape.max_positions,
            rope_theta=rotation.theta,
            bos=bos,
            eos=eos,
            sep=sep,
        )

    @property
    def fits(self) -> bool:
        """Whether there are enough channels (table columns), every layer has enough units, and hash values can select every row."""
        address = row_units(self.row_folds) + self.start_units
        clip = 98 * self.shape.n_side + 8
        digits = 2 * (self.shape.n_vocab // DIGIT + 1) if HIGH_DIGIT in self.digits else 0
        return (
            self.n_channels >= LEAST_CHANNELS
            and self.n_rows <= N_VALUES
            and self.inner // N_LIMBS >= 3 * self.n_heads
            and max(address, clip, digits) <= self.inner
        )


def row_units(n_folds: int) -> int:
    """Return the number of units that fold a hash value into the range of row numbers, by `n_folds` - 1 reflections, and compute
    the square of the result.
    """
    return 2 * n_folds - 1


def rows_for(n_contexts: int) -> int:
    """Return how many rows each of the network's three tables needs, so that `n_contexts` contexts can share a channel (a column of
    the tables).
    """
    load = next(load for least, load in LOADS if n_contexts >= least)
    return max(4, math.ceil(n_contexts / (3 * load)) + 2)


def fullest_channel(n_contexts: int, n_channels: int) -> int:
    """Return an estimate for the number of contexts in the fullest channel.

    Channels are the columns of the tables. They divide the contexts evenly, except where contexts have the same hash value.
    """
    return -(-n_contexts // n_channels) + -(-n_contexts // N_VALUES)


def choose_layout(shape: TextShape, hidden: int | None = None) -> Layout:
    """Choose the layout with the fewest parameters, of width `hidden` if given."""
    if hidden is not None and hidden not in WIDTHS:
        raise UsageError(
            f"hidden={hidden} is not a supported width.\n  Choose one of {', '.join(map(str, WIDTHS))}, "
            "or leave it out to get the width with the fewest parameters.",
            hidden=hidden,
        )
    most_bits = WORD_BITS + MOST_SIDE * FIELD_BITS - math.log2(shape.n_labels)
    if not 0 <= shape.reject_bits <= most_bits:
        raise UsageError(
            f"reject_bits={shape.reject_bits} is out of range: it must be between 0 and {math.floor(most_bits)}, because "
            f"the number of different tokens to predict is {shape.n_labels:,}.",
            reject_bits=shape.reject_bits,
        )
    best: tuple[int, Layout] | None = None
    for width in WIDTHS if hidden is None else (hidden,):
        for n_heads in (1, 2, 4, 8):  # transformers requires a divisor of the width
            for inner in (*range(32, 257, 8), *range(320, 1025, 64)):
                layout = Layout(shape, width, inner, n_heads, 4)
                if layout.n_channels < LEAST_CHANNELS or layout.start_units >= inner:
                    continue
                needed = rows_for(fullest_channel(shape.n_contexts, layout.n_channels))
                # a smaller table would need too many folds
                n_folds = (inner - layout.start_units + 1) // 2
                layout = replace(layout, n_rows=max(needed, -(-LIMB // (2 * n_folds))))
                if layout.fits:
                    size = layout.spec().parameters_dense
                    if best is None or size < best[0]:
                        best = size, layout
    if best is None:
        raise AssumptionViolated(
            f"{shape.n_contexts:,} contexts (texts whose next token must be stored) over a vocabulary of {shape.n_vocab:,} tokens "
            f"do not fit into a Llama of width {hidden or WIDTHS[-1]}, whose tables have at most {N_VALUES:,} rows.\n  "
            + (
                "Split the data, or give a smaller reject_bits."
                if hidden is None
                else "Leave out the option hidden, or give a larger width."
                if hidden < WIDTHS[-1]
                else "Split the data, or give a smaller reject_bits."
            ),
            n_contexts=shape.n_contexts,
        )
    return best[1]
