"""Store the exact values of a channel (a coordinate of the residual stream) for many tokens. Tokens that are known to have equal
values form a group, and each value is stored once per group.

A `Column` is a channel: one exact number for each group of a `Partition` of the tokens. A linear combination uses the coarsest
partition that refines the partitions of all its terms, and has one number for each group of this partition. No function of this
module rounds numbers, and all of them also work for networks that are not Transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byheart.network.exact.dyadic import ZERO, Dyadic
from byheart.network.exact.limbs import Fixed, common_factor, linear_combination

ONE = Dyadic(1, 0)
_FACTOR_BITS = 32  # pulling out a common factor pays if the factor is longer than a limb


@dataclass(frozen=True, eq=False)
class Partition:
    """A division of the tokens into groups.

    `parent` is a finer partition: group g of the parent is contained in group `index[g]` of this partition. The finest partition
    has no parent, and each of its groups is a single token.
    """

    parent: Partition | None
    index: np.ndarray
    n_groups: int

    def index_of(self, ancestor: Partition) -> np.ndarray:
        """For each group of `ancestor`, return the group of this partition that contains it."""
        if self is ancestor:
            return np.arange(self.n_groups)
        assert self.parent is not None
        return self.index if self.parent is ancestor else self.index[self.parent.index_of(ancestor)]

    def ancestors(self) -> list[Partition]:
        """Return this partition, its parent, and so on up to the finest partition."""
        chain = [self]
        while chain[-1].parent is not None:
            chain.append(chain[-1].parent)
        return chain


@dataclass(frozen=True, eq=False)
class Column:
    """One channel (a coordinate of the residual stream): an exact number for each group of tokens in `partition`."""

    partition: Partition
    numbers: Fixed


def _join(left: Partition, right: Partition) -> tuple[Partition, np.ndarray, np.ndarray]:
    """Return the coarsest partition that refines both partitions.

    Also return two arrays. For each group of the result, they hold the group of `left` and the group of `right` that contain it.
    """
    left_chain = left.ancestors()
    if right in left_chain:
        return right, left.index_of(right), np.arange(right.n_groups)
    right_chain = right.ancestors()
    if left in right_chain:
        return left, np.arange(left.n_groups), right.index_of(left)
    common = next(partition for partition in left_chain if partition in right_chain)
    of_left, of_right = left.index_of(common), right.index_of(common)
    codes = of_left * right.n_groups + of_right
    n_codes = left.n_groups * right.n_groups
    if n_codes <= 8 * common.n_groups + 64:  # number the codes with a table, without sorting
        numbers = np.zeros(n_codes, dtype=np.int64)
        numbers[codes] = 1
        found = np.flatnonzero(numbers)
        numbers[found] = np.arange(len(found))
        index = numbers[codes]
    else:
        found, index = np.unique(codes, return_inverse=True)
    return Partition(common, index, len(found)), found // right.n_groups, found % right.n_groups


def distinct(column: Column) -> Column:
    """Return the same channel with fewer groups of tokens: all tokens with the same number are in one group."""
    kept, index = column.numbers.distinct()
    if len(kept) == column.partition.n_groups:
        return column
    return Column(Partition(column.partition, index, len(kept)), column.numbers.take(kept))


def terms_of(row: Sequence[tuple[int, Dyadic]], columns: Sequence[Column]) -> list[tuple[Dyadic, Column]]:
    """Return the terms of one matrix row, as pairs of a coefficient and the column that it multiplies."""
    return [(coefficient, columns[at]) for at, coefficient in row]


def linear(rows: Partition, terms: Sequence[tuple[Dyadic, Column]], bias: Dyadic = ZERO) -> Column:
    """Return bias + Σ coefficient · column. The partition `rows` is used only if there are no terms."""
    if not terms:
        everything = Partition(rows, np.zeros(rows.n_groups, dtype=np.int64), 1)
        return Column(everything, linear_combination(1, [], bias))
    by_partition: dict[int, list[tuple[Dyadic, Column]]] = {}
    for coefficient, column in terms:
        by_partition.setdefault(id(column.partition), []).append((coefficient, column))
    parts = list(by_partition.values())
    total = _linear_on_one(parts[0], bias)
    for part in parts[1:]:
        addend = _linear_on_one(part, ZERO)
        partition, of_total, of_addend = _join(total.partition, addend.partition)
        pair = [(ONE, total.numbers.take(of_total)), (ONE, addend.numbers.take(of_addend))]
        total = Column(partition, linear_combination(partition.n_groups, pair, ZERO))
    return total


def _linear_on_one(terms: Sequence[tuple[Dyadic, Column]], bias: Dyadic) -> Column:
    partition = terms[0][1].partition
    numbers = [(coefficient, column.numbers) for coefficient, column in terms]
    return Column(partition, linear_combination(partition.n_groups, numbers, bias))


def linear_distinct(rows: Partition, terms: Sequence[tuple[Dyadic, Column]], bias: Dyadic) -> Column:
    """Return bias + Σ coefficient · column, like `linear`. If the coefficients have a long common factor, the sums are first
    computed without it. Then each distinct sum is multiplied by the factor once.

    For example, W·(h1 - h2 - h3 + h4) is a long number W times a sum that is 0 or 1 at every token. So two products are enough,
    instead of one per token.
    """
    factor = common_factor([coefficient for coefficient, _ in terms]) if terms else 1
    if factor.bit_length() <= _FACTOR_BITS:
        return distinct(linear(rows, terms, bias))
    reduced = [
        (Dyadic(coefficient.mantissa // factor, coefficient.exponent), column)
        for coefficient, column in terms
    ]
    inner = distinct(linear(rows, reduced))
    return _linear_on_one([(Dyadic.of(factor), inner)], bias)
