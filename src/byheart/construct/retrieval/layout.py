"""The layout: the numbers that determine the shape of a retrieval network.

Notation:
    K  planes: the bits of a word are divided into K planes of `field_bits` bits, and each key stores its label in one plane of the
       words that it reads. A word may have more bits after these planes; only keys with rare labels use them (see `label_code`)
    P  channels: a table row has P words, one in each channel
    G  groups of channels: a key selects at most one channel of each group. Its choices are called its pattern
    J  parts: if a label is too long for a word, its bits are divided into J parts in different words, which are all read in the
       same way. `field_bits` is then the number of bits of one part
    Q  rows of a table
    W  = 2^w, window: the number of rows among which the next row of a key is chosen. `windows` lists w for each step
    S  shards: ranges of Q/S rows. All rows of a key are in the same shard, so each shard can be solved by itself
    L  limbs: the pieces of 8 bits into which a word is split if weights are stored as int8 or bfloat16; see `dual_table`
    margins: rows at both edges of a shard. No key starts there; keys reach these rows only by steps

There are three kinds of layout, which share this module. In `chain.Chain` the labelled token reads several tables one after the
other. In `dual_table.DualTable` one table holds words in both of its weight matrices: an extra token reads the first matrix, and
the labelled token reads the second. In `part_tables.PartTables` there is such a table for each part.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Int, Shaped

from byheart.construct.retrieval.addresses import Addresses
from byheart.construct.retrieval.label_code import LabelField, RareFields, label_fields
from byheart.program.blocks import Step
from byheart.program.short_numbers import SHORT_BITS, short_at_least

EntranceKind = Literal["table", "grid", "real"]
ShortWeights = Literal["int8", "bfloat16"]
TokenFields = Int[np.ndarray, "n_samples seq_len n_fields"]
ExtraFields = Int[np.ndarray, " n_fields"]
LabelledFields = Int[np.ndarray, "n_samples n_labelled n_fields"]

ONE = "one"
"""A register that always holds 1. It is used if biases are too long for one weight."""

SLOTS = X, T, LABEL, Z = "x", "t", "label", "z"
"""The first registers of every layout. The register x holds the row and later the sum of words. The register t holds the power of
two at which a field (a range of bits) is read. The register label holds the label. The register z holds one number that encodes
both the steps between rows and the plane (the bit field that holds the label).
"""

NARROWING = 0.56
NARROW_FOLDS = 3
"""Constants for layouts in which all hashed fields of a token are computed from one number. Each reflection then shrinks the
range of a field to about NARROWING times its size, and there are NARROW_FOLDS more reflections before pooling than in other
layouts.
"""

LIMB_BITS = 8
"""Bits of a word that one stored weight holds, if weights are stored as int8 or bfloat16."""

_LEAST_WEIGHT = 6
"""The hash of a vector is a sum of its coordinates times random integers. On average, these integers are at least about this
large, so that they can differ from one another.
"""


@dataclass(frozen=True)
class Entrance:
    """How inputs enter the network.

    kind       "table": token ids through an embedding; "grid": vectors of integers; "real": other vectors, quantised first
    n_rows     rows of the embedding, including padding (0 for vectors)
    dim        coordinates of a vector (0 for ids)
    seq_len    tokens of a sequence
    ordered    whether the positions of tokens are part of the input
    pooling    "attention": the sum over all tokens is added to each token's own value; "sum": a single token holds the sum (task
               `set`)
    n_folds    reflections before pooling. Without them, the hash would be a sum of separate terms for tokens and for positions,
               or of separate terms for the coordinates
    spread     for vectors: the sum over the coordinates of (largest - smallest)
    n_varied   the number of tokens in which two sequences are assumed to differ
    least_fields
               the least number of hashed fields; with more fields, each needs fewer reflections
    n_bits     real vectors are quantised to `n_bits` bits in each of `n_projections` projections
    is_narrow  whether all hashed fields start as the same number. The embedding then has one column, and each field then
               reflects this number at places of its own, which makes the fields different
    """

    kind: EntranceKind
    n_rows: int
    dim: int
    seq_len: int
    ordered: bool
    pooling: Literal["attention", "sum"]
    n_folds: int
    spread: int = 0
    n_varied: int = 1
    n_bits: int = 0
    n_projections: int = 0
    least_fields: int = 2
    is_narrow: bool = False

    @property
    def sum_factor(self) -> int:
        """λ, the factor of the sum over all tokens when this sum is added to a token's own value.

        With λ = 2, the token's own value is counted an odd number of times and every other value an even number of times, which
        shows which token is the labelled one. If positions are part of the input, they show this already, and λ = 1 is enough.
        """
        return 1 if self.ordered or self.pooling == "sum" else 2


@dataclass(frozen=True)
class HashedField:
    """One number computed from the whole input. After the sum over the tokens (pooling) and reflections (folds), it is nearly
    uniform on [0, base).

    register    its register after pooling
    base        the number of its values after folding
    n_values    the number of values that one token can have before pooling, after its own reflections
    n_folds     reflections after pooling that bring the sum into [0, base)
    """

    register: str
    base: int
    n_values: int
    n_folds: int


@dataclass(frozen=True)
class RetrievalLayout:
    """The shape of one retrieval network. The terms are explained at the top of this module; see also `chain` and `dual_table`."""

    entrance: Entrance
    n_keys: int
    field_bits: int
    n_planes: int
    n_channels: int
    n_groups: int
    n_segments: int
    n_rows: int
    step_bits: int
    headroom_bits: int
    mantissa_bits: int
    reject_bits: int = 0
    n_parts: int = 1
    n_shards: int = 1
    rare_fields: RareFields = ()
    stored: ShortWeights | None = None
    n_limbs: int = 1
    group_bits: tuple[int, ...] = ()
    margin_rows: int = 0

    name: ClassVar[str]
    has_extra_token: ClassVar[bool]
    n_signed_segments: ClassVar[int] = 0

    @property
    @abstractmethod
    def slots(self) -> tuple[str, ...]:
        """The names of the first registers. The registers of the table's words come after them."""

    @property
    @abstractmethod
    def n_tokens(self) -> int:
        """The number of tokens in the attention layers."""

    @property
    def sum_factor(self) -> int:
        """λ, the factor by which pooling multiplies the sum of a hashed field over all tokens."""
        return self.entrance.sum_factor

    @property
    @abstractmethod
    def hashed_fields(self) -> tuple[HashedField, ...]:
        """The hashed fields. Together they hold the row, the choices of channels, the plane (a range of bits of each word) and the
        steps between rows. The kinds of layout divide these among the fields in different ways.
        """

    @property
    @abstractmethod
    def entry_registers(self) -> tuple[str, ...]:
        """The register of each hashed field before pooling."""

    @abstractmethod
    def pool(self, own: TokenFields, extra: ExtraFields, last_only: bool) -> LabelledFields:
        """Return the hashed fields of every labelled token after pooling, before they are reflected into their ranges [0, base)."""

    @abstractmethod
    def first_rows(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> Int[np.ndarray, " n_keys"]:
        """Return the first table row that each key reads. This row determines the key's shard (range of table rows)."""

    @abstractmethod
    def addresses(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> Addresses:
        """Extract each key's rows, channels and plane (bit field) from its hashed fields after all reflections, as the network
        does.
        """

    @abstractmethod
    def pooling_steps(self) -> Iterator[Step]:
        """Yield the steps (blocks and attention) that sum each hashed field over the tokens."""

    @abstractmethod
    def lookup_steps(self, words: Shaped[np.ndarray, " n_columns"] | None) -> Iterator[Step]:
        """Yield the steps that look up the words of a key. The steps start from the key's hashed fields, which are already folded
        into their ranges, and mask all words that the key does not use. Without `words`, the steps can be counted but not built.
        """

    @property
    @abstractmethod
    def is_exact(self) -> bool:
        """Whether floats compute exactly everything that the layout determines. The tables are checked later, after they are
        solved.
        """

    @property
    @abstractmethod
    def digit_fields(self) -> tuple[tuple[int, ...], ...]:
        """For each number that is split into digits, the base of each digit, starting with the highest digit."""

    @property
    @abstractmethod
    def n_addresses(self) -> float:
        """The number of different addresses that a key can have."""

    @cached_property
    def n_slots(self) -> int:
        """The number of registers that come before those of the words."""
        return len(self.slots)

    @cached_property
    def channels(self) -> tuple[str, ...]:
        """The registers into which the words of the first part of a label are read or, if words have limbs, their lowest limbs."""
        return self.word_registers[: self.n_channels]

    @cached_property
    def word_registers(self) -> tuple[str, ...]:
        """The registers into which words are read: first those for the first part of the label, then those for the next part, and
        so on.
        """
        return tuple(f"word {number}" for number in range(self.n_parts * self.n_limbs * self.n_channels))

    def part_registers(self, part: int) -> tuple[str, ...]:
        """Return the registers for the words of one part of the label: first one register for the lowest limb (piece) of each word,
        then one for the next limb of each word, and so on.
        """
        n_registers = self.n_limbs * self.n_channels
        return self.word_registers[part * n_registers :][:n_registers]

    @property
    def sum_offset(self) -> int:
        """The constant by which the sum of one part of a label, as the network computes it, exceeds WORD_SCALE (the factor by
        which tables store words) times the sum of the words that the key reads.
        """
        return 0

    @property
    def label_bits(self) -> int:
        """The number of bits of a label, over all parts, without the bits that detect unknown inputs. If the bits do not divide
        evenly into parts, this includes up to `n_parts` - 1 unused bits. Fields of rare labels are not counted.
        """
        return self.n_parts * self.field_bits - self.reject_bits

    @property
    def word_bits(self) -> int:
        """The number of bits of one word."""
        return self.label_fields[-1].stop

    @cached_property
    def label_fields(self) -> tuple[LabelField, ...]:
        """The kinds of fields of a word, from the lowest bits up: the kind that every label uses, then those of rarer labels."""
        return label_fields(self.field_bits, self.n_planes, self.rare_fields)

    @property
    def n_places(self) -> int:
        """The number of ways to choose one plane (bit field of a word) for each kind of field in `label_fields`."""
        return prod(field.n_planes for field in self.label_fields)

    @property
    def model_width(self) -> int:
        """m, the width of the residual stream."""
        return self.n_slots + self.n_parts * self.n_limbs * self.n_channels

    @property
    def shard_rows(self) -> int:
        """The number of rows of one shard."""
        return self.n_rows // self.n_shards

    @property
    def n_columns(self) -> int:
        """The number of words in all tables that store one part of the label. Each is a column of the linear systems to solve."""
        return self.n_segments * self.n_rows * self.n_channels

    @property
    def load(self) -> float:
        """The share of the tables that labels fill: the number of keys, divided by the number of planes in all words. Only the
        planes that every label uses are counted.
        """
        return self.n_keys / (self.n_planes * self.n_columns)

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """The number of channels of each group. The groups are as equal as possible.

        If weights are stored as int8 or bfloat16, the number of choices that a group offers (see `choices`) is a power of two.
        """
        if self.group_bits:
            return tuple((1 << bits) - (g > 0) for g, bits in enumerate(self.group_bits))
        return split_evenly(self.n_channels, self.n_groups)

    @cached_property
    def choices(self) -> tuple[int, ...]:
        """For each group, the number of choices that a key has: one for each channel and, except in the first group, one for no
        channel.
        """
        return tuple(size + (g > 0) for g, size in enumerate(self.groups))

    @property
    def reading_folds(self) -> tuple[int, ...]:
        """For each kind of field in a word, the number of reflections before a field of this kind is read. They remove all bits
        above the lowest field of this kind. A field is also called a plane.

        The highest kind is read first. Let X be the number whose bits are read (see `label_reader`). The number of reflections
        depends on an e with X < 2^e before them. For the highest kind, e = word_bits + headroom_bits + 2. For every other kind,
        e - 1 is the number of the lowest bit in the highest plane of the kind that was read before it.
        """
        found, exponent = [], self.word_bits + self.headroom_bits + 2
        for field in reversed(self.label_fields):
            found.append(exponent - field.start - field.n_bits - 1)
            exponent = field.stop - field.n_bits + 1
        return tuple(reversed(found))

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """For each step from one row of a key to the next, the number of bits that choose the length of the step.

        The `step_bits` are distributed evenly over the steps.
        """
        return split_evenly(self.step_bits, self.n_segments - 1)

    @property
    def n_ways(self) -> float:
        """About how many different sequences of rows a key with a given first row can read.

        Steps beyond the border of a shard are reflected, so some sequences coincide.
        """
        return prod(2.0**w / (1 + 2.0**w / (2 * self.shard_rows)) for w in self.windows)

    def make_field(self, register: str, base: int) -> HashedField:
        """Return a hashed field with B = `base` values. Before pooling, each token has one of R values. R is so large that the sum
        over the tokens, reflected into [0, B), is nearly uniform.

        Let n be `entrance.n_varied`. λ (`sum_factor`) times the sum of n uniform numbers on [0, R) has standard deviation
        λ·R·√(n/12). The density of a normal variable that is reflected into [0, B) differs from uniform by less than about
        2·exp(-π²/2 · (deviation/B)²). With R >= 4.95·B/(λ·√n) this is less than 10^-4. For n from 2 to 4 the sum is not normal,
        and the difference is larger: about 2% for n = 2. (The labelled token counts once more, which fills the gaps between
        multiples of λ.) For n = 1 the rule is R >= 6B: a number that is uniform on [0, 6B) stays uniform when it is reflected.
        """
        n = self.entrance.n_varied
        n_values = 6 * base if n == 1 else max(int(4.95 * base / (self.sum_factor * n**0.5)), base // 2) + 1
        n_values = max(n_values, int(_LEAST_WEIGHT * self.entrance.spread / 1.6**self.entrance.n_folds) + 1)
        n_values = self.round_up(n_values)  # the last reflection before pooling is here
        return self._fold_field(register, base, n_values)

    def _fold_field(self, register: str, base: int, n_values: int) -> HashedField:
        total = (n_values - 1) * self.sum_width + 1
        n_folds = 0
        while base << n_folds < total:
            n_folds += 1
        return HashedField(register, base, n_values, n_folds)

    def align_fields(self, *fields: HashedField) -> tuple[HashedField, ...]:
        """If a token's values in all fields are computed from one number, return the fields with one common `n_values`, which is
        large enough for each of them. Otherwise, return the fields unchanged.
        """
        if not self.entrance.is_narrow:
            return fields
        # each field keeps at least 0.8 of its values
        n_values = self.round_up(max(field.n_values for field in fields) * 5 // 4)
        return tuple(self._fold_field(field.register, field.base, n_values) for field in fields)

    def round_up(self, number: int) -> int:
        """Round up `number` to a number that a weight can hold."""
        return short_at_least(number) if self.stored == "bfloat16" else number

    @cached_property
    def n_entering_parts(self) -> int:
        """The number of weights that together store one input number: a token's value, or a coordinate's coefficient."""
        if self.stored != "bfloat16":
            return 1
        if self.entrance.is_narrow:
            largest = self.n_entering_values
        else:
            largest = max(field.n_values for field in self.hashed_fields) << self.entrance.n_folds
        return -(-largest.bit_length() // SHORT_BITS)

    @property
    def n_entering_values(self) -> int:
        """The number of values with which hashed fields can start. This is used only if all hashed fields of a token start with
        the same value (`entrance.is_narrow`).
        """
        return int(0.9 * self.hashed_fields[0].n_values / NARROWING**self.entrance.n_folds)

    @property
    def n_drawn_values(self) -> int:
        """The number of values that ordinary tokens may have. The value of a token is its own number plus the number of its
        position.

        The rest of the `n_entering_values` values is reserved for the extra token of a dual table, which needs only one. A
        bfloat16 weight cannot hold every integer, so with such weights several values are reserved, of which it can hold one.
        """
        n = self.n_entering_values
        return n - 1 - (n >> (SHORT_BITS - 1) if self.stored == "bfloat16" else 0)

    @property
    def has_numbers_for_tokens(self) -> bool:
        """Whether every token can have a number of its own, if half of the available numbers are kept for positions.

        The available numbers are limited only if all hashed fields of a token start as the same number. Otherwise, the result is
        always true.
        """
        return not self.entrance.is_narrow or (self.n_drawn_values + 1) // 2 >= self.entrance.n_rows

    @property
    def sum_width(self) -> int:
        """The largest possible value of a hashed field after pooling (the sum over the tokens), divided by its largest possible
        value for one token.
        """
        if self.n_tokens == 1:
            return 1
        if self.entrance.pooling == "sum":
            return self.n_tokens
        return 1 + self.sum_factor * self.n_tokens

    @property
    def largest_shard_sum(self) -> int:
        """An upper bound on every partial sum of the layer that splits a row number into a shard and a row within the shard.

        With Q rows and S shards, the sum has S - 1 ReLU ramps of each sign. Each ramp is at most Q and has the factor Q/S.
        """
        return self.n_rows**2 if self.n_shards > 1 else 1

    @property
    def shard_unit(self) -> int:
        """The largest power of two that divides both the number of rows of a shard and the number of those that can be a key's
        first row. It divides every product in the sum that `largest_shard_sum` bounds, but not always the number of margin rows,
        which is added to this sum.
        """
        rows = self.shard_rows | self.n_first_rows // self.n_shards
        return rows & -rows if self.n_shards > 1 else 1

    @property
    def n_first_rows(self) -> int:
        """The number of rows that can be a key's first row."""
        return self.n_rows

    def round_rows(self, rows: int) -> int:
        """Round up `rows` (of a shard) to a number that a weight can hold and whose multiples can be subtracted exactly."""
        rows = self.round_up(rows)
        if self.n_shards == 1:
            return rows
        spare = self.bits_below_shard_rows(rows)
        return self.round_up(-(-rows >> spare) << spare)

    def bits_below_shard_rows(self, rows: int) -> int:
        """Return k such that floats subtract multiples of a shard's number of rows exactly if this number is a multiple of 2^k.

        The number of rows is about `rows`.
        """
        return max(0, 2 * (self.n_shards * rows).bit_length() - self.mantissa_bits)

    def has_exact_digits(self, choices: tuple[int, ...]) -> bool:
        """Whether digits with these bases can be extracted from a number exactly."""
        return self.fits(largest_digit_sum(choices))

    def fits(self, largest: int) -> bool:
        """Whether integers up to `largest` fit into the mantissa."""
        return (largest - 1).bit_length() <= self.mantissa_bits

    def has_exact_pooling(self, field: HashedField) -> bool:
        """Whether floats compute a field exactly up to and including pooling (the sum over the tokens).

        The reflections before pooling compute with multiples of 1/2. Attention computes a mean over the n tokens, so the weights
        multiply every value by n · `sum_factor` to give a sum. Factors of two in n · `sum_factor` need no mantissa bits.
        """
        before = field.n_values << (self.entrance.n_folds + 1)
        summed = 2 * self.sum_width * field.n_values
        weighed = odd_part(self.n_tokens * self.sum_factor) * self.n_tokens * field.n_values
        return self.fits(max(before, summed, weighed))

    def widen(self, integers: np.ndarray) -> np.ndarray:
        """Convert integers to a type in which no weight of this layout overflows."""
        return integers.astype(np.int64 if self.mantissa_bits <= 53 else object)


def split_evenly(total: int, n_parts: int) -> tuple[int, ...]:
    """Split `total` into `n_parts` integers that differ by at most one, the larger first."""
    small, extra = divmod(total, n_parts)
    return tuple(small + (part < extra) for part in range(n_parts))


def largest_digit_sum(choices: tuple[int, ...]) -> int:
    """Return a bound on the partial sums when digits with these bases are extracted from a number.

    A digit with base c and place value H is removed by one layer, with c - 1 pairs of terms -H·r and H·r' for ReLU ramps r and r'.
    The ramps are largest if all digits are: then they are H, 2H, ..., (c - 1)H, so terms of one sign add up to at most
    H²·c(c - 1)/2. The result is in units of the largest power of two that divides H, which divides all terms.
    """
    weight = base = prod(choices)
    largest = 0
    for choice in choices:
        weight //= choice
        largest = max(largest, odd_part(weight) * max(2 * base, weight * choice * (choice - 1) // 2))
    return largest


def odd_part(number: int) -> int:
    """Return `number` without its factors of two."""
    return number // (number & -number)
