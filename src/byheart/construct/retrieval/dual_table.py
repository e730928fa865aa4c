"""The dual table: a feed-forward layer that stores words in both of its weight matrices. Two tokens read it at once.

Row a is one hidden unit. Its input weights hold the words V[a], its output weights the words Z[a]. The hash of the input gives
two tokens a row and a pattern each: the labelled token, and an extra token that is put before every input. A pattern φ is 1 for
each channel that the token selects, else 0. The extra token has its pattern in the word registers, so the unit of its row has
the value Γ + V[a]·φ, and every other unit is 0. Γ is a constant, and |V[a]·φ| <= Γ. The labelled token has zeros in these
registers, so the unit of its row is exactly Γ, and this unit adds Z[a] to the word registers. In a second attention layer every
token reads the first token, which is the extra one, and this adds V·φ to the labelled token. The labelled token then adds the
words of Z that its own pattern selects. Because the input weights store words too, this is the smaller layout for large data
sets.

Registers, each with what it holds over time: x holds the row number, then its last digit; the other digits have registers of their
own. The role register holds 1 for the extra token and 0 for all others, then Σ J_i² for the digits J_i of the row. y holds the
pattern of the extra token, then V·φ, then the label. z holds one number that encodes three things: the step from the extra token's
row to the labelled token's row, the pattern of the labelled token, and the plane (the range of bits of a word that holds the
label). If this number would be too long, the pattern of the labelled token has its own register. The word registers hold the hashed
fields of the input, then the words.

In floats: unit a of the table is ReLU(Γ·(1 - 2·Σ_i (J_i - a_i)²) + V[a]·φ) with |V[a]·φ| <= Γ, so for wrong rows the argument is at
most -Γ + Γ = 0. The digits J_i are centred, |J_i| <= h_i, so no partial sum exceeds (8·Σ h_i² + 2)·Γ. The words V are signed:
2^word_bits is subtracted from a word of 2^(word_bits - 1) or more before it is stored. This changes none of the bits that are read,
and halves Γ.

Short weights: a weight stored as int8 or bfloat16 is an 8-bit integer times a power of two, which is the same for a whole
channel. A word of up to 8 bits is one input or output weight. A longer word consists of several limbs (pieces of 8 bits). Their
channels have powers of two whose exponents differ by 8, and every pattern selects all of these channels or none. All other
weights are powers of two or short. This requires powers of two for the number of choices that a token has in each group of
channels, and for the bases of all digits but the highest.
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
from byheart.program.lazy_units import Joined, LazyUnits
from byheart.program.short_numbers import SHORT_BITS, short_parts

SQUARE, Y = T, LABEL
ROLE, PATTERN = T, "pattern"
"""The names of two registers.

