"""Where everything goes: columns of the stream, layers, and the smallest network that takes given data.

Columns   pinned | three rows, a channel and a fingerprint (the limbs) | squares of rows and channel | total | words
Layers    gather (one a level of the hash) | address | table rows | pick | decide
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from byheart.construct.llama.blocks import pinned_count
from byheart.construct.llama.heads import choose_rotation
from byheart.construct.llama.registers import FIXED, REUSED, word
from byheart.construct.llama.window_hash import LIMB, N_LIMBS, level_offsets
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.llama.spec import LlamaSpec

WORD_BITS = 23
"""Of a word and of sums modulo 2^23: three words in ±2^22 and the fingerprint's 2^23 stay within ±2^24."""
FINGERPRINT_SHIFT = 12
N_FIELDS, FIELD_BITS = 4, 4
"""A side word holds a four-bit field of each of four channels."""
MOST_SIDE = 3
"""Side words of a context at most: one free column for the sum of each."""
DIGIT = 2048
"""Largest vocabulary whose logits one number decides: 3·2048² < 2^24."""
LIMBS_VALUES = LIMB + 1
WIDTHS = (32, 64, 128, 256, 512)
PICK_EXTRA = 25 + 1
LOADS = ((3000, 0.905), (1000, 0.895), (400, 0.875), (0, 0.84))


@dataclass(frozen=True)
class TextShape:
    """What a size depends on."""

    n_vocab: int
    n_labels: int
    n_contexts: int
    window: int
    max_positions: int
    reject_bits: int = 16

    @property
    def n_side(self) -> int:
        """Side words each context is checked by: a word alone lets n_labels of 2^23 unknown ones pass, a field one in 16."""
        if self.reject_bits == 0:
            return 0
        missing = math.log2(max(1, self.n_labels)) + self.reject_bits - WORD_BITS
        return max(0, math.ceil(missing / FIELD_BITS))


