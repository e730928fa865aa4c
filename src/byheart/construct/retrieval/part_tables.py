"""Tables for labels that are longer than a word: the bits of a label are divided into parts, and each part has its own dual table.

All tables have equally many rows and are read one after the other, with the same addresses. As in `dual_table`, two tokens read
them: an extra token, which is the same for every input, and the labelled token. Values that later tables need stay in their
registers: the digits of the row number, the sum of their squares and, for every group of channels (places of words in a row), the
number of the channel that the token selects.

Each part has a register for its sum. After the part's table is read, this register holds Γ + V·φ at the extra token, and Γ plus
WORD_SCALE times the sum of the selected words of Z at the labelled token. Here V and Z are the words in the table's input and
output weights, at the row of the address; φ is 1 for each channel that the extra token selects, else 0; and Γ is a constant. When
all tables are read, the second attention layer adds WORD_SCALE times the extra token's sums to those of the labelled token.

A token holds the number p of its channel in a register. ReLU ramps find the channel without changing this register: for integers p
and v, ReLU(p - v + 1) - 2·ReLU(p - v) + ReLU(p - v - 1) is 1 if p = v, else 0. Both tokens hold p in the same register. To tell the
tokens apart, the numbers of the labelled token's channels are higher than those of the extra token's channels.

Registers: x, y, z, the sum of squares and the digits are as in a dual table. Others hold the number of the selected channel in each
group (for the last group, this is y), the sum of each part, and the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod

import numpy as np
from jaxtyping import Int, Shaped

from byheart.construct.retrieval.addresses import ChannelPatterns
from byheart.construct.retrieval.dual_table import ROLE, SQUARE, DualTable, Y
from byheart.construct.retrieval.gadgets import window_blocks, within_shards
from byheart.construct.retrieval.label_reader import WORD_SCALE
from byheart.construct.retrieval.layout import LIMB_BITS, ONE, HashedField, X, Z, split_evenly
from byheart.network.exact.dyadic import Number
from byheart.program.blocks import (
    Block,
    RegisterAttention,
    RegisterHead,
    Step,
    TableBlock,
    Unit,
    negate,
    threshold,
)
from byheart.program.lazy_units import Joined, LazyUnits

CHOSEN = WORD_SCALE << (LIMB_BITS + 2)
"""The number added to the words of selected channels, so that a threshold can find them. All other words are smaller than this
number, even in the extra token, where words may be doubled.
"""


def n_pattern_fields(least_fields: int) -> int:
    """Return the number of hashed fields for one token's pattern (the channels that it selects).

    `least_fields` is the total number of hashed fields: those for the patterns of two tokens (the extra token and the labelled
    one), and two others. An odd number is first rounded down to an even one, because both patterns get equally many fields.
    """
    return least_fields // 2 - 1


@dataclass(frozen=True)
class PartTables(DualTable):
    """One table for each of the `n_parts` parts of a label. Every word is one stored weight of 8 bits."""

    name = "table for each part"

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The registers that come before those of the words.

        As in a dual table, they are x, the role, y and z, and a register for each digit of the row number except the last. Then
        come, for each group of channels except the last, the number of the channel that a token selects (y holds it for the last
        group), and the sum of each part of the label. With bfloat16 weights, one more register always holds 1.
        """
        constant = (ONE,) if self.stored == "bfloat16" else ()
        return (X, SQUARE, Y, Z, *self.digits[:-1], *self.choice_registers[:-1], *self.sums, *constant)

    @cached_property
    def choice_registers(self) -> tuple[str, ...]:
        """For each group of channels (columns of the tables), the register with the number of the channel that a token selects."""
        return (*(f"choice {group}" for group in range(self.n_groups - 1)), Y)

    @cached_property
    def sums(self) -> tuple[str, ...]:
        """For each part of a label, the register in which the words of this part are summed.

        At first, before any words are read, some of these registers hold something else: the hashed fields that encode the
        labelled token's pattern (the channels that this token selects).
        """
        return tuple(f"sum {part}" for part in range(self.n_parts))

    @property
    def n_pattern_fields(self) -> int:
        """The number of hashed fields for the pattern (the choice of channels) of the extra token. The pattern of the labelled
        token has equally many. The more fields a hash has, the fewer reflections each field needs.
        """
        return n_pattern_fields(self.entrance.least_fields)

    @cached_property
    def pattern_groups(self) -> tuple[range, ...]:
        """A token's pattern (its choice of channels) is divided among several hashed fields. For each of these fields, the groups
        whose channels it chooses.
        """
        sizes = split_evenly(self.n_groups, self.n_pattern_fields)
        return tuple(range(sum(sizes[:at]), sum(sizes[: at + 1])) for at in range(len(sizes)))

    @cached_property
    def word_registers(self) -> tuple[str, ...]:
        """The registers into which words are read. All parts use the same registers, one part after the other."""
        return tuple(f"word {number}" for number in range(self.n_channels))

    def part_registers(self, part: int) -> tuple[str, ...]:
        """Return a tuple with one register, which holds the sum of the words for this part of the label."""
        return (self.sums[part],)

    @property
    def model_width(self) -> int:
        """m, the width of the residual stream."""
        return self.n_slots + self.n_channels

    @property
    def shares_window(self) -> bool:
        """Whether one hashed field holds both the labelled token's pattern (its choice of channels) and the number that encodes the
        plane (a range of bits of each word) and the step between rows.

        This is never so here: the pattern has hashed fields of its own.
        """
        return False

    @cached_property
    def hashed_fields(self) -> tuple[HashedField, ...]:
        """The hashed fields: one for the row, some for the patterns (choices of channels) of the extra and of the labelled token,
        and one that holds both the step between rows and the plane (a range of bits of each word).
        """
        bases = [prod(self.choices[group] for group in groups) for groups in self.pattern_groups]
        last = [self.choice_registers[groups[-1]] for groups in self.pattern_groups if groups]
        return self.align_fields(
            self.make_field(X, self.n_first_rows),
            *(self.make_field(register, base) for register, base in zip(last, bases, strict=False)),
            *(self.make_field(register, base) for register, base in zip(self.sums, bases, strict=False)),
            self.make_field(Z, self.n_places << self.step_bits),
        )

    @property
    def own_field(self) -> int:
        """The index, among the hashed fields, of the first field that encodes the labelled token's choice of channels."""
        return 1 + self.n_pattern_fields

    @property
    def digit_fields(self) -> tuple[tuple[int, ...], ...]:
        """For each field that is split into digits, the base of each digit, starting with the highest digit."""
        patterns = (tuple(self.choices[group] for group in groups) for groups in self.pattern_groups)
        return (*patterns, self._window_digits(()), self.radices)

    def channel_bits(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> list[np.ndarray]:
        """Return two arrays with one bit for each key and channel. The first array says whether the extra token (which precedes
        every sequence) selects the channel, and the second whether the labelled token does.
        """
        patterns = ChannelPatterns(self.groups, self.choices)
        return [
            np.asarray(
                sum(
                    patterns.bits(fields[:, first + at], groups)
                    for at, groups in enumerate(self.pattern_groups)
                )
            )
            for first in (1, self.own_field)
        ]

    @property
    def is_exact(self) -> bool:
        """Whether floats compute every step exactly: all steps of a dual table, and the sum of each part."""
        return (
            self.n_pattern_fields <= min(self.n_groups, self.n_parts)
            and super().is_exact
            and self.fits(self.largest_part_sum)
        )

    @property
    def sum_offset(self) -> int:
        """The constant by which the sum of a part, as the network computes it, exceeds WORD_SCALE times the sum of the words that
        were read. It is Γ (`gate`) from the labelled token, plus WORD_SCALE·Γ from the extra token (one that is added to every
        input).
        """
        return (WORD_SCALE + 1) * self.gate

    @property
    def largest_part_sum(self) -> int:
        """An upper bound on every partial sum of one part of the label. The full sum consists of `sum_offset`, the words that the
        labelled token and the extra token (a token that is added to every input) read, and a constant that centres the sum.
        """
        return self.sum_offset + WORD_SCALE * (2 * self.n_groups << self.word_bits) + WORD_SCALE * self.gate

    def lookup_steps(self, words: Shaped[np.ndarray, " n_columns"] | None) -> Iterator[Step]:
        """Yield the steps of the lookup. Each token gets its row and channels, and then reads one table after the other. At the
        end, the labelled token fetches the sums of the extra token (one that is added to every sequence).
        """
        yield from within_shards(
            self._roles_and_step(), self.n_shards, self.shard_rows, self.digits[0], self.margin_rows
        )
        yield from self._choice_blocks()
        yield from self._digit_blocks()
        shape = (self.n_rows, 2, self.n_parts, self.n_channels)
        by_part = None if words is None else self.widen(words).reshape(shape)
        for part in range(self.n_parts):
            yield Block(self._units_of_channels(self._open_unit, 2), {}, "pattern")
            yield self._part_table(part, None if by_part is None else by_part[:, :, part])
            yield Block(self._units_of_channels(self._choose_unit, 0), {}, "pattern")
            yield self._gather_block(part)
        values, outputs = [{name: 1} for name in self.sums], [{name: WORD_SCALE} for name in self.sums]
        yield RegisterAttention((RegisterHead(values, outputs),), pattern="scatter")

    def _roles_and_step(self) -> Iterator[Block]:
        """Yield the blocks that give the labelled token and the extra token (one that is added to every sequence) their patterns
        (choices of channels) and table rows.

        The first block puts the patterns of both tokens into the same registers. The other blocks add a step to the row number of
        the labelled token. Before that, both tokens have the same row number.
        """
        units = [Unit({ROLE: 1}, 0, {X: self.half_window})]
        n_fields = self.n_pattern_fields
        for field, own in zip(self.hashed_fields[1:], self.sums[:n_fields], strict=False):
            units.append(Unit({field.register: 1, ROLE: -field.base}, 0, {field.register: -1}))
            units.append(Unit({own: 1, ROLE: -field.base}, 0, {field.register: 1}))
            units.append(Unit({own: 1}, 0, {own: -1}))
        yield Block(units, {}, "roles")
        base = self.hashed_fields[-1].base
        yield from window_blocks(base, self.step_bits, self.shard_rows, {ROLE: -base})

    def _choice_blocks(self) -> Iterator[Block]:
        """Yield blocks that split patterns (choices of channels) into digits, bit by bit, and turn each digit into the number of a
        channel.

        A pattern has one digit for each group of channels, and a hashed field holds the digits of one or more groups. The last
        digit of a field stays in the field's register. In the first group, digit d selects channel d + 1. In every other group,
        digit d selects channel d, and digit 0 selects none. The extra token (one that is added to every sequence) keeps these
        numbers. In all other tokens, such as the labelled token, `_beyond` is added to them, so that the two kinds of token select
        channels by different numbers.
        """
        taken = [list(self._bits_of_digits(groups)) for groups in self.pattern_groups]
        for turn in range(max(map(len, taken))):
            yield Block([unit for bits in taken if turn < len(bits) for unit in bits[turn]], {}, "pattern")
        adds: dict[str, Number] = dict(zip(self.choice_registers, self._beyond, strict=True))
        takes = negate(adds)
        adds[self.choice_registers[0]] = self._beyond[0] + 1
        yield Block((Unit({ROLE: 1}, 0, takes),), adds, "pattern")

    def _bits_of_digits(self, groups: range) -> Iterator[tuple[Unit, Unit]]:
        """Yield the hidden units that split one hashed field into its digits, two units for each bit that they move.

        The field has one digit for each of `groups`; the digit selects a channel in this group. The last digit stays in the
        register of the field. Each bit of the other digits is moved to the register of its digit, starting with the highest bit
        of the first digit.
        """
        held, weight = self.choice_registers[groups[-1]], prod(self.choices[group] for group in groups)
        for group in groups[:-1]:
            weight //= self.choices[group]
            for bit in reversed(range((self.choices[group] - 1).bit_length())):
                taken = weight << bit
                yield threshold(held, taken, {held: -taken, self.choice_registers[group]: 1 << bit})

    @property
    def _beyond(self) -> list[int]:
        """For each group, the number by which the labelled token's channel numbers are larger than those of the extra token."""
        return [size + 1 for size in self.groups]

    def _units_of_channels(self, make: Callable[[int, int], Unit], n_more: int) -> Joined:
        """Return the hidden units `make(group, at)` for every group of channels. In each group, `at` counts from 0, and there are
        `n_more` units more than channels.
        """
        return Joined(
            *(LazyUnits(size + n_more, partial(make, group)) for group, size in enumerate(self.groups))
        )

    def _open_unit(self, group: int, at: int) -> Unit:
        """Return the unit of a ReLU ramp for the extra token (one that is added to every sequence). The ramp starts at `at`.
        Together, the ramps for all groups and all values of `at` write 1 to the channels that this token selects.
        """
        return Unit({self.choice_registers[group]: 1}, -at, self._ramp_writes(group, at, 1))

    def _choose_unit(self, group: int, at: int) -> Unit:
        """Return the unit ReLU(p - b - `at`), where p is the number in the token's register for the group, and b is the entry of
        `_beyond` for the group.

        Together, the units for all values of `at` add CHOSEN to the channels that the labelled token selects. In this token, p is
        the number of the selected channel plus b. In the extra token (one that is added to every sequence), p is below b, so
        these units are not active.
        """
        bias = -at - self._beyond[group]
        return Unit({self.choice_registers[group]: 1}, bias, self._ramp_writes(group, at, CHOSEN))

    def _ramp_writes(self, group: int, at: int, step: int) -> dict[str, Number]:
        """Return what the hidden unit ReLU(p - at) writes, where p is the number of the selected channel: a factor for the
        register of each channel of the group. The first channel of a group has the number 1.

        The factor is `step` for the channels `at` + 1 and `at` - 1, and -2·`step` for the channel `at`, if they exist. The units
        for all values of `at` then add up to `step` for channel p, and to 0 for every other channel.
        """
        first, size = sum(self.groups[:group]), self.groups[group]
        factors = {at: step, at - 1: -2 * step, at - 2: step}
        return {self.channels[first + c]: factor for c, factor in factors.items() if 0 <= c < size}

    @property
    def _word_offset(self) -> int:
        """The constant that is added to every word register, so that no word register is negative and a ReLU can clear it.

        Words are stored as signed numbers, of which none is below some -c. The registers of the extra token (a token that is
        added to every input) receive words multiplied by up to 2, so the constant is 2·c.
        """
        return WORD_SCALE << LIMB_BITS

    def _part_table(self, part: int, words: Shaped[np.ndarray, "n_rows 2 n_channels"] | None) -> TableBlock:
        """Build the table of one part of the label. Hidden unit a belongs to row a of the table. `DualTable._table` explains the
        symbols.

        The unit computes ReLU(Γ·(1 - 2·Σ (J_i - a_i)²) + V[a]·φ). It writes the words Z[a], and adds its own value to the
        register of the part's sum. The digits of the row and the sum of their squares are not cleared, because the next table
        needs them.
        """
        numbers = self._typical_numbers() if words is None else self._numbers(words)
        return TableBlock(
            self.n_rows,
            {**numbers.digits, SQUARE: -2 * self.gate, **numbers.read},
            numbers.biases,
            {self.sums[part]: 1, **numbers.written},
            dict.fromkeys(self.word_registers, self._word_offset),
            "table",
        )

    def _gather_block(self, part: int) -> Block:
        """Add the selected words to the part's sum and clear all words.

        After the last part, also clear the register of the last group's channel, and set x, which held the last digit of the row,
        to 1. The steps that read the label expect this.
        """
        more: list[Unit] = []
        adds: dict[str, Number] = {}
        if part == self.n_parts - 1:
            half = self.halves[-1]
            more = [Unit({X: 1}, half, {X: -1}), Unit({Y: 1}, 0, {Y: -1})]
            adds = {X: half + 1}
        return Block(
            Joined(LazyUnits(2 * self.n_channels, partial(self._gather_unit, part)), more), adds, "gather"
        )

    def _gather_unit(self, part: int, at: int) -> Unit:
        """Return hidden unit number `at` of the block that adds up a part's words. Each word has two units: one adds the word to
        the sum if the word was selected, and one clears the word's register.
        """
        channel = self.channels[at // 2]
        if at % 2:
            return Unit({channel: 1}, 0, {channel: -1})
        added = CHOSEN + self._word_offset - (WORD_SCALE << LIMB_BITS - 1)
        return Unit({channel: 1}, -added, {self.sums[part]: 1})
