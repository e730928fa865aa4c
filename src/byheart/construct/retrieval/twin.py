"""The twin: one table whose rows hold words in both weight matrices, read by two tokens at once.

Row a is one hidden unit. Its input weights hold the words V[a], its output weights the words Z[a]. An extra token (the same
for every input) carries its pattern φ in the word slots, so the unit of its row is Γ + V[a]·φ, and every other unit is
silent; the labelled token carries nothing there, so the unit of its row is exactly Γ and pours Z[a] into the word slots.
A second attention layer brings V·φ to the labelled token, which adds the words of Z its own pattern chooses. Nothing is
wasted on W1, so this is the smaller layout for much data.

Slots: x (row), G (square of the row), y (pattern of the extra token, then V·φ, then the label), z, the pattern of the labelled
token, the role (1 for the extra token), the digits of the row, then the words, which hold the entering words at first.

In floats: unit a of the table is ReLU(Γ·(1 - 2·Σ_i (J_i - a_i)²) + V[a]·φ) with 0 <= V[a]·φ <= Γ, so wrong rows are
at most -Γ + Γ = 0. The digits J_i are centred: |J_i| <= h_i, so no partial sum exceeds (8·Σ h_i² + 2)·Γ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from math import prod

import numpy as np
from jaxtyping import Int

from byheart.construct.retrieval.addressing import Addresses, Patterns, reflected
from byheart.construct.retrieval.gadgets import pattern_blocks, pattern_shapes, threshold, window_blocks
from byheart.construct.retrieval.layout import SLOT_LABEL, SLOT_T, SLOT_X, SLOT_Z, Layout, Word
from byheart.construct.retrieval.reading import WORD_SCALE
from byheart.construct.retrieval.units import Block, Shape, Unit, feed_forward
from byheart.network.architecture import Attention, FeedForward, Head, Layer

SLOT_G, SLOT_Y = SLOT_T, SLOT_LABEL
SLOT_PATTERN, SLOT_ROLE, SLOT_DIGIT = 4, 5, 6
N_WORDS = 4


@dataclass(frozen=True)
class Twin(Layout):
    """n_segments is 2: the words V and the words Z of each row. `n_digits` digits name a row."""

    n_digits: int = 3

    @property
    def n_slots(self) -> int:
        """x, G, y, z, pattern, role, and the digits of the row."""
        return SLOT_DIGIT + self.n_digits

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
    def words(self) -> tuple[Word, ...]:
        """Row, pattern of the extra token, pattern of the labelled token, window and plane."""
        base = prod(self.choices)
        return (
            self.make_word(SLOT_X, self.n_rows),
            self.make_word(SLOT_Y, base),
            self.make_word(SLOT_PATTERN, base),
            self.make_word(SLOT_Z, self.n_planes << self.window_bits),
        )

    @property
    def entry_slots(self) -> tuple[int, ...]:
        """Before pooling the words live where table words will."""
        return tuple(range(self.n_slots, self.n_slots + N_WORDS))

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
        return (1 << self.window_bits) // 2

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
        return (self.choices, (2,) * self.window_bits + (self.n_planes,), self.radices)

    @property
    def is_exact(self) -> bool:
        """Digits, the gate, pooling, and the bits that are read."""
        limit = 1 << self.mantissa_bits
        return (
            self.n_channels >= N_WORDS
            and self.entrance.n_folds > 0
            and all(self.has_exact_digits(choices) for choices in self.digit_words)
            and self.largest_gate_sum <= limit
            and all(self.has_exact_pooling(word) for word in self.words)
            and 2 * self.n_groups << self.word_bits <= limit
            and self.n_tokens * self.gate <= limit
            and self.word_bits + 2 + self.headroom_bits <= self.mantissa_bits
        )

    @property
    def n_addresses(self) -> float:
        """Rows, windows, planes, and two patterns drawn apart."""
        return self.n_rows * self.steps_in_window * self.n_planes * float(prod(self.choices)) ** 2

    @property
    def n_mixing_layers(self) -> int:
        """One pools the words, one fetches what the extra token read."""
        return 2

    @property
    def n_mixing_parameters(self) -> int:
        """Two heads, and the extra token."""
        dim = len(self.words) if self.entrance.kind == "table" else self.entrance.dim
        return 2 * (N_WORDS + 1) * self.model_width + dim

    @cached_property
    def blocks(self) -> tuple[Shape, ...]:
        """In the order of `pooling_layers` and `table_layers`."""
        everything = (tuple(range(self.n_groups)),)
        shapes = [Shape("entrance", N_WORDS + 2), *[Shape("entrance", N_WORDS)] * (self.entrance.n_folds - 1)]
        shapes += [Shape("move", N_WORDS), *self.fold_blocks, Shape("roles", 2)]
        shapes += pattern_shapes(self.choices, everything)
        if self.window_bits:
            shapes += [Shape("window", 2)] * self.window_bits + [Shape("reflect", 2)]
        shapes += [Shape("digit", 2 * (radix - 1)) for radix in self.radices]
        shapes += [Shape("table", self.n_rows + 1), *pattern_shapes(self.choices, everything)]
        return (*shapes, *self.reading_blocks)

    def pooled(
        self,
        own: Int[np.ndarray, "n_samples seq_len n_words"],
        extra: Int[np.ndarray, " n_words"],
        last_only: bool,
    ) -> Int[np.ndarray, "n_samples n_labelled n_words"]:
        """Sums over all tokens; the labelled token's own pattern word is added to its pattern."""
        kept = own[:, -1:] if last_only else own
        total = np.broadcast_to(own.sum(axis=1, keepdims=True) + extra, kept.shape).copy()
        if self.keeps_own:
            total[:, :, 2] += kept[:, :, 2]
        return total

    def addresses(self, words: Int[np.ndarray, "n_keys n_words"]) -> Addresses:
        """Read rows, patterns and plane off the words, as the network does."""
        patterns = Patterns(self.groups, self.choices)
        taken = range(self.n_groups)
        packed = [patterns.packed(patterns.bits(words[:, i], taken)) for i in (1, 2)]
        step, planes = words[:, 3] // self.n_planes, words[:, 3] % self.n_planes
        second = reflected(words[:, 0] + step - self.half_window, self.n_rows)
        return Addresses(np.stack([words[:, 0], second], axis=1), np.stack(packed, axis=1), planes)

    def pooling_layers(self) -> Iterator[Layer]:
        """Sum the words into their slots and clear where they came from."""
        m = self.model_width
        value, output = np.zeros((N_WORDS, m)), np.zeros((m, N_WORDS))
        value[np.arange(N_WORDS), self.entry_slots] = 1.0
        output[[word.slot for word in self.words], np.arange(N_WORDS)] = float(self.n_tokens)
        yield Attention((Head(value, output),), "uniform")
        units = []
        for number, slot in enumerate(self.entry_slots):
            writes = {slot: -1.0}
            if number == 2 and self.keeps_own:
                writes[SLOT_PATTERN] = 1.0
            units.append(Unit({slot: 1.0}, 0.0, writes))
        yield feed_forward(Block("move", units), m)

    def table_layers(self, words: Int[np.ndarray, " n_columns"]) -> Iterator[Layer]:
        """From the folded words to the masked sums of words: what lies between folding and reading."""
        m = self.model_width
        everything = (tuple(range(self.n_groups)),)
        held = float(self.words[1].base)
        # only the extra token keeps its pattern word; it starts with the first channel chosen, and takes no step
        clear = Unit({SLOT_Y: 1.0, SLOT_ROLE: -held}, 0.0, {SLOT_Y: -1.0})
        choose = Unit({SLOT_ROLE: 1.0}, 0.0, {self.n_slots: 1.0, SLOT_X: float(self.half_window)})
        yield feed_forward(Block("roles", (clear, choose)), m)
        for block in pattern_blocks(self.groups, self.choices, everything, [SLOT_Y], self.n_slots, 0.0, 1.0):
            yield feed_forward(block, m)
        if self.window_bits:
            hold = {SLOT_ROLE: -float(self.words[3].base)}
            for block in window_blocks(self.words[3].base, self.window_bits, self.n_rows, hold):
                yield feed_forward(block, m)
        for block in self._digit_blocks():
            yield feed_forward(block, m)
        yield self._table_layer(words.reshape(self.n_rows, 2, self.n_channels))
        value, output = np.zeros((1, m)), np.zeros((m, 1))
        value[0, SLOT_Y] = 1.0
        output[SLOT_X, 0] = float(WORD_SCALE * self.n_tokens)
        yield Attention((Head(value, output),), "uniform")
        mask = float(WORD_SCALE << self.word_bits)
        for block in pattern_blocks(
            self.groups, self.choices, everything, [SLOT_PATTERN], self.n_slots, -mask, mask
        ):
            yield feed_forward(block, m)

    def _digit_blocks(self) -> Iterator[Block]:
        """x into its centred digits J_i = d_i - h_i, and G = Σ J_i², which grows by 2(d - h) - 1 at each threshold d."""
        weight = prod(self.radices)
        for number, radix in enumerate(self.radices):
            weight //= radix
            half = radix // 2
            units: list[Unit] = []
            for digit in range(1, radix):
                writes = {
                    SLOT_X: -float(weight),
                    SLOT_DIGIT + number: 1.0,
                    SLOT_G: float(2 * (digit - half) - 1),
                }
                units += threshold(SLOT_X, float(digit * weight), writes)
            yield Block("digit", units, {SLOT_DIGIT + number: -float(half), SLOT_G: float(half**2)})

    def _table_layer(self, words: Int[np.ndarray, "n_rows n_segments n_channels"]) -> FeedForward:
        """Unit a: Γ·(1 - 2·Σ (J_i - a_i)²) + V[a]·φ in; words of Z[a] and the unit itself out. One more unit clears G."""
        m, n_rows, gate = self.model_width, self.n_rows, float(self.gate)
        w1, b1 = np.zeros((n_rows + 1, m)), np.zeros(n_rows + 1)
        w2, b2 = np.zeros((m, n_rows + 1)), np.zeros(m)
        rest, norms = np.arange(n_rows), np.zeros(n_rows)
        weight = prod(self.radices)
        for number, radix in enumerate(self.radices):
            weight //= radix
            digit = (rest // weight) - radix // 2
            rest = rest % weight
            w1[:n_rows, SLOT_DIGIT + number] = 4.0 * gate * digit
            norms += digit.astype(np.float64) ** 2
        w1[:n_rows, SLOT_G] = -2.0 * gate
        b1[:n_rows] = gate * (1.0 - 2.0 * norms)
        w1[:n_rows, self.n_slots :] = words[:, 0].astype(np.float64)
        w2[self.n_slots :, :n_rows] = WORD_SCALE / gate * words[:, 1].T.astype(np.float64)
        w2[SLOT_Y, :n_rows], b2[SLOT_Y] = 1.0, -gate
        w1[n_rows, SLOT_G], w2[SLOT_G, n_rows] = 1.0, -1.0
        b2[SLOT_X] = 1.0
        return FeedForward(w1, b1, w2, b2)