@dataclass(frozen=True)
class Layout:
    """A choice of sizes, and what follows from them."""

    shape: TextShape
    hidden: int
    inner: int
    n_heads: int
    n_rows: int

    # columns

    @property
    def n_pinned(self) -> int:
        """Columns that hold the norm."""
        return pinned_count(self.hidden)

    @property
    def first_word(self) -> int:
        """The first column of words: `n_channels` main ones, then the side ones."""
        return self.n_pinned + len(FIXED)

    @property
    def n_words(self) -> int:
        """Columns of words."""
        return self.n_channels + self.n_side_columns

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The registers of words."""
        return tuple(map(word, range(self.n_words)))

    @cached_property
    def columns(self) -> dict[str, int]:
        """The column of every register."""
        columns = {name: self.n_pinned + at for at, name in enumerate((*FIXED, *self.words))}
        return columns | {name: columns[earlier] for name, earlier in REUSED.items()}

    @property
    def n_free(self) -> int:
        """Columns that words may have."""
        return self.hidden - self.first_word

    @property
    def group(self) -> int:
        """Channels that own the same field."""
        return self.n_free // (N_FIELDS + self.shape.n_side)

    @property
    def n_channels(self) -> int:
        """Channels: a context reads the words of one."""
        return self.group * N_FIELDS if self.shape.n_side else self.n_free

    @property
    def n_side_columns(self) -> int:
        """Columns of side words."""
        return self.group * self.shape.n_side

    def side_word(self, side: int, channel: int) -> int:
        """The number, counted among words, of the side word of a channel."""
        return self.n_channels + side * self.group + channel % self.group

    def field(self, channel: int) -> int:
        """The field of its side words that a channel owns."""
        return channel // self.group

    # folds

    @property
    def row_folds(self) -> int:
        """How often the hash of a row is longer than the table."""
        return max(1, min(LIMBS_VALUES // self.n_rows, (self.inner - 1) // 6))

    @property
    def channel_folds(self) -> tuple[int, int]:
        """The same for the channel, in two steps."""
        total = max(1, LIMBS_VALUES // self.n_channels)
        second = max(1, math.isqrt(total))
        return total // second, second

    @property
    def last_folds(self) -> list[int]:
        """Where the limbs of the last level fold."""
        first, second = self.channel_folds
        return [self.row_folds * self.n_rows - 1] * 3 + [first * second * self.n_channels - 1, LIMB]

    # layers

    @property
    def n_levels(self) -> int:
        """Layers that gather."""
        return len(level_offsets(self.shape.window, self.n_heads))

    @property
    def table_layers(self) -> range:
        """Layers that hold table rows."""
        extra = 2 * sum(self.channel_folds)
        n = max(2, -(-(3 * self.n_rows + extra) // self.inner))
        return range(self.n_levels + 1, self.n_levels + 1 + n)

    @property
    def pick(self) -> int:
        """The layer that picks the channel's words."""
        return self.table_layers.stop

    @property
    def decide(self) -> int:
        """The layer that turns a sum into the number of a token, or into 0."""
        return self.pick + (2 if self.shape.n_side == 0 else 2 + N_FIELDS - 1)

    @property
    def n_layers(self) -> int:
        return self.decide + 1 + (self.shape.n_vocab > DIGIT)

    def spec(self, bos: int = 0, eos: int = 0, sep: int = 0) -> LlamaSpec:
        """The checkpoint's shape."""
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
        """Whether every layer has units enough and every number bits enough."""
        address = 3 * (2 * (self.row_folds - 1) + 1) + 4
        pick = self.n_channels * (1 + self.shape.n_side) + PICK_EXTRA
        strip = 98 * self.shape.n_side + 8
        digits = 2 * (self.shape.n_vocab // DIGIT + 1) if self.shape.n_vocab > DIGIT else 0
        return (
            self.n_free >= 8
            and self.n_rows <= LIMBS_VALUES
            and self.inner // N_LIMBS >= 3 * self.n_heads
            and 2 * self.row_folds * self.n_rows >= LIMB
            and max(address, pick, strip, digits) <= self.inner
        )


def rows_for(n_contexts: int) -> int:
    """Rows of each of the three tables of a channel with that many contexts."""
    load = next(load for least, load in LOADS if n_contexts >= least)
    return max(4, math.ceil(n_contexts / (3 * load)) + 3)


def fullest_channel(n_contexts: int, n_channels: int) -> int:
    """About how many contexts the fullest channel will have."""
    mean = n_contexts / n_channels
    spread = math.sqrt(2 * mean * math.log(max(2, n_channels)))
    return math.ceil(mean + 0.75 * spread)


def choose_layout(shape: TextShape, hidden: int | None = None) -> Layout:
    """The layout of fewest parameters, of width `hidden` if given."""
    if hidden is not None and hidden not in WIDTHS:
        raise UsageError(
            f"hidden={hidden} is not a width that this construction has.\n  Give one of {', '.join(map(str, WIDTHS))}, "
            "or leave it out: then it is the one of fewest parameters.",
            hidden=hidden,
        )
    most_bits = WORD_BITS + MOST_SIDE * FIELD_BITS - math.log2(shape.n_labels)
    if not 0 <= shape.reject_bits <= most_bits:
        raise UsageError(
            f"reject_bits={shape.reject_bits}: where {shape.n_labels:,} tokens may follow, this construction has 0 to "
            f"{math.floor(most_bits)}.",
            reject_bits=shape.reject_bits,
        )
    best: tuple[int, Layout] | None = None
    for width in WIDTHS if hidden is None else (hidden,):
        for n_heads in (2, 4, 8):  # transformers wants a divisor of the width
            for inner in (*range(48, 257, 16), *range(320, 1025, 64)):
                layout = Layout(shape, width, inner, n_heads, 4)
                if layout.n_channels < 8:
                    continue
                needed = rows_for(fullest_channel(shape.n_contexts, layout.n_channels))
                foldable = -(
                    -LIMBS_VALUES // (2 * ((inner - 1) // 6))
                )  # a small table would take too many folds
                layout = replace(layout, n_rows=max(needed, foldable))
                if layout.fits:
                    size = layout.spec().parameters_dense
                    if best is None or size < best[0]:
                        best = size, layout
    if best is None:
        raise AssumptionViolated(
            f"{shape.n_contexts:,} contexts over {shape.n_vocab:,} tokens do not fit a Llama of width {hidden or WIDTHS[-1]} "
            f"(tables of at most {LIMBS_VALUES:,} rows).\n  "
            + (
                "Split the data, or ask for fewer reject bits."
                if hidden is None
                else "Leave out hidden, or give a larger one."
            ),
            n_contexts=shape.n_contexts,
        )
    return best[1]
