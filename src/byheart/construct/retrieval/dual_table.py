"""The dual table: one table whose rows hold words in both weight matrices, read by two tokens at once.

Row a is one hidden unit. Its input weights hold the words V[a], its output weights the words Z[a]. An extra token (the same
for every input) carries its pattern φ in the word registers, so the unit of its row is Γ + V[a]·φ, and every other unit is
silent; the labelled token carries nothing there, so the unit of its row is exactly Γ and adds Z[a] to the word registers.
A second attention layer, in which every token reads the first one, brings V·φ to the labelled token, which adds the words of Z
its own pattern chooses. W1 stores words too, so this is the smaller layout for large data.

Registers: x (row, then its last digit), the role (1 for the extra token) and later Σ J_i², y (pattern of the extra token, then
V·φ, then the label), z (window, pattern of the labelled token, plane), the other digits of the row, then the words, which hold the
entering fields at first. A pattern too long to share a field with window and plane has a register of its own.

In floats: unit a of the table is ReLU(Γ·(1 - 2·Σ_i (J_i - a_i)²) + V[a]·φ) with |V[a]·φ| <= Γ, so wrong rows are
at most -Γ + Γ = 0. The digits J_i are centred: |J_i| <= h_i, so no partial sum exceeds (8·Σ h_i² + 2)·Γ. The words V are signed:
one of 2^(word_bits - 1) or more is stored minus 2^word_bits, which changes no bit that is read, and Γ can be half as large.

Short weights: stored as int8 or bfloat16, a weight holds 8 bits and a power of two that its channel shares. A word of up to 8 bits
is one weight of W1 or W2; a longer one is several limbs, in channels whose powers of two lie 8 apart and whose pattern is the
same. All other weights are powers of two or short: digits and choices count in powers of two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import count
from math import prod
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Shaped

from byheart.construct.retrieval import layout as common
from byheart.construct.retrieval.addresses import Addresses, ChannelPatterns, pack_bits, step_rows
from byheart.construct.retrieval.gadgets import pattern_blocks, window_blocks, within_shards
from byheart.construct.retrieval.label_code import planes_of
from byheart.construct.retrieval.label_reader import WORD_SCALE
from byheart.construct.retrieval.layout import LABEL, LIMB_BITS, ONE, HashedField, RetrievalLayout, T, X, Z
from byheart.network.exact.dyadic import Number
from byheart.program.blocks import (
    Block,
    Column,
    RegisterAttention,
    RegisterHead,
    Step,
    TableBlock,
    Unit,
    head,
    threshold,
    typical,
    typical_fraction,
)
from byheart.program.lazy_units import LazyUnits
from byheart.program.short_numbers import SHORT_BITS, short_parts

SQUARE, Y = T, LABEL
ROLE, PATTERN = T, "pattern"
"""The role is needed until the row is known, and its square from then on: one register holds both."""

OWN_FIELD = 2
"""The field that holds the labelled token's pattern; its own value goes into this one alone."""


