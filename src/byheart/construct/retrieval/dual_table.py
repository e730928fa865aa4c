"""The twin: one table whose rows hold words in both weight matrices, read by two tokens at once.

Row a is one hidden unit. Its input weights hold the words V[a], its output weights the words Z[a]. An extra token (the same
for every input) carries its pattern φ in the word slots, so the unit of its row is Γ + V[a]·φ, and every other unit is
silent; the labelled token carries nothing there, so the unit of its row is exactly Γ and pours Z[a] into the word slots.
A second attention layer brings V·φ to the labelled token, which adds the words of Z its own pattern chooses. Nothing is
wasted on W1, so this is the smaller layout for much data.

Slots: x (row), G (square of the row), y (pattern of the extra token, then V·φ, then the label), z (window, pattern of the labelled
token, plane), the role (1 for the extra token), the digits of the row, then the words, which hold the entering words at first. A
pattern too long to share a word with window and plane has a slot of its own.

In floats: unit a of the table is ReLU(Γ·(1 - 2·Σ_i (J_i - a_i)²) + V[a]·φ) with 0 <= V[a]·φ <= Γ, so wrong rows are
at most -Γ + Γ = 0. The digits J_i are centred: |J_i| <= h_i, so no partial sum exceeds (8·Σ h_i² + 2)·Γ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from math import prod

import numpy as np
from jaxtyping import Int, Shaped

from byheart.construct.retrieval.addresses import Addresses, Patterns, reflected
from byheart.construct.retrieval.gadgets import (
    pattern_blocks,
    pattern_shapes,
    threshold,
    window_blocks,
    window_shapes,
)
from byheart.construct.retrieval.label_reader import WORD_SCALE
from byheart.construct.retrieval.layout import SLOT_LABEL, SLOT_T, SLOT_X, SLOT_Z, Layout, Word
from byheart.construct.retrieval.units import Block, Shape, Unit, Weight, exact_matrices, feed_forward
from byheart.network.transformer.architecture import Attention, FeedForward, Head, Layer

SLOT_G, SLOT_Y = SLOT_T, SLOT_LABEL
SLOT_ROLE, SLOT_DIGIT = 4, 5
OWN_WORD = 2
"""The word that holds the labelled token's pattern; its own value goes into this one alone."""


