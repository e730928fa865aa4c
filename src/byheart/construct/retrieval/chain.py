"""The chain, one kind of layout: the token that carries the label reads k tables one after the other, then adds up the words in the
selected channels (places in a table row).

Registers: x holds the number of the row to read. Two registers hold a copy of this number and its square. z holds the steps between
rows and the plane (bit field of a word). The other registers hold the words. The pattern (the choice of channels) is needed only at
the start, when the registers of the copy and the square are still free. Depending on the layout, it is then in the copy's
register, divided between these two registers, or the upper part of the number in x. The chain supports every task and every
kind of input that `retrieval` supports. For small data sets it is smaller than a dual table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from jaxtyping import Int, Shaped

from byheart.construct.retrieval import layout as common
from byheart.construct.retrieval.addresses import Addresses, ChannelPatterns, pack_bits, step_rows
from byheart.construct.retrieval.gadgets import HALF, pattern_blocks, window_blocks, within_shards
from byheart.construct.retrieval.label_code import planes_of
from byheart.construct.retrieval.label_reader import WORD_SCALE
from byheart.construct.retrieval.layout import LABEL, HashedField, RetrievalLayout, T, X, Z
from byheart.network.transformer.architecture import SumPool
from byheart.program import blocks

COPY, SQUARE = T, LABEL
"""The registers that receive a copy of the row number and its square while the tables are read. Before and after, they hold other
values.
"""


@dataclass(frozen=True)
class Chain(RetrievalLayout):
    """A layout with `n_segments` tables of `n_rows` rows each. Each table is read once."""

    name = "chain"
    has_extra_token = False

    @property
    def slots(self) -> tuple[str, ...]:
        """The registers that come before those of the words: x (the row), its copy, its square, and z (the steps between rows, and
        the plane, which is the bit field that holds the label).
        """
        return X, COPY, SQUARE, Z

    @property
    def n_tokens(self) -> int:
        """The number of tokens in a sequence."""
        return self.entrance.seq_len

    @cached_property
    def shares_row(self) -> bool:
        """Whether one hashed field holds both the row and, as its upper part, the pattern (the choice of channels).

        If such a field would be too long, or if more than two hashed fields are required, the pattern has fields of its own.
        """
        if self.entrance.least_fields > 2:
            return False
        field = self.make_field(X, prod(self.choices) * self.n_rows)
        return self.has_exact_digits((*self.choices, self.n_rows)) and self.has_exact_pooling(field)

    @cached_property
    def pattern_fields(self) -> tuple[tuple[int, ...], ...]:
        """For each hashed field that holds choices of channels, the numbers of the groups in which it chooses.

        The channels are divided into groups. A key's pattern is its choice of at most one channel in each group. One hashed field
        holds the choices in all groups, or the groups are divided between two hashed fields.
        """
        field = self.make_field(COPY, prod(self.choices))
        is_short = self.has_exact_digits(self.choices) and self.has_exact_pooling(field)
        if self.shares_row or (is_short and self.entrance.least_fields <= 3):
            return (tuple(range(self.n_groups)),)
        half = (self.n_groups + 1) // 2
        if self.entrance.least_fields > 3:
            half = min(
                range(self.n_groups), key=lambda g: max(prod(self.choices[:g]), prod(self.choices[g:]))
            )
        return tuple(range(half)), tuple(range(half, self.n_groups))

    @cached_property
    def hashed_fields(self) -> tuple[HashedField, ...]:
        """The hashed fields: numbers in which the hash of a key encodes its address.

        One field holds the key's first row. One or two hold its pattern (the choice of channels), unless the pattern fits into
        the field of the row. The last field holds both the steps from row to row and the plane (bit field).
        """
        later = self.make_field(Z, self.n_places << self.step_bits)
        if self.shares_row:
            return self.align_fields(self.make_field(X, prod(self.choices) * self.n_rows), later)
        patterns = [
            self.make_field(register, prod(self.choices[g] for g in groups))
            for register, groups in zip((COPY, SQUARE), self.pattern_fields, strict=False)
        ]
        return self.align_fields(self.make_field(X, self.n_rows), *patterns, later)

    @cached_property
    def digit_fields(self) -> tuple[tuple[int, ...], ...]:
        """For each field that is split into digits, the base of each digit, starting with the highest digit."""
        below = (self.n_rows,) if self.shares_row else ()
        patterns = [(*(self.choices[g] for g in groups), *below) for groups in self.pattern_fields]
        return (*patterns, (2,) * self.step_bits + (self.n_places,))

    @property
    def is_exact(self) -> bool:
        """Whether floats compute every step exactly: digits, squares, pooling, sums of words, and the reading of bits."""
        return (
            all(self.has_exact_digits(choices) for choices in self.digit_fields)
            and all(self.pattern_fields)
            and self.fits(8 * self.n_rows**2)
            and self.n_channels >= 2 * self.entrance.n_projections
            and all(self.has_exact_pooling(field) for field in self.hashed_fields)
            and self.word_bits + (self.n_segments * self.n_groups - 1).bit_length() <= self.mantissa_bits
            and self.word_bits + 2 + self.headroom_bits <= self.mantissa_bits
        )

    @property
    def n_addresses(self) -> float:
        """The number of different addresses: combinations of rows, steps between rows, channels and planes (bit fields of a
        word).
        """
        return self.n_rows * self.n_ways * self.n_planes * float(prod(self.choices))

    @cached_property
    def squaring_folds(self) -> tuple[int, ...]:
        """To compute its square, a row number is reflected until only 0 or 1 is left. For each of these reflections, this is the
        number r of values that are possible before it.

        The reflection is at (r - 1)/2, so about half of these values are possible after it.
        """
        folds = []
        remaining = self.n_rows
        while remaining > 2:
            folds.append(remaining)
            remaining = (remaining - 1) // 2 + 1
        return tuple(folds)

    @property
    def entry_registers(self) -> tuple[str, ...]:
        """The registers of the hashed fields before pooling. Each field stays in its register when the tokens are summed."""
        return tuple(field.register for field in self.hashed_fields)

    def pool(
        self, own: common.TokenFields, extra: common.ExtraFields, last_only: bool
    ) -> common.LabelledFields:
        """Return the hashed fields of each labelled token after pooling: the token's own fields plus `sum_factor` times the sum
        of the fields of all tokens. For the task `set`, return only this sum. For sequences of one token, return the token's own
        fields.

        `own` holds the fields of every token. `extra` is not used, because the chain has no extra token.
        """
        total = own.sum(axis=1, keepdims=True)
        if self.entrance.pooling == "sum":
            return np.asarray(total)
        kept = own[:, -1:] if last_only else own
        return np.asarray(kept if self.n_tokens == 1 else kept + self.sum_factor * total)

    def pooling_steps(self) -> Iterator[blocks.Step]:
        """Yield the step that sums each hashed field over the n tokens: one attention head. A head computes a mean, so its output
        weight includes the factor n. For the task `set`, the step is a plain sum. For other tasks, sequences
        of one token need no step.
        """
        if self.entrance.pooling == "sum":
            yield SumPool()
        elif self.n_tokens > 1:
            factor = self.sum_factor * self.n_tokens
            values = [{register: 1} for register in self.entry_registers]
            outputs = [{register: factor} for register in self.entry_registers]
            yield blocks.RegisterAttention((blocks.RegisterHead(values, outputs),))

    def first_rows(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> Int[np.ndarray, " n_keys"]:
        """Return the number of the first table row that each key reads.

        It is the value of the first hashed field. If this field also holds the choice of channels, it is the field's remainder
        modulo the number of rows.
        """
        return np.asarray(fields[:, 0] % self.n_rows)

    def addresses(self, fields: Int[np.ndarray, "n_keys n_fields"]) -> Addresses:
        """Extract each key's rows, channels and plane (bit field of a word) from its hashed fields, as the network does.

        A key uses the same channels in every table.
        """
        patterns = ChannelPatterns(self.groups, self.choices)
        rows, held = [self.first_rows(fields)], list(fields[:, 1:-1].T)
        if self.shares_row:
            held = [fields[:, 0] // self.n_rows]
        bits = sum(
            patterns.bits(numbers, groups) for numbers, groups in zip(held, self.pattern_fields, strict=True)
        )
        rest, weight = fields[:, -1], self.hashed_fields[-1].base
        for window_bits in self.windows:
            weight >>= window_bits
            step, rest = rest // weight, rest % weight
            rows.append(step_rows(rows[-1], step - (1 << window_bits) // 2, self.shard_rows))
        same = np.repeat(pack_bits(np.asarray(bits))[:, None], self.n_segments, axis=1)
        return Addresses(np.stack(rows, axis=1), same, planes_of(self.label_fields, rest))

    def lookup_steps(self, words: Shaped[np.ndarray, " n_columns"] | None) -> Iterator[blocks.Step]:
        """Yield the steps of the lookup. The first ones mask the channels that a key does not use. Then, for each table, the steps
        square the row number, read the words, and go to the key's row of the next table.
        """
        registers = [X] if self.shares_row else [field.register for field in self.hashed_fields[1:-1]]
        mask = WORD_SCALE << (self.word_bits + (self.n_segments - 1).bit_length())
        place = self.n_rows if self.shares_row else 1
        yield from pattern_blocks(
            self.groups,
            self.choices,
            self.pattern_fields,
            registers,
            place,
            self.word_registers,
            [-mask] * self.n_parts,
            [mask] * self.n_parts,
        )
        table = None if words is None else words.reshape(self.n_rows, self.n_segments, -1)
        weight = self.hashed_fields[-1].base
        for segment in range(self.n_segments):
            for remaining in self.squaring_folds:
                # the copy gains what x loses; x² - x'² = (x - x')·(x + x') = 2σ·2c with centre c, so the square gains 4c·σ
                centre = HALF * (remaining - 1)
                unit = blocks.Unit({X: 1}, -centre, {X: -2, COPY: 2, SQUARE: 4 * centre})
                yield blocks.Block((unit,), {}, "square")
            is_last = segment == self.n_segments - 1
            yield self._table(None if table is None else table[:, segment], is_last)
            if not is_last:
                step = window_blocks(weight, self.windows[segment], self.shard_rows, {})
                yield from within_shards(step, self.n_shards, self.shard_rows, COPY)
                weight >>= self.windows[segment]

    def _table(
        self, words: Shaped[np.ndarray, "n_rows n_registers"] | None, is_last: bool
    ) -> blocks.TableBlock:
        """Build one table. Hidden unit a is ReLU(1 - (row - a)²), which is 1 if row = a, else 0. If it is 1, the unit adds row a of
        the table to the word registers.

        The reflections of `squaring_folds` leave e = 0 or 1 in x, so copy = row - e, square = row² - e, and (row - a)² = square +
        e - 2a·(copy + e) + a². The number of the unit that fires determines row and e. So this unit can clear copy and square, and
        restore the row in x. In the last table it sets x to 1 instead.
        """
        if words is None:
            row, square = (
                blocks.typical(self.n_rows.bit_length()),
                blocks.typical(2 * self.n_rows.bit_length()),
            )
            typical_writes = {X: row, COPY: row, SQUARE: square}
            typical_writes |= dict.fromkeys(self.word_registers, blocks.typical(self.word_bits + 2))
            return blocks.TableBlock(
                self.n_rows, {X: row, COPY: row, SQUARE: -1}, square, typical_writes, {}, "table"
            )
        a = self.widen(np.arange(self.n_rows))
        left = self._left_over(a)
        writes: dict[str, blocks.Column] = {
            X: (1 if is_last else a) - left,
            COPY: left - a,
            SQUARE: left - a * a,
        }
        writes |= dict(zip(self.word_registers, WORD_SCALE * self.widen(words).T, strict=True))
        return blocks.TableBlock(
            self.n_rows, {X: 2 * a - 1, COPY: 2 * a, SQUARE: -1}, 1 - a * a, writes, {}, "table"
        )

    def _left_over(self, rows: np.ndarray) -> np.ndarray:
        """Return the number to which the reflections of `squaring_folds` reduce each row number: 0 or 1."""
        left = rows.copy()
        for remaining in self.squaring_folds:
            left = np.minimum(left, remaining - 1 - left)
        return left