@dataclass(frozen=True)
class DualTable(RetrievalLayout):
    """n_segments is 2: the words V and the words Z of each row. `n_digits` digits name a row."""

    n_digits: int = 3

    name = "dual table"
    has_extra_token = True
    n_signed_segments = 1

    @cached_property
    def digits(self) -> tuple[str, ...]:
        """The registers of the digits of a row number; the last digit is what x keeps."""
        return (*(f"digit {number}" for number in range(self.n_digits - 1)), X)

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """x, role or square, y, z, the other digits of the row, the pattern if it has a register, and 1 if it is needed."""
        constant = (ONE,) if self.stored == "bfloat16" else ()
        return (X, SQUARE, Y, Z, *self.digits[:-1], *(() if self.shares_window else (PATTERN,)), *constant)

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
        """Whether the labelled token itself matters beside the sum; with positions, or for a set, it does not."""
        return not self.entrance.ordered and self.entrance.pooling == "attention"

    @property
    def sum_width(self) -> int:
        """Largest pooled value over largest value of a token."""
        return self.n_tokens + self.keeps_own

    @cached_property
    def shares_window(self) -> bool:
        """Whether the labelled token's pattern lies between window and plane in their field."""
        if self.entrance.least_fields > 3:
            return False
        field = self.make_field(Z, prod(self.choices) * self.n_places << self.step_bits)
        return self.has_exact_digits(self._window_digits(self.choices)) and self.has_exact_pooling(field)

    def _window_digits(self, between: tuple[int, ...]) -> tuple[int, ...]:
        return (2,) * self.step_bits + between + (self.n_places,)

    @property
    def pattern_register(self) -> str:
        """Where the labelled token's pattern is."""
        return Z if self.shares_window else PATTERN

    @cached_property
    def hashed_fields(self) -> tuple[HashedField, ...]:
        """Row, pattern of the extra token, pattern of the labelled token with or before window and plane."""
        base, later = prod(self.choices), self.n_places << self.step_bits
        row, pattern = self.make_field(X, self.n_rows), self.make_field(Y, base)
        if self.shares_window:
            return self.align_fields(row, pattern, self.make_field(Z, base * later))
        return self.align_fields(row, pattern, self.make_field(PATTERN, base), self.make_field(Z, later))

    @property
    def entry_registers(self) -> tuple[str, ...]:
        """Before pooling the fields live where table words will."""
        return self.word_registers[: len(self.hashed_fields)]

    @cached_property
    def radices(self) -> tuple[int, ...]:
        """Values of each digit of a row number, the highest first."""
        near = max(1, int(self.n_rows ** (1 / self.n_digits)) - 1)  # a float may be one too large
        low = next(b for b in count(near) if b**self.n_digits >= self.n_rows)
        n_low = self.n_digits - 1
        if self.stored:  # short weights hold powers of two: the nearest below or above, whichever has fewer digits to tell apart
            below = 1 << (low.bit_length() - 1)
            low = min(below, 2 * below, key=lambda b: -(-self.n_rows // b**n_low) + n_low * b)
        return (-(-self.n_rows // low**n_low), *(low,) * n_low)

    @property
    def half_window(self) -> int:
        """Subtracted from the row before a step of up to W, so that steps go both ways."""
        return (1 << self.step_bits) // 2

    @property
    def gate(self) -> int:
        """Γ, at least every |V[a]·φ|. Limbs that use all their bits may hold a word of a little more than half of 2^word_bits."""
        largest = self.n_groups << (self.word_bits - 1)
        if self.n_limbs > 1 and self.word_bits == self.n_limbs * LIMB_BITS:
            largest += self.n_groups << (self.word_bits - LIMB_BITS)
        return 1 << (largest - 1).bit_length()

    @property
    def largest_gate_sum(self) -> int:
        """No partial sum before a unit of the table exceeds this."""
        return (8 * sum(half**2 for half in self.halves) + 2) * self.gate

    @cached_property
    def halves(self) -> tuple[int, ...]:
        """Subtracted from each digit to centre it: at least half of its values, with 4 bits where weights are bfloat16."""
        found = [radix // 2 for radix in self.radices]
        if self.stored == "bfloat16":  # so that their squares have 8
            spare = [max(0, half.bit_length() - SHORT_BITS // 2) for half in found]
            found = [-(-half >> bits) << bits for half, bits in zip(found, spare, strict=True)]
        return tuple(found)

    @cached_property
    def digit_fields(self) -> tuple[tuple[int, ...], ...]:
        """Outcomes of the digits of each field that is taken apart, the first digit first."""
        between = self.choices if self.shares_window else ()
        return (self.choices, self._window_digits(between), self.radices)

    @property
    def is_exact(self) -> bool:
        """Digits, the gate, pooling, and the bits that are read."""
        return (
            len(self.word_registers) >= len(self.hashed_fields) * self.n_entering_parts
            and self.entrance.n_folds > 0
            and all(self.has_exact_digits(choices) for choices in self.digit_fields)
            and self.fits(self.largest_gate_sum)
            and self.fits(self.largest_shard_sum // self.shard_unit)
            and all(self.has_exact_pooling(field) for field in self.hashed_fields)
            and self.fits(2 * self.n_groups << self.word_bits)
            and self.word_bits + 2 + self.headroom_bits <= self.mantissa_bits
            and (self.stored is None or self.word_bits <= self.n_limbs * LIMB_BITS)
        )

    @property
    def n_addresses(self) -> float:
        """Rows, windows, planes, and two patterns drawn apart."""
        return self.n_rows * self.n_ways * self.n_planes * float(prod(self.choices)) ** 2

    def pool(
        self, own: common.TokenFields, extra: common.ExtraFields, last_only: bool
    ) -> common.LabelledFields:
        """Sums over all tokens; the labelled token's own value is added to the field of its pattern."""
        kept = own[:, -1:] if last_only else own
        total = np.broadcast_to(own.sum(axis=1, keepdims=True) + extra, kept.shape).copy()
        if self.keeps_own:
            total[:, :, OWN_FIELD] += kept[:, :, OWN_FIELD]
        return total

    def first_rows(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> Int[np.ndarray, " n_keys"]:
        """The row has a field of its own."""
        return np.asarray(fields[:, 0])

    def addresses(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> Addresses:
        """Read rows, patterns and plane off the fields, as the network does."""
        patterns = ChannelPatterns(self.groups, self.choices)
        rest, places = np.divmod(fields[:, -1], self.n_places)
        step, own = rest, fields[:, OWN_FIELD]
        if self.shares_window:
            step, own = rest // prod(self.choices), rest % prod(self.choices)
        both = [pack_bits(patterns.bits(each, range(self.n_groups))) for each in (fields[:, 1], own)]
        second = step_rows(fields[:, 0], step - self.half_window, self.shard_rows)
        rows = np.stack([fields[:, 0], second], axis=1)
        return Addresses(rows, np.stack(both, axis=1), planes_of(self.label_fields, places))

    def pooling_steps(self) -> Iterator[Step]:
        """Sum the fields into their registers and clear where they came from."""
        values = [{register: 1} for register in self.entry_registers]
        factors: list[Number] = [self.n_tokens]
        if self.stored == "bfloat16":
            factors = [part for part in short_parts(self.n_tokens, 2) if part]
        outputs = [{field.register: each} for each in factors for field in self.hashed_fields]
        yield RegisterAttention((RegisterHead(values * len(factors), outputs),))
        units = []
        for number, register in enumerate(self.entry_registers):
            writes: dict[str, Number] = {register: -1}
            if number == OWN_FIELD and self.keeps_own:
                writes[self.hashed_fields[OWN_FIELD].register] = 1
            units.append(Unit({register: 1}, 0, writes))
        yield Block(units, {}, "move")

    def lookup_steps(self, words: Shaped[np.ndarray, " n_columns"] | None) -> Iterator[Step]:
        """Give each token its pattern and its row, read the table, fetch what the extra token read, and mask the channels."""
        yield from within_shards(self._pattern_and_step(), self.n_shards, self.shard_rows, self.digits[0])
        yield from self._digit_blocks()
        yield self._table(
            None if words is None else self.widen(words).reshape(self.n_rows, 2, self.n_channels)
        )
        yield RegisterAttention((head({Y: 1}, {X: WORD_SCALE}),), pattern="scatter")
        place = self.n_places if self.shares_window else 1
        yield from pattern_blocks(
            self.groups,
            self.choices,
            self._all_groups,
            [self.pattern_register],
            place,
            self.word_registers,
            [offset - mask for offset, mask in zip(self._limb_offsets, self._limb_masks, strict=True)],
            self._limb_masks,
        )

    @property
    def _limb_offsets(self) -> list[int]:
        """What each limb of a word of Z lacks in its register: stored weights are signed, and these words are not."""
        return [
            WORD_SCALE << (LIMB_BITS * (limb + 1) - 1) if self.stored else 0 for limb in range(self.n_limbs)
        ]

    @property
    def _limb_masks(self) -> list[int]:
        """What is subtracted from a limb to silence it, by place: the least power of two that no limb there exceeds.

        The offset less the mask is then a power of two too, or a few bits, which a bfloat16 weight holds.
        """
        if not self.stored:
            return [WORD_SCALE << self.word_bits]
        ends = [LIMB_BITS * (limb + 1) for limb in range(self.n_limbs)]
        return [WORD_SCALE << min(self.word_bits, end) for end in ends]

    @property
    def _all_groups(self) -> tuple[tuple[int, ...]]:
        return (tuple(range(self.n_groups)),)

    def _pattern_and_step(self) -> Iterator[Block]:
        held = self.hashed_fields[1].base
        # only the extra token keeps its pattern field; it starts with the first channel chosen, and takes no step
        clear = Unit({Y: 1, ROLE: -held}, 0, {Y: -1})
        firsts = self.word_registers[:: self.n_channels]
        choose = Unit({ROLE: 1}, 0, {**dict.fromkeys(firsts, 1), X: self.half_window})
        yield Block((clear, choose), {}, "roles")
        yield from pattern_blocks(
            self.groups, self.choices, self._all_groups, [Y], 1, self.word_registers, None, [1] * self.n_limbs
        )
        base = self.hashed_fields[-1].base
        yield from window_blocks(base, self.step_bits, self.shard_rows, {ROLE: -base})

    def _digit_blocks(self) -> Iterator[Block]:
        """x into its centred digits J_i = d_i - h_i, and Σ J_i², which grows by 2(d - h) - 1 at each threshold d.

        The last digit d is what is left in x, and (d - h)² = h² + (1 - 2h)·d + 2·Σ_i ReLU(d - i) over i from 1.
        """
        weight = prod(self.radices)
        for register, radix, half in zip(self.digits, self.radices, self.halves, strict=True):
            weight //= radix
            adds = {register: -half, SQUARE: half**2}
            units: Sequence[Unit] = LazyUnits(2 * (radix - 1), partial(_digit_unit, register, half, weight))
            if register == X:
                units = [Unit({X: 1}, -i, {SQUARE: 2 if i else 1 - 2 * half}) for i in range(radix - 1)]
            elif register == self.digits[0]:
                units = [Unit({ROLE: 1}, 0, {ROLE: -1}), *units]
            yield Block(units, adds, "digit")

    def _table(self, words: Shaped[np.ndarray, "n_rows 2 n_channels"] | None) -> TableBlock:
        """Unit a: Γ·(1 - 2·Σ (J_i - a_i)²) + V[a]·φ in; words of Z[a] and the unit itself out.

        In the labelled token the unit that fires is Γ, so it clears square and digits too; the extra token needs its own no more.
        Squares are too long for short weights; there the square is cleared when the words are summed.
        """
        gate = self.gate
        numbers = self._typical_numbers() if words is None else self._numbers(words)
        digits, cleared, norms, biases, read, written = numbers
        return TableBlock(
            self.n_rows,
            {**digits, SQUARE: -2 * gate, **read},
            biases,
            {Y: 1, **({} if self.stored else {SQUARE: norms}), **cleared, **written},
            {X: 1, Y: -gate},
            "table",
        )

    def _typical_numbers(self) -> _TableNumbers:
        """Typical numbers in place of actual words, for counting: with the same bits, stored in the same way."""
        shift = self.gate.bit_length() - 1
        bits = max(self.halves).bit_length()
        digits: Column = typical(bits + 2 + shift)
        cleared: Column = typical_fraction(shift)
        biases: Column = typical(2 * bits + 1 + shift)
        if self.stored:
            biases = self.gate * (1 - 2 * sum(half**2 for half in self.halves))
        return _TableNumbers(
            dict.fromkeys(self.digits, digits),
            dict.fromkeys(self.digits, cleared),
            typical_fraction(shift),
            biases,
            dict.fromkeys(self.word_registers, typical(self.word_bits)),
            dict.fromkeys(self.word_registers, typical_fraction(shift - 2)),
        )

    def _numbers(self, words: Shaped[np.ndarray, "n_rows 2 n_channels"]) -> _TableNumbers:
        gate, shift = self.gate, self.gate.bit_length() - 1
        centred = self._centred_digits()
        sums = (centred * centred).sum(axis=1)
        read, written = words[:, 0], words[:, 1]
        if self.stored:
            read, written = split_limbs(read, self.n_limbs), split_limbs(written, self.n_limbs, unsigned=True)
        return _TableNumbers(
            dict(zip(self.digits, 4 * gate * centred.T, strict=True)),
            dict(zip(self.digits, _scale(-centred.T, shift), strict=True)),
            _scale(-sums, shift),
            gate * (1 - 2 * sums),
            dict(zip(self.word_registers, read.T, strict=True)),
            dict(zip(self.word_registers, _scale(WORD_SCALE * written.T, shift), strict=True)),
        )

    def _centred_digits(self) -> np.ndarray:
        rest, weight, columns = np.arange(self.n_rows), prod(self.radices), []
        for radix, half in zip(self.radices, self.halves, strict=True):
            weight //= radix
            columns.append(rest // weight - half)
            rest = rest % weight
        return self.widen(np.stack(columns, axis=1))


class _TableNumbers(NamedTuple):
    """The numbers of a table's units: weights that read and clear digits, norms of rows, biases, and words by register."""

    digits: dict[str, Column]
    cleared: dict[str, Column]
    norms: Column
    biases: Column
    read: dict[str, Column]
    written: dict[str, Column]


def split_limbs(
    words: Int[np.ndarray, "n_rows n_channels"], n_limbs: int, unsigned: bool = False
) -> Int[np.ndarray, "n_rows n_registers"]:
    """Each word as limbs n · 2^(8·limb) with -128 <= n < 128, side by side; all lowest limbs first.

    Words with a sign are their sum, less 2^(8·n_limbs) where the highest limb would be 128. Of words without a sign each limb is
    128 · 2^(8·limb) less than its true value.
    """
    half, found, rest = 1 << (LIMB_BITS - 1), [], words
    for limb in range(n_limbs):
        low = (rest if unsigned else rest + half) & (2 * half - 1)
        rest = (rest - low + (0 if unsigned else half)) >> LIMB_BITS
        found.append((low - half) << (LIMB_BITS * limb))
    return np.concatenate(found, axis=1)


def _digit_unit(register: str, half: int, weight: int, at: int) -> Unit:
    """Two units for each digit but 0."""
    digit = at // 2 + 1
    writes: dict[str, Number] = {X: -weight, register: 1, SQUARE: 2 * (digit - half) - 1}
    return threshold(X, digit * weight, writes)[at % 2]


def _scale(integers: np.ndarray, shift: int) -> np.ndarray:
    """`integers` over 2^shift, exactly."""
    if integers.dtype == object:
        return np.asarray(integers * Fraction(1, 1 << shift))
    return np.ldexp(integers.astype(np.float64), -shift)
