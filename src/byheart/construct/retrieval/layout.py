"""The layout: every number that fixes the shape of a retrieval network.

Notation:
    K  planes: each key owns `field_bits` bits of one plane of every word it touches; a word has K · field_bits bits, and
       those of the fields that only keys with rare labels use (see `label_code`)
    P  channels: words in one table row          G  groups the channels are dealt into; a key picks at most one of each
    J  parts: where a field is too long for a word, its bits are distributed over J words that are read in the same way;
    `field_bits` counts one part Q  rows of a table                           W = 2^w, w from `windows`: how far the next row of a
    key may be from its last S  shards: ranges of Q/S rows that no key leaves, so that each can be solved without the others L
    limbs: stored weights of 8 bits that make up one word, where weights are stored so short; see `dual_table`

Two kinds share what is here. In `chain.Chain` the labelled token reads several tables one after the other. In
`dual_table.DualTable` one table holds words in both of its weight matrices: an extra token reads the first, the labelled token
the second.
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
"""A register that always holds 1, where biases are too long for one weight."""

SLOTS = X, T, LABEL, Z = "x", "t", "label", "z"
"""The first registers of every layout: the row and later the sum of words; the place of the field; the label; and the number that
keeps window and plane."""

NARROWING = 0.56
NARROW_FOLDS = 3
"""Where fields begin as one number, each reflection leaves about so much of its range, and there are so many reflections more."""

LIMB_BITS = 8
"""Bits of a word that one stored weight holds, where weights are stored as int8 or bfloat16."""

_LEAST_WEIGHT = 6
"""Coordinates of vectors are weighted by whole numbers of about this size at least, so that the weights can differ."""


@dataclass(frozen=True)
class Entrance:
    """How inputs enter.

    kind       "table": token ids through an embedding; "grid": vectors of whole numbers; "real": others, quantised first
    n_rows     rows of the embedding, padding included (0 for vectors)
    dim        coordinates of a vector (0 for ids)
    seq_len    tokens of a sequence
    ordered    whether positions enter
    pooling    "attention": each token keeps itself and gets the sum; "sum": one token, the sum (task `set`)
    n_folds    reflections before pooling: what makes position and token, or the coordinates, inseparable
    spread     Σ over the coordinates of (largest - smallest), for vectors
    n_varied   how many tokens can be relied on to differ between sequences
    least_fields
               hashed fields there are at least; the more, the fewer reflections each needs
    n_bits     bits that real vectors are quantised to, in each of `n_projections` projections
    is_narrow  whether all hashed fields begin as one number: the embedding then has one column, and it is their reflections, at
               different places, that make them differ
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
        """λ in own + λ·Σ. λ = 2 distinguishes the last token from the others; with positions 1 is enough."""
        return 1 if self.ordered or self.pooling == "sum" else 2


@dataclass(frozen=True)
class HashedField:
    """One number computed from the whole input, uniform on [0, base) after pooling and folding.

    register    where it lives after pooling
    base        number of values in the end
    n_values    number of values of one token before pooling, after its folds
    n_folds     reflections after pooling that bring the sum into [0, base)
    """

    register: str
    base: int
    n_values: int
    n_folds: int


