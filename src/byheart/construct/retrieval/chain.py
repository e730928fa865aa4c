"""The chain: the labelled token reads k tables one after the other, then adds up the chosen channels.

Slots: x (pattern and row, then row), J (its copy), G (its square), z (windows and plane), then the words. Patterns too long to
share a word with the row enter in J and G. It serves every task and every length, and is the smaller layout for little data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from jaxtyping import Int, Shaped

from byheart.construct.retrieval.addresses import Addresses, Patterns, reflected
from byheart.construct.retrieval.gadgets import (
    HALF,
    pattern_blocks,
    pattern_shapes,
    window_blocks,
    window_shapes,
)
from byheart.construct.retrieval.label_reader import WORD_SCALE
from byheart.construct.retrieval.layout import SLOT_LABEL, SLOT_T, SLOT_X, SLOT_Z, Layout, Word
from byheart.construct.retrieval.units import Block, Shape, Unit, exact_matrices, feed_forward
from byheart.network.transformer.architecture import Attention, FeedForward, Head, Layer, SumPool

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
    def shares_row(self) -> bool:
        """Whether the pattern is the upper part of the row's word; it has words of its own where one would be too long."""
        word = self.make_word(SLOT_X, prod(self.choices) * self.n_rows)
        return self.has_exact_digits((*self.choices, self.n_rows)) and self.has_exact_pooling(word)

    @cached_property
    def pattern_words(self) -> tuple[tuple[int, ...], ...]:
        """Which groups are decided by which pattern word: one word, or two where one would be too long."""
        word = self.make_word(SLOT_J, prod(self.choices))
        if self.shares_row or (self.has_exact_digits(self.choices) and self.has_exact_pooling(word)):
            return (tuple(range(self.n_groups)),)
        half = (self.n_groups + 1) // 2
        return tuple(range(half)), tuple(range(half, self.n_groups))

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Row (and pattern), up to two patterns, windows and plane."""
        later = self.make_word(SLOT_Z, self.n_planes << self.step_bits)
        if self.shares_row:
            return self.make_word(SLOT_X, prod(self.choices) * self.n_rows), later
        patterns = [
            self.make_word(slot, prod(self.choices[g] for g in groups))
            for slot, groups in zip((SLOT_J, SLOT_G), self.pattern_words, strict=False)
        ]
        return (self.make_word(SLOT_X, self.n_rows), *patterns, later)

    @cached_property
    def digit_words(self) -> tuple[tuple[int, ...], ...]:
        """Outcomes of the digits of each word that is taken apart, the first digit first."""
        below = (self.n_rows,) if self.shares_row else ()
        patterns = [(*(self.choices[g] for g in groups), *below) for groups in self.pattern_words]
        return (*patterns, (2,) * self.step_bits + (self.n_planes,))

    @property
    def is_exact(self) -> bool:
        """Digits, squares, pooling, sums of words, and the bits that are read."""
        return (
            all(self.has_exact_digits(choices) for choices in self.digit_words)
            and self.fits(8 * self.n_rows**2)
            and self.n_channels >= 2 * self.entrance.n_projections
            and all(self.has_exact_pooling(word) for word in self.words)
            and self.word_bits + (self.n_segments * self.n_groups - 1).bit_length() <= self.mantissa_bits
            and self.word_bits + 2 + self.headroom_bits <= self.mantissa_bits
        )

    @property
    def n_addresses(self) -> float:
        """Rows, windows, patterns and planes."""
        return self.n_rows * self.n_ways * self.n_planes * float(prod(self.choices))

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
        """r of each reflection that moves a row number in [0, Q) into its copy and its square, but for a last 0 or 1."""
        folds = []
        remaining = self.n_rows
        while remaining > 2:
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
            shapes.append(Shape("table", self.n_rows))
            if segment < self.n_segments - 1:
                shapes += window_shapes(self.windows[segment])
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
            value = np.zeros((n_words, self.model_width), dtype=object)
            output = np.zeros((self.model_width, n_words), dtype=object)
            value[np.arange(n_words), slots] = 1
            output[slots, np.arange(n_words)] = self.sum_factor * self.n_tokens
            yield Attention((Head(value, output),), "uniform")

    def addresses(self, words: Int[np.ndarray, "n_keys n_words"]) -> Addresses:
        """Read rows, pattern and plane off the words, as the network does. All segments share the pattern."""
        patterns = Patterns(self.groups, self.choices)
        rows, held = [words[:, 0]], list(words[:, 1:-1].T)
        if self.shares_row:
            rows, held = [words[:, 0] % self.n_rows], [words[:, 0] // self.n_rows]
        bits = sum(patterns.bits(word, groups) for word, groups in zip(held, self.pattern_words, strict=True))
        rest, weight = words[:, -1], self.words[-1].base
        for window_bits in self.windows:
            weight >>= window_bits
            step, rest = rest // weight, rest % weight
            rows.append(reflected(rows[-1] + step - (1 << window_bits) // 2, self.n_rows))
        packed = patterns.packed(np.asarray(bits))
        return Addresses(np.stack(rows, axis=1), np.repeat(packed[:, None], self.n_segments, axis=1), rest)

    def table_layers(self, words: Shaped[np.ndarray, " n_columns"]) -> Iterator[Layer]:
        """From the folded words to the masked sums of words: what lies between pooling and reading."""
        m = self.model_width
        table = words.reshape(self.n_rows, self.n_segments, self.n_channels)
        for part in self.table_parts():
            if isinstance(part, Block):
                yield feed_forward(part, m)
                continue
            layer = self.empty_table(part)
            np.asarray(layer.w2)[self.n_slots :] = WORD_SCALE * table[:, part].T.astype(object)
            yield layer

    def table_parts(self) -> Iterator[Block | int]:
        """The blocks of `table_layers`, and in between the number of each table."""
        pattern_slots = [SLOT_X] if self.shares_row else [word.slot for word in self.words[1:-1]]
        mask = WORD_SCALE << (self.word_bits + (self.n_segments - 1).bit_length())
        place = self.n_rows if self.shares_row else 1
        yield from pattern_blocks(
            self.groups, self.choices, self.pattern_words, pattern_slots, place, self.n_slots, -mask, mask
        )
        weight = self.words[-1].base
        for segment in range(self.n_segments):
            for remaining in self.squaring_folds:
                # J takes what x loses; x² - x'² = (x - x')·(x + x') = 2σ·2c with c the centre, so G gains 4c·σ
                centre = HALF * (remaining - 1)
                yield Block(
                    "square", (Unit({SLOT_X: 1}, -centre, {SLOT_X: -2, SLOT_J: 2, SLOT_G: 4 * centre}),)
                )
            yield segment
            if segment < self.n_segments - 1 and self.windows[segment]:
                yield from window_blocks(weight, self.windows[segment], self.n_rows, {})
                weight >>= self.windows[segment]

    def empty_table(self, segment: int) -> FeedForward:
        """Unit a is ReLU(1 - (row - a)²) = [row = a]; it will add row a of the table to the words.

        The reflections left e = 0 or 1 in x, J = row - e and G = row² - e, so (row - a)² = G + e - 2a·(J + e) + a². The unit that
        fires knows them all: it clears J and G and gives x the row back, or 1 after the last table.
        """
        w1, b1, w2, b2 = exact_matrices(self.n_rows, self.model_width)
        a = np.arange(self.n_rows).astype(object)
        left = self._left_over()
        w1[:, SLOT_X], w1[:, SLOT_J], w1[:, SLOT_G], b1[:] = 2 * a - 1, 2 * a, -1, 1 - a * a
        w2[SLOT_X] = (1 if segment == self.n_segments - 1 else a) - left
        w2[SLOT_J], w2[SLOT_G] = left - a, left - a * a
        return FeedForward(w1, b1, w2, b2)

    def _left_over(self) -> np.ndarray:
        """What the reflections leave of each row number: 0 or 1."""
        left = np.arange(self.n_rows)
        for remaining in self.squaring_folds:
            left = np.minimum(left, remaining - 1 - left)
        return left.astype(object)