@dataclass(frozen=True)
class Twin(Layout):
    """n_segments is 2: the words V and the words Z of each row. `n_digits` digits name a row."""

    n_digits: int = 3

    @property
    def n_slots(self) -> int:
        """x, G, y, z, role, the digits of the row, and the pattern if it has a slot."""
        return SLOT_DIGIT + self.n_digits + (not self.shares_window)

    @property
    def n_tokens(self) -> int:
        """The sequence and the extra token."""
        return self.entrance.seq_len + 1

    @property
    def sum_factor(self) -> int:
        """Tokens are summed once; the labelled token enters through its pattern."""
        return 1

    @property
    def keeps_own(self) -> bool:
        """Whether the labelled token itself matters beside the sum: positions, or a set, make it needless."""
        return not self.entrance.ordered and self.entrance.pooled == "attention"

    @property
    def sum_width(self) -> int:
        """Largest pooled value over largest value of a token."""
        return self.n_tokens + self.keeps_own

    @cached_property
    def shares_window(self) -> bool:
        """Whether the labelled token's pattern lies between window and plane in their word."""
        word = self.make_word(SLOT_Z, prod(self.choices) * self.n_planes << self.step_bits)
        return self.has_exact_digits(self._window_digits(self.choices)) and self.has_exact_pooling(word)

    def _window_digits(self, between: tuple[int, ...]) -> tuple[int, ...]:
        return (2,) * self.step_bits + between + (self.n_planes,)

    @property
    def pattern_slot(self) -> int:
        """Where the labelled token's pattern is."""
        return SLOT_Z if self.shares_window else SLOT_DIGIT + self.n_digits

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Row, pattern of the extra token, pattern of the labelled token with or before window and plane."""
        base, later = prod(self.choices), self.n_planes << self.step_bits
        row, pattern = self.make_word(SLOT_X, self.n_rows), self.make_word(SLOT_Y, base)
        if self.shares_window:
            return row, pattern, self.make_word(SLOT_Z, base * later)
        return row, pattern, self.make_word(self.pattern_slot, base), self.make_word(SLOT_Z, later)

    @property
    def entry_slots(self) -> tuple[int, ...]:
        """Before pooling the words live where table words will."""
        return tuple(range(self.n_slots, self.n_slots + len(self.words)))

    @cached_property
    def radices(self) -> tuple[int, ...]:
        """Values of each digit of a row number, the highest first."""
        near = max(1, int(self.n_rows ** (1 / self.n_digits)) - 1)  # a float may be one too large
        low = next(b for b in count(near) if b**self.n_digits >= self.n_rows)
        rest = low ** (self.n_digits - 1)
        return (-(-self.n_rows // rest), *(low,) * (self.n_digits - 1))

    @property
    def half_window(self) -> int:
        """What is taken off the row before a step of up to W, so that steps go both ways."""
        return (1 << self.step_bits) // 2

    @property
    def gate(self) -> int:
        """Γ, at least every V[a]·φ."""
        return 1 << (self.word_bits + (self.n_groups - 1).bit_length())

    @property
    def largest_gate_sum(self) -> int:
        """No partial sum before a unit of the table exceeds this."""
        return (8 * sum((radix // 2) ** 2 for radix in self.radices) + 2) * self.gate

    @cached_property
    def digit_words(self) -> tuple[tuple[int, ...], ...]:
        """Outcomes of the digits of each word that is taken apart, the first digit first."""
        between = self.choices if self.shares_window else ()
        return (self.choices, self._window_digits(between), self.radices)

    @property
    def is_exact(self) -> bool:
        """Digits, the gate, pooling, and the bits that are read."""
        return (
            self.n_channels >= len(self.words)
            and self.entrance.n_folds > 0
            and all(self.has_exact_digits(choices) for choices in self.digit_words)
            and self.fits(self.largest_gate_sum)
            and all(self.has_exact_pooling(word) for word in self.words)
            and self.fits(2 * self.n_groups << self.word_bits)
            and self.fits(self.n_tokens * self.gate)
            and self.word_bits + 2 + self.headroom_bits <= self.mantissa_bits
        )

    @property
    def n_addresses(self) -> float:
        """Rows, windows, planes, and two patterns drawn apart."""
        return self.n_rows * self.n_ways * self.n_planes * float(prod(self.choices)) ** 2

    @property
    def n_mixing_layers(self) -> int:
        """One pools the words, one fetches what the extra token read."""
        return 2

    @property
    def n_mixing_parameters(self) -> int:
        """Two heads, and the extra token."""
        dim = len(self.words) if self.entrance.kind == "table" else self.entrance.dim
        return 2 * (len(self.words) + 1) * self.model_width + dim

    @cached_property
    def blocks(self) -> tuple[Shape, ...]:
        """In the order of `pooling_layers` and `table_layers`."""
        everything = (tuple(range(self.n_groups)),)
        n_words = len(self.words)
        shapes = [Shape("entrance", n_words + 2), *[Shape("entrance", n_words)] * (self.entrance.n_folds - 1)]
        shapes += [Shape("move", n_words), *self.fold_blocks, Shape("roles", 2)]
        shapes += [*pattern_shapes(self.choices, everything), *window_shapes(self.step_bits)]
        shapes += [Shape("digit", 2 * (radix - 1)) for radix in self.radices]
        shapes += [Shape("table", self.n_rows), *pattern_shapes(self.choices, everything)]
        return (*shapes, *self.reading_blocks)

    def pooled(
        self,
        own: Int[np.ndarray, "n_samples seq_len n_words"],
        extra: Int[np.ndarray, " n_words"],
        last_only: bool,
    ) -> Int[np.ndarray, "n_samples n_labelled n_words"]:
        """Sums over all tokens; the labelled token's own value is added to the word of its pattern."""
        kept = own[:, -1:] if last_only else own
        total = np.broadcast_to(own.sum(axis=1, keepdims=True) + extra, kept.shape).copy()
        if self.keeps_own:
            total[:, :, OWN_WORD] += kept[:, :, OWN_WORD]
        return total

    def addresses(self, words: Int[np.ndarray, "n_keys n_words"]) -> Addresses:
        """Read rows, patterns and plane off the words, as the network does."""
        patterns = Patterns(self.groups, self.choices)
        taken = range(self.n_groups)
        rest, planes = words[:, -1] // self.n_planes, words[:, -1] % self.n_planes
        step, own = rest, words[:, OWN_WORD]
        if self.shares_window:
            step, own = rest // prod(self.choices), rest % prod(self.choices)
        packed = [patterns.packed(patterns.bits(word, taken)) for word in (words[:, 1], own)]
        second = reflected(words[:, 0] + step - self.half_window, self.n_rows)
        return Addresses(np.stack([words[:, 0], second], axis=1), np.stack(packed, axis=1), planes)

    def pooling_layers(self) -> Iterator[Layer]:
        """Sum the words into their slots and clear where they came from."""
        m, n_words = self.model_width, len(self.words)
        value, output = np.zeros((n_words, m), dtype=object), np.zeros((m, n_words), dtype=object)
        value[np.arange(n_words), self.entry_slots] = 1
        output[[word.slot for word in self.words], np.arange(n_words)] = self.n_tokens
        yield Attention((Head(value, output),), "uniform")
        yield feed_forward(self.move_block(), m)

    def move_block(self) -> Block:
        """Clear the slots the words entered in."""
        units = []
        for number, slot in enumerate(self.entry_slots):
            writes: dict[int, Weight] = {slot: -1}
            if number == OWN_WORD and self.keeps_own:
                writes[self.words[OWN_WORD].slot] = 1
            units.append(Unit({slot: 1}, 0, writes))
        return Block("move", units)

    def table_layers(self, words: Shaped[np.ndarray, " n_columns"]) -> Iterator[Layer]:
        """From the folded words to the masked sums of words: what lies between folding and reading."""
        m = self.model_width
        for part in self.table_parts():
            if isinstance(part, Block):
                yield feed_forward(part, m)
                continue
            layer, table = (
                self.empty_table(part),
                words.reshape(self.n_rows, 2, self.n_channels).astype(object),
            )
            np.asarray(layer.w1)[:, self.n_slots :] = table[:, 0]
            np.asarray(layer.w2)[self.n_slots :] = Fraction(WORD_SCALE, self.gate) * table[:, 1].T
            yield layer
            yield from self.fetching_layers()

    def fetching_layers(self) -> Iterator[Layer]:
        """Bring what the extra token read to all tokens."""
        m = self.model_width
        value, output = np.zeros((1, m), dtype=object), np.zeros((m, 1), dtype=object)
        value[0, SLOT_Y] = 1
        output[SLOT_X, 0] = WORD_SCALE * self.n_tokens
        yield Attention((Head(value, output),), "uniform")

    def table_parts(self) -> Iterator[Block | int]:
        """The blocks of `table_layers`, and in between 0 for the table and the attention layer behind it."""
        everything = (tuple(range(self.n_groups)),)
        held = self.words[1].base
        # only the extra token keeps its pattern word; it starts with the first channel chosen, and takes no step
        clear = Unit({SLOT_Y: 1, SLOT_ROLE: -held}, 0, {SLOT_Y: -1})
        choose = Unit({SLOT_ROLE: 1}, 0, {self.n_slots: 1, SLOT_X: self.half_window})
        yield Block("roles", (clear, choose))
        yield from pattern_blocks(self.groups, self.choices, everything, [SLOT_Y], 1, self.n_slots, 0, 1)
        base = self.words[-1].base
        if self.step_bits:
            yield from window_blocks(base, self.step_bits, self.n_rows, {SLOT_ROLE: -base})
        yield from self._digit_blocks()
        yield 0
        mask, place = WORD_SCALE << self.word_bits, self.n_planes if self.shares_window else 1
        yield from pattern_blocks(
            self.groups, self.choices, everything, [self.pattern_slot], place, self.n_slots, -mask, mask
        )

    def _digit_blocks(self) -> Iterator[Block]:
        """x into its centred digits J_i = d_i - h_i, and G = Σ J_i², which grows by 2(d - h) - 1 at each threshold d."""
        weight = prod(self.radices)
        for number, radix in enumerate(self.radices):
            weight //= radix
            half = radix // 2
            units: list[Unit] = []
            for digit in range(1, radix):
                writes: dict[int, Weight] = {
                    SLOT_X: -weight,
                    SLOT_DIGIT + number: 1,
                    SLOT_G: 2 * (digit - half) - 1,
                }
                units += threshold(SLOT_X, digit * weight, writes)
            yield Block("digit", units, {SLOT_DIGIT + number: -half, SLOT_G: half**2})

    def empty_table(self, segment: int) -> FeedForward:
        """Unit a: Γ·(1 - 2·Σ (J_i - a_i)²) + V[a]·φ in; words of Z[a] and the unit itself out. V and Z are still zero.

        In the labelled token the unit that fires is Γ, so it clears G too; the extra token's G is not needed any more.
        """
        assert segment == 0, "both segments are one table"
        gate = self.gate
        w1, b1, w2, b2 = exact_matrices(self.n_rows, self.model_width)
        digits = self._digits()
        norms = (digits * digits).sum(axis=1)
        w1[:, SLOT_DIGIT : SLOT_DIGIT + self.n_digits] = 4 * gate * digits
        w1[:, SLOT_G], b1[:] = -2 * gate, gate * (1 - 2 * norms)
        w2[SLOT_G] = Fraction(-1, gate) * norms
        w2[SLOT_Y], b2[SLOT_Y] = 1, -gate
        b2[SLOT_X] = 1
        return FeedForward(w1, b1, w2, b2)

    def _digits(self) -> np.ndarray:
        """The centred digits of each row."""
        rest, weight, columns = np.arange(self.n_rows), prod(self.radices), []
        for radix in self.radices:
            weight //= radix
            columns.append(rest // weight - radix // 2)
            rest = rest % weight
        return np.stack(columns, axis=1).astype(object)