@dataclass(frozen=True)
class RetrievalLayout:
    """The shape of one retrieval network; see `chain` and `dual_table`."""

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

    name: ClassVar[str]
    has_extra_token: ClassVar[bool]
    n_signed_segments: ClassVar[int] = 0

    @property
    @abstractmethod
    def slots(self) -> tuple[str, ...]:
        """Registers before the words."""

    @property
    @abstractmethod
    def n_tokens(self) -> int:
        """Tokens that attention sees."""

    @property
    def sum_factor(self) -> int:
        """λ of the pooling."""
        return self.entrance.sum_factor

    @property
    @abstractmethod
    def hashed_fields(self) -> tuple[HashedField, ...]:
        """The row, the patterns, and windows with plane."""

    @property
    @abstractmethod
    def entry_registers(self) -> tuple[str, ...]:
        """The register each hashed field is in before pooling."""

    @abstractmethod
    def pool(self, own: TokenFields, extra: ExtraFields, last_only: bool) -> LabelledFields:
        """The fields of every labelled token after pooling, before they are folded."""

    @abstractmethod
    def first_rows(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> Int[np.ndarray, " n_keys"]:
        """The first row of each key: what decides its shard."""

    @abstractmethod
    def addresses(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> Addresses:
        """Rows, patterns and plane of each key, as the network reads them off its folded fields."""

    @abstractmethod
    def pooling_steps(self) -> Iterator[Step]:
        """What sums the fields over the tokens."""

    @abstractmethod
    def lookup_steps(self, words: Shaped[np.ndarray, " n_columns"] | None) -> Iterator[Step]:
        """From the folded fields to the masked words of a key; typical words, only to be counted, where none are given."""

    @property
    @abstractmethod
    def is_exact(self) -> bool:
        """Whether every number that the layout fixes is exact in floats; the tables are checked once they are solved."""

    @property
    @abstractmethod
    def digit_fields(self) -> tuple[tuple[int, ...], ...]:
        """Outcomes of the digits of each number that is taken apart, the first digit first."""

    @property
    @abstractmethod
    def n_addresses(self) -> float:
        """How many different addresses there are."""

    @cached_property
    def n_slots(self) -> int:
        """Registers before the words."""
        return len(self.slots)

    @cached_property
    def channels(self) -> tuple[str, ...]:
        """The registers that words of the first part are read into."""
        return self.word_registers[: self.n_channels]

    @cached_property
    def word_registers(self) -> tuple[str, ...]:
        """The registers that words are read into, part after part."""
        return tuple(f"word {number}" for number in range(self.n_parts * self.n_limbs * self.n_channels))

    def part_registers(self, part: int) -> tuple[str, ...]:
        """The registers that words of one part are read into, limb after limb."""
        n_registers = self.n_limbs * self.n_channels
        return self.word_registers[part * n_registers :][:n_registers]

    @property
    def label_bits(self) -> int:
        """Bits of the whole field below the reject bits: the label, and one that is left over where the parts are longer."""
        return self.n_parts * self.field_bits - self.reject_bits

    @property
    def word_bits(self) -> int:
        """Payload bits of one word."""
        return self.label_fields[-1].stop

    @cached_property
    def label_fields(self) -> tuple[LabelField, ...]:
        """The kinds of fields of a word, from the lowest bits up: the kind of all labels, then those of rarer labels."""
        return label_fields(self.field_bits, self.n_planes, self.rare_fields)

    @property
    def n_places(self) -> int:
        """Ways to choose a plane of every kind."""
        return prod(field.n_planes for field in self.label_fields)

    @property
    def model_width(self) -> int:
        """m, the width of the residual stream."""
        return self.n_slots + self.n_parts * self.n_limbs * self.n_channels

    @property
    def shard_rows(self) -> int:
        """Rows of one shard."""
        return self.n_rows // self.n_shards

    @property
    def n_columns(self) -> int:
        """Words of one part in all tables."""
        return self.n_segments * self.n_rows * self.n_channels

    @property
    def load(self) -> float:
        """Share of the table bits that carry labels."""
        return self.n_keys / (self.n_planes * self.n_columns)

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """Number of channels of each group, as even as possible; where weights are short, such that all choices are powers of
        two.
        """
        if self.group_bits:
            return tuple((1 << bits) - (g > 0) for g, bits in enumerate(self.group_bits))
        return split_evenly(self.n_channels, self.n_groups)

    @cached_property
    def choices(self) -> tuple[int, ...]:
        """Outcomes of each group's digit: one of its channels, or none. The first group always takes one."""
        return tuple(size + (g > 0) for g, size in enumerate(self.groups))

    @property
    def reading_folds(self) -> tuple[int, ...]:
        """For each kind of field, the reflections that remove every bit above its lowest plane; the highest kind is read first.

        X < 2^e before, with e = word_bits + headroom_bits + 2 at first and (start of the highest plane) + 1 behind another kind.
        """
        found, exponent = [], self.word_bits + self.headroom_bits + 2
        for field in reversed(self.label_fields):
            found.append(exponent - field.start - field.n_bits - 1)
            exponent = field.stop - field.n_bits + 1
        return tuple(reversed(found))

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """w of each step from one row of a key to its next: `step_bits` distributed as evenly as possible."""
        return split_evenly(self.step_bits, self.n_segments - 1)

    @property
    def n_ways(self) -> float:
        """Number of different rows after a first row; steps beyond a border are reflected onto other rows."""
        return prod(2.0**w / (1 + 2.0**w / (2 * self.shard_rows)) for w in self.windows)

    def make_field(self, register: str, base: int) -> HashedField:
        """The field with `base` outcomes: how wide a token's part must be so that the folded sum is uniform.

        λ times the sum of n uniform numbers on [0, R) has deviation λ·R·√(n/12). Reflected into [0, B) its density differs from
        uniform by less than 2·exp(-π²/2 · (deviation/B)²); R >= 4.95·B/(λ·√n) makes that below 10^-4. (The labelled token, which
        counts once more, fills the gaps between multiples of λ.) A single one on [0, 6B) is uniform after reflection.
        """
        n = self.entrance.n_varied
        n_values = 6 * base if n == 1 else max(int(4.95 * base / (self.sum_factor * n**0.5)), base // 2) + 1
        n_values = max(n_values, int(_LEAST_WEIGHT * self.entrance.spread / 1.6**self.entrance.n_folds) + 1)
        n_values = self.round_up(n_values)  # where the last reflection before pooling is
        return self._fold_field(register, base, n_values)

    def _fold_field(self, register: str, base: int, n_values: int) -> HashedField:
        total = (n_values - 1) * self.sum_width + 1
        n_folds = 0
        while base << n_folds < total:
            n_folds += 1
        return HashedField(register, base, n_values, n_folds)

    def align_fields(self, *fields: HashedField) -> tuple[HashedField, ...]:
        """The fields; where they all begin as one number, each gets as many values before pooling as the largest has."""
        if not self.entrance.is_narrow:
            return fields
        n_values = self.round_up(
            max(field.n_values for field in fields) * 5 // 4
        )  # each field keeps 0.8 at least
        return tuple(self._fold_field(field.register, field.base, n_values) for field in fields)

    def round_up(self, number: int) -> int:
        """A number that a weight can hold, not below this one."""
        return short_at_least(number) if self.stored == "bfloat16" else number

    @cached_property
    def n_entering_parts(self) -> int:
        """Weights that make up one number of the entrance: a value of a token, or a coefficient of a coordinate."""
        if self.stored != "bfloat16":
            return 1
        if self.entrance.is_narrow:
            largest = self.n_entering_values
        else:
            largest = max(field.n_values for field in self.hashed_fields) << self.entrance.n_folds
        return -(-largest.bit_length() // SHORT_BITS)

    @property
    def n_entering_values(self) -> int:
        """Values of a token before its reflections where all fields begin as one number."""
        return int(0.9 * self.hashed_fields[0].n_values / NARROWING**self.entrance.n_folds)

    @property
    def has_numbers_for_tokens(self) -> bool:
        """Whether every token can have its own number, where half of the range is for positions."""
        return not self.entrance.is_narrow or self.n_entering_values // 2 >= self.entrance.n_rows

    @property
    def sum_width(self) -> int:
        """Largest pooled value over largest value of a token."""
        if self.n_tokens == 1:
            return 1
        if self.entrance.pooling == "sum":
            return self.n_tokens
        return 1 + self.sum_factor * self.n_tokens

    @property
    def largest_shard_sum(self) -> int:
        """No partial sum exceeds this where the shard is taken off a row: S - 1 ramps, each at most Q, times Q/S."""
        return self.n_rows**2 if self.n_shards > 1 else 1

    @property
    def shard_unit(self) -> int:
        """All those sums are multiples of this: the power of two in Q/S."""
        return self.shard_rows & -self.shard_rows if self.n_shards > 1 else 1

    def round_rows(self, rows: int) -> int:
        """Number of rows of a shard, rounded up to one that a weight can hold and that has enough factors of two to be
        subtracted exactly.
        """
        rows = self.round_up(rows)
        if self.n_shards == 1:
            return rows
        spare = max(0, 2 * (self.n_shards * rows).bit_length() - self.mantissa_bits)
        return self.round_up(-(-rows >> spare) << spare)

    def has_exact_digits(self, choices: tuple[int, ...]) -> bool:
        """Whether taking these digits off a number is exact."""
        return self.fits(largest_digit_sum(choices))

    def fits(self, largest: int) -> bool:
        """Whether whole numbers up to `largest` fit the mantissa."""
        return (largest - 1).bit_length() <= self.mantissa_bits

    def has_exact_pooling(self, field: HashedField) -> bool:
        """The folds before pooling, in halves, and the sum times n·λ (its power of two costs nothing)."""
        before = field.n_values << (self.entrance.n_folds + 1)
        summed = 2 * self.sum_width * field.n_values
        weighed = odd_part(self.n_tokens * self.sum_factor) * self.n_tokens * field.n_values
        return self.fits(max(before, summed, weighed))

    def widen(self, integers: np.ndarray) -> np.ndarray:
        """Integers of a type in which no weight of this layout overflows."""
        return integers.astype(np.int64 if self.mantissa_bits <= 53 else object)


def split_evenly(total: int, n_parts: int) -> tuple[int, ...]:
    """`total` in `n_parts` whole parts that differ by one at most, the larger first."""
    small, extra = divmod(total, n_parts)
    return tuple(small + (part < extra) for part in range(n_parts))


def largest_digit_sum(choices: tuple[int, ...]) -> int:
    """The largest partial sum when digits are taken off a number.

    A digit of weight H leaves as H·(ramp − ramp), whose terms, in units of the power of two in H, are below
    2 · base · (odd part of H).
    """
    weight = base = prod(choices)
    largest = 0
    for choice in choices:
        weight //= choice
        largest = max(largest, 2 * base * odd_part(weight))
    return largest


def odd_part(number: int) -> int:
    """`number` without its factors of two."""
    return number // (number & -number)