The register ROLE first holds 1 for the extra token (a token that is added to every input) and 0 for all other tokens. Later, when
the row number has been split into digits, it holds the sum of the squares of the centred digits. The register PATTERN holds the
labelled token's pattern (its choice of channels). It is used only if the pattern has a hashed field of its own (see
`DualTable.shares_window`).
"""


@dataclass(frozen=True)
class DualTable(RetrievalLayout):
    """A layout with two segments of words in one table: the input and the output weights of its hidden units. A row number has
    `n_digits` digits.
    """

    n_digits: int = 3

    name = "dual table"
    has_extra_token = True
    n_signed_segments = 1

    @cached_property
    def digits(self) -> tuple[str, ...]:
        """The registers of the digits of a row number. The last digit is in the register x, which first holds the entire number."""
        return (*(f"digit {number}" for number in range(self.n_digits - 1)), X)

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The registers that come before those of the words.

        They are x, the role, y and z (the start of this module says what each holds), and a register for each digit of the row
        number except the last. The labelled token's pattern (its choice of channels) may have its own register. With bfloat16
        weights, one more register always holds 1.
        """
        constant = (ONE,) if self.stored == "bfloat16" else ()
        return (X, SQUARE, Y, Z, *self.digits[:-1], *(() if self.shares_window else (PATTERN,)), *constant)

    @property
    def n_tokens(self) -> int:
        """The number of tokens: those of the sequence, and the extra token."""
        return self.entrance.seq_len + 1

    @property
    def sum_factor(self) -> int:
        """λ, the factor by which pooling multiplies the sum of a hashed field over all tokens.

        λ is 1, because the sum need not give the labelled token a special weight: the token's pattern (its choice of channels)
        distinguishes it from the other tokens.
        """
        return 1

    @property
    def keeps_own(self) -> bool:
        """Whether pooling adds the labelled token's own value once more, so that the result depends on which token is labelled.

        This is not needed with positions, which already have this effect, or for the task `set`, where no token is labelled.
        """
        return not self.entrance.ordered and self.entrance.pooling == "attention"

    @property
    def own_field(self) -> int:
        """The index of the hashed field for the labelled token's pattern (its choice of channels).

        If `keeps_own`, pooling adds the labelled token's own value once more to this field, and to no other field.
        """
        return 2

    @property
    def sum_width(self) -> int:
        """The largest possible value of a hashed field after pooling, divided by its largest possible value for one token."""
        return self.n_tokens + self.keeps_own

    @cached_property
    def shares_window(self) -> bool:
        """Whether a single hashed field holds three things: the labelled token's pattern (its choice of channels), the plane (the
        bit field of a word), and the step to the second row.
        """
        if self.entrance.least_fields > 3:
            return False
        field = self.make_field(Z, prod(self.choices) * self.n_places << self.step_bits)
        return self.has_exact_digits(self._window_digits(self.choices)) and self.has_exact_pooling(field)

    def _window_digits(self, between: tuple[int, ...]) -> tuple[int, ...]:
        return (2,) * self.step_bits + between + (self.n_places,)

    @property
    def pattern_register(self) -> str:
        """The register that holds the labelled token's pattern (its choice of channels)."""
        return Z if self.shares_window else PATTERN

    @cached_property
    def hashed_fields(self) -> tuple[HashedField, ...]:
        """The hashed fields, in this order: the row, the pattern (choice of channels) of the extra token, the pattern of the
        labelled token, and a number that encodes both the step between rows and the plane (bit field).

        If `shares_window`, the third field holds this number too, and there is no fourth field.
        """
        base, later = prod(self.choices), self.n_places << self.step_bits
        row, pattern = self.make_field(X, self.n_first_rows), self.make_field(Y, base)
        if self.shares_window:
            return self.align_fields(row, pattern, self.make_field(Z, base * later))
        return self.align_fields(row, pattern, self.make_field(PATTERN, base), self.make_field(Z, later))

    @property
    def entry_registers(self) -> tuple[str, ...]:
        """The registers of the hashed fields before pooling. Later they hold words of the table."""
        return self.word_registers[: len(self.hashed_fields)]

    @cached_property
    def radices(self) -> tuple[int, ...]:
        """The base of each digit of a row number, starting with the highest digit."""
        near = max(1, int(self.n_rows ** (1 / self.n_digits)) - 1)  # the float root may be one too large
        low = next(b for b in count(near) if b**self.n_digits >= self.n_rows)
        n_low = self.n_digits - 1
        # digits of short weights need powers of two; take the one below or above that needs fewer units
        if self.stored:
            below = 1 << (low.bit_length() - 1)
            low = min(below, 2 * below, key=lambda b: -(-self.n_rows // b**n_low) + n_low * b)
        return (-(-self.n_rows // low**n_low), *(low,) * n_low)

    @property
    def half_window(self) -> int:
        """Half of 2^step_bits, rounded down. It is subtracted from the `step_bits`-bit number of a step, so that steps go in both
        directions.
        """
        return (1 << self.step_bits) // 2

    @property
    def gate(self) -> int:
        """Γ, an upper bound on the absolute value of the sum of the words that a token selects in the input weights of the table.

        If words fill several limbs (8-bit pieces) completely, the absolute value of a word may slightly exceed half of 2^word_bits.
        The bound allows for this.
        """
        largest = self.n_groups << (self.word_bits - 1)
        if self.n_limbs > 1 and self.word_bits == self.n_limbs * LIMB_BITS:
            largest += self.n_groups << (self.word_bits - LIMB_BITS)
        return 1 << (largest - 1).bit_length()

    @property
    def largest_gate_sum(self) -> int:
        """An upper bound on every partial sum that occurs when the input of a hidden unit of the table is added up."""
        return (8 * sum(half**2 for half in self.halves) + 2) * self.gate

    @cached_property
    def halves(self) -> tuple[int, ...]:
        """The number subtracted from each digit to centre it: half of the digit's base, rounded down. If weights are bfloat16, it
        is then rounded up to a number with at most 4 significant bits.
        """
        found = [radix // 2 for radix in self.radices]
        if self.stored == "bfloat16":  # so that their squares have 8 bits
            spare = [max(0, half.bit_length() - SHORT_BITS // 2) for half in found]
            found = [-(-half >> bits) << bits for half, bits in zip(found, spare, strict=True)]
        return tuple(found)

    @cached_property
    def digit_fields(self) -> tuple[tuple[int, ...], ...]:
        """The bases of the digits of three numbers that the network splits into digits. Each tuple starts with the highest digit.

        The numbers are a token's pattern (its choice of channels), the last hashed field, and the row number.
        """
        between = self.choices if self.shares_window else ()
        return (self.choices, self._window_digits(between), self.radices)

    @property
    def is_exact(self) -> bool:
        """Whether floats compute every step exactly: digits, the sums in the table's units, pooling, and the reading of bits."""
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
        """The number of different addresses: combinations of rows, steps between rows, planes (bit fields of a word) and two
        independent patterns (choices of channels).
        """
        return self.n_first_rows * self.n_ways * self.n_planes * float(prod(self.choices)) ** 2

    def pool(
        self, own: common.TokenFields, extra: common.ExtraFields, last_only: bool
    ) -> common.LabelledFields:
        """Return the sums of the hashed fields over all tokens.

        If `keeps_own`, the field of the labelled token's pattern (its choice of channels) counts that token's own value twice.
        """
        kept = own[:, -1:] if last_only else own
        total = np.broadcast_to(own.sum(axis=1, keepdims=True) + extra, kept.shape).copy()
        if self.keeps_own:
            total[:, :, self.own_field] += kept[:, :, self.own_field]
        return total

    def first_rows(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> Int[np.ndarray, " n_keys"]:
        """Return the table row at which each key starts. No key starts in a margin (the rows at an edge of a shard). The first
        field of a key is therefore an index among the rows outside the margins.
        """
        shards = fields[:, 0] // (self.n_first_rows // self.n_shards)
        return np.asarray(fields[:, 0] + self.margin_rows * (2 * shards + 1))

    @property
    def n_first_rows(self) -> int:
        """The number of rows that can be a key's first row: all rows outside the margins (the rows at the edges of a shard)."""
        return self.n_rows - 2 * self.margin_rows * self.n_shards

    def addresses(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> Addresses:
        """Extract each key's rows, channels and plane (bit field) from its hashed fields, as the network does."""
        rest, places = np.divmod(fields[:, -1], self.n_places)
        step = rest // prod(self.choices) if self.shares_window else rest
        first = self.first_rows(fields)
        rows = np.stack([first, step_rows(first, step - self.half_window, self.shard_rows)], axis=1)
        both = [pack_bits(bits) for bits in self.channel_bits(fields)]
        return Addresses(rows, np.stack(both, axis=1), planes_of(self.label_fields, places))

    def channel_bits(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> list[np.ndarray]:
        """Return two arrays with one bit for each key and channel. The first array says whether the extra token (one that is added
        to every sequence) selects the channel, the second whether the labelled token selects it.
        """
        patterns = ChannelPatterns(self.groups, self.choices)
        own = fields[:, self.own_field]
        if self.shares_window:
            own = own // self.n_places % prod(self.choices)
        return [patterns.bits(each, range(self.n_groups)) for each in (fields[:, 1], own)]

    def pooling_steps(self) -> Iterator[Step]:
        """Yield the steps that sum each hashed field over the tokens. The sums get registers of their own, and the registers that
        held the fields of single tokens are cleared.
        """
        values = [{register: 1} for register in self.entry_registers]
        factors: list[Number] = [self.n_tokens]
        if self.stored == "bfloat16":
            factors = [part for part in short_parts(self.n_tokens, 2) if part]
        outputs = [{field.register: each} for each in factors for field in self.hashed_fields]
        yield RegisterAttention((RegisterHead(values * len(factors), outputs),))
        units = []
        for number, register in enumerate(self.entry_registers):
            writes: dict[str, Number] = {register: -1}
            if number == self.own_field and self.keeps_own:
                writes[self.hashed_fields[number].register] = 1
            units.append(Unit({register: 1}, 0, writes))
        yield Block(units, {}, "move")

    def lookup_steps(self, words: Shaped[np.ndarray, " n_columns"] | None) -> Iterator[Step]:
        """Yield the steps of the lookup. Each token gets its row and its pattern (choice of channels), and reads the table. Then
        the labelled token fetches what the extra token (one that is added to every sequence) has read, and masks the channels that
        its own pattern does not choose.
        """
        yield from within_shards(
            self._pattern_and_step(), self.n_shards, self.shard_rows, self.digits[0], self.margin_rows
        )
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
        """For each limb (8-bit piece) of a word in the output weights, the constant to add to its register, because stored weights
        are signed but these words are unsigned.
        """
        return [
            WORD_SCALE << (LIMB_BITS * (limb + 1) - 1) if self.stored else 0 for limb in range(self.n_limbs)
        ]

    @property
    def _limb_masks(self) -> list[int]:
        """For each limb (8-bit piece) of a word, the amount that is subtracted if a token does not select the word's channel. No
        such limb exceeds this power of two, so the result is not positive, and a ReLU turns it into 0.

        The amount is at least the place value of the limb, even if words are so short that the limb is always 0. For this reason,
        the limb's entry of `_limb_offsets` minus this amount has at most 8 bits, so a bfloat16 weight can hold the difference.
        """
        if not self.stored:
            return [WORD_SCALE << self.word_bits]
        starts = [LIMB_BITS * limb for limb in range(self.n_limbs)]
        return [WORD_SCALE << max(start, min(self.word_bits, start + LIMB_BITS)) for start in starts]

    @property
    def _all_groups(self) -> tuple[tuple[int, ...]]:
        return (tuple(range(self.n_groups)),)

    def _pattern_and_step(self) -> Iterator[Block]:
        held = self.hashed_fields[1].base
        # only the extra token keeps its pattern field; for it the first channel is selected, and its row takes no step
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
        """Convert the row number x into its digits d_i, centred as J_i = d_i - h_i (h_i are the `halves`), and compute Σ J_i².
        When a digit rises from d - 1 to d, the sum grows by 2(d - h) - 1.

        The last digit d remains in x. Its contribution is (d - h)² = h² + (1 - 2h)·d + 2·Σ_i ReLU(d - i) with i starting at 1.
        """
        weight = prod(self.radices)
        for register, radix, half in zip(self.digits, self.radices, self.halves, strict=True):
            weight //= radix
            adds = {register: -half, SQUARE: half**2}
            units: Sequence[Unit] = LazyUnits(2 * (radix - 1), partial(_digit_unit, register, half, weight))
            if register == X:
                units = LazyUnits(radix - 1, partial(_last_digit_unit, half))
            elif register == self.digits[0]:
                units = Joined([Unit({ROLE: 1}, 0, {ROLE: -1})], units)
            yield Block(units, adds, "digit")

    def _table(self, words: Shaped[np.ndarray, "n_rows 2 n_channels"] | None) -> TableBlock:
        """Build the table. Unit a has the value ReLU(Γ·(1 - 2·Σ (J_i - a_i)²) + V[a]·φ). It adds this value to the register y,
        from which the block also subtracts Γ, and the words Z[a] to the word registers. J_i and a_i are the centred digits of the
        token's row and of row a, φ is the pattern of the extra token, V and Z are `words`, and the constant Γ is `gate`.

        In the labelled token, the value of the unit that fires is always Γ. Its output weights can therefore also clear the
        digits and the sum of their squares. (The digits of the extra token need not be cleared.) Short weights cannot hold this
        sum of squares. With them, the block that sums the words clears it later.
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
        """Return placeholders for the numbers of the table, with as many bits as the actual numbers, so that its size can be
        counted.
        """
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
    """The weights of a table's hidden units.

    digits   input weights that read the digits of a row number
    cleared  output weights that clear these digits
    norms    output weights that clear the sum of the squares of the digits
    biases   biases of the units
    read     words in the input weights
    written  words in the output weights
    """

    digits: dict[str, Column]
    cleared: dict[str, Column]
    norms: Column
    biases: Column
    read: dict[str, Column]
    written: dict[str, Column]


def split_limbs(
    words: Int[np.ndarray, "n_rows n_channels"], n_limbs: int, unsigned: bool = False
) -> Int[np.ndarray, "n_rows n_registers"]:
    """Split each word into limbs (8-bit pieces). Limb i is stored as n · 2^(8·i) with -128 <= n < 128.

    The result has the lowest limbs of all words first, then the next limbs of all words, and so on.

    The stored limbs of a signed word add up to the word. There is one exception: if n would be 128 in the highest limb, it is
    -128 instead, and the sum is smaller than the word by 2^(8·n_limbs). For unsigned words, bits 8·i to 8·i + 7 hold a number
    from 0 to 255, and n is this number minus 128.
    """
    half, found, rest = 1 << (LIMB_BITS - 1), [], words
    for limb in range(n_limbs):
        low = (rest if unsigned else rest + half) & (2 * half - 1)
        rest = (rest - low + (0 if unsigned else half)) >> LIMB_BITS
        found.append((low - half) << (LIMB_BITS * limb))
    return np.concatenate(found, axis=1)


def _digit_unit(register: str, half: int, weight: int, at: int) -> Unit:
    """Return hidden unit number `at` of the block that extracts one digit from the number in register x.

    Each value d > 0 of the digit has two units, which form a threshold. If the number is at least d times the digit's place value
    `weight`, they add 1 to the digit and subtract `weight` from the number. They also update the sum of the squared digits.
    """
    digit = at // 2 + 1
    writes: dict[str, Number] = {X: -weight, register: 1, SQUARE: 2 * (digit - half) - 1}
    return threshold(X, digit * weight, writes)[at % 2]


def _last_digit_unit(half: int, at: int) -> Unit:
    return Unit({X: 1}, -at, {SQUARE: 2 if at else 1 - 2 * half})


def _scale(integers: np.ndarray, shift: int) -> np.ndarray:
    """Return `integers` divided by 2^shift, without rounding."""
    if integers.dtype == object:
        return np.asarray(integers * Fraction(1, 1 << shift))
    return np.ldexp(integers.astype(np.float64), -shift)
