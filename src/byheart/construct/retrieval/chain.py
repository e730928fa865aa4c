"""The chain: the labelled token reads k tables one after the other, then adds up the chosen channels.

Slots: x (row), J (its copy), G (its square), z (windows and plane), then the words. Before the first table J and G hold the
pattern words. It serves every task and every length, and is the smaller layout for little data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from jaxtyping import Int

from byheart.construct.retrieval.addressing import Addresses, Patterns, reflected
from byheart.construct.retrieval.gadgets import (
    pattern_blocks,
    pattern_shapes,
    window_blocks,
)
from byheart.construct.retrieval.layout import SLOT_LABEL, SLOT_T, SLOT_X, SLOT_Z, Layout, Word
from byheart.construct.retrieval.reading import WORD_SCALE
from byheart.construct.retrieval.units import Block, Shape, Unit, feed_forward
from byheart.network.architecture import Attention, FeedForward, Head, Layer, SumPool

SLOT_J, SLOT_G = SLOT_T, SLOT_LABEL
"""Copy and square of the row, until the reading circuit takes over their slots."""


@dataclass(frozen=True)
class Chain(Layout):
    """k = n_segments tables of Q rows, each read once."""

    @property
    def n_slots(self) -> int:
        """x, J, G, z."""
        return 4

    @property
    def n_tokens(self) -> int:
        """The tokens of the sequence."""
        return self.entrance.seq_len

    @cached_property
    def pattern_words(self) -> tuple[tuple[int, ...], ...]:
        """Which groups are decided by which pattern word: one word, or two where one would be too long."""
        word = self.make_word(SLOT_J, prod(self.choices))
        if self.has_exact_digits(self.choices) and self.has_exact_pooling(word):
            return (tuple(range(self.n_groups)),)
        half = (self.n_groups + 1) // 2
        return tuple(range(half)), tuple(range(half, self.n_groups))

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Row, one or two patterns, windows and plane."""
        patterns = [
            self.make_word(slot, prod(self.choices[g] for g in groups))
            for slot, groups in zip((SLOT_J, SLOT_G), self.pattern_words, strict=False)
        ]
        later = (1 << (self.window_bits * (self.n_segments - 1))) * self.n_planes
        return (self.make_word(SLOT_X, self.n_rows), *patterns, self.make_word(SLOT_Z, later))

    @cached_property
    def digit_words(self) -> tuple[tuple[int, ...], ...]:
        """Outcomes of the digits of each word that is taken apart, the first digit first."""
        patterns = tuple(tuple(self.choices[g] for g in groups) for groups in self.pattern_words)
        return (*patterns, (2,) * (self.window_bits * (self.n_segments - 1)) + (self.n_planes,))

    @property
    def is_exact(self) -> bool:
        """Digits, squares, pooling, sums of words, and the bits that are read."""
        limit = 1 << self.mantissa_bits
        return (
            all(self.has_exact_digits(choices) for choices in self.digit_words)
            and 8 * self.n_rows**2 <= limit
            and self.n_channels >= 2 * self.entrance.n_projections
            and all(self.has_exact_pooling(word) for word in self.words)
            and (self.n_segments * self.n_groups) << self.word_bits <= limit
            and self.word_bits + 2 + self.headroom_bits <= self.mantissa_bits
        )

    @property
    def n_addresses(self) -> float:
        """Rows, windows, patterns and planes."""
        rows = self.n_rows * self.steps_in_window ** (self.n_segments - 1)
        return rows * self.n_planes * prod(float(choice) for choice in self.choices)

    @property
    def n_mixing_layers(self) -> int:
        """One, unless there is nothing to mix or the pooling has no parameters."""
        return int(self.entrance.pooled == "attention" and self.n_tokens > 1)

    @property
    def n_mixing_parameters(self) -> int:
        """Value and output of one head."""
        return 2 * len(self.words) * self.model_width * self.n_mixing_layers

    @cached_property
    def squaring_folds(self) -> tuple[int, ...]:
        """r of each reflection that moves a row number in [0, Q) into its copy and its square."""
        folds = []
        remaining = self.n_rows
        while remaining > 1:
            folds.append(remaining)
            remaining = (remaining - 1) // 2 + 1
        return tuple(folds)

    @cached_property
    def blocks(self) -> tuple[Shape, ...]:
        """In the order of `chain_layers`."""
        shapes = [*self.quantising_shapes, *[Shape("entrance", len(self.words))] * self.entrance.n_folds]
        shapes += [*self.fold_blocks, *pattern_shapes(self.choices, self.pattern_words)]
        for segment in range(self.n_segments):
            shapes += [Shape("square", 1)] * len(self.squaring_folds)
            shapes.append(Shape("table", self.n_rows + 2))
            if segment < self.n_segments - 1 and self.window_bits:
                shapes += [Shape("window", 2)] * self.window_bits + [Shape("reflect", 2)]
        return (*shapes, *self.reading_blocks)

    @property
    def entry_slots(self) -> tuple[int, ...]:
        """Words enter where they stay."""
        return tuple(word.slot for word in self.words)

    def pooled(
        self,
        own: Int[np.ndarray, "n_samples seq_len n_words"],
        extra: Int[np.ndarray, " n_words"],
        last_only: bool,
    ) -> Int[np.ndarray, "n_samples n_labelled n_words"]:
        """own + λ·Σ; the sum alone for a set; the token itself if there is but one. There is no extra token."""
        total = own.sum(axis=1, keepdims=True)
        if self.entrance.pooled == "sum":
            return np.asarray(total)
        kept = own[:, -1:] if last_only else own
        return np.asarray(kept if self.n_tokens == 1 else kept + self.sum_factor * total)

    def pooling_layers(self) -> Iterator[Layer]:
        """A head whose output weight carries the factor n, so that the mean becomes a sum."""
        if self.entrance.pooled == "sum":
            yield SumPool()
        elif self.n_tokens > 1:
            n_words, slots = len(self.words), self.entry_slots
            value, output = np.zeros((n_words, self.model_width)), np.zeros((self.model_width, n_words))
            value[np.arange(n_words), slots] = 1.0
            output[slots, np.arange(n_words)] = float(self.sum_factor * self.n_tokens)
            yield Attention((Head(value, output),), "uniform")

    def addresses(self, words: Int[np.ndarray, "n_keys n_words"]) -> Addresses:
        """Read rows, pattern and plane off the words, as the network does. All segments share the pattern."""
        patterns = Patterns(self.groups, self.choices)
        bits = sum(patterns.bits(words[:, 1 + i], groups) for i, groups in enumerate(self.pattern_words))
        rows = [words[:, 0]]
        rest, weight = words[:, -1], self.words[-1].base
        for _ in range(self.n_segments - 1):
            weight >>= self.window_bits
            step, rest = rest // weight, rest % weight
            rows.append(reflected(rows[-1] + step - (1 << self.window_bits) // 2, self.n_rows))
        packed = patterns.packed(np.asarray(bits))
        return Addresses(np.stack(rows, axis=1), np.repeat(packed[:, None], self.n_segments, axis=1), rest)

    def table_layers(self, words: Int[np.ndarray, " n_columns"]) -> Iterator[Layer]:
        """From the folded words to the masked sums of words: what lies between pooling and reading."""
        m = self.model_width
        pattern_slots = [word.slot for word in self.words[1:-1]]
        mask = float(WORD_SCALE << (self.word_bits + (self.n_segments - 1).bit_length()))
        for block in pattern_blocks(
            self.groups, self.choices, self.pattern_words, pattern_slots, self.n_slots, -mask, mask
        ):
            yield feed_forward(block, m)
        table = words.reshape(self.n_rows, self.n_segments, self.n_channels)
        weight = self.words[-1].base
        for segment in range(self.n_segments):
            for remaining in self.squaring_folds:
                # J takes what x loses; x² - x'² = (x - x')·(x + x') = 2σ·2c with c the centre, so G gains 4c·σ
                centre = (remaining - 1) / 2
                unit = Unit({SLOT_X: 1.0}, -centre, {SLOT_X: -2.0, SLOT_J: 2.0, SLOT_G: 4.0 * centre})
                yield feed_forward(Block("square", (unit,)), m)
            is_last = segment == self.n_segments - 1
            yield self._table_layer(table[:, segment], is_last)
            if not is_last and self.window_bits:
                for block in window_blocks(weight, self.window_bits, self.n_rows, {}):
                    yield feed_forward(block, m)
                weight >>= self.window_bits

    def _table_layer(self, words: Int[np.ndarray, "n_rows n_channels"], is_last: bool) -> FeedForward:
        """Unit a is ReLU(2aJ - G + 1 - a²) = ReLU(1 - (J - a)²) = [J = a]; it adds row a of the table to the words.

        Two more units clear J and G; J goes back to x for the next segment. After the last one x is set to 1.
        """
        m, n_rows = self.model_width, self.n_rows
        a = np.arange(n_rows, dtype=np.float64)
        w1, b1 = np.zeros((n_rows + 2, m)), np.zeros(n_rows + 2)
        w2, b2 = np.zeros((m, n_rows + 2)), np.zeros(m)
        w1[:n_rows, SLOT_J], w1[:n_rows, SLOT_G], b1[:n_rows] = 2 * a, -1.0, 1 - a**2
        w2[self.n_slots :, :n_rows] = WORD_SCALE * words.T.astype(np.float64)
        w1[n_rows, SLOT_J], w2[SLOT_J, n_rows] = 1.0, -1.0
        w1[n_rows + 1, SLOT_G], w2[SLOT_G, n_rows + 1] = 1.0, -1.0
        if is_last:
            b2[SLOT_X] = 1.0
        else:
            w2[SLOT_X, n_rows] = 1.0
        return FeedForward(w1, b1, w2, b2)
