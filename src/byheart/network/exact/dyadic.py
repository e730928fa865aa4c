"""Exact numbers: dyadic rationals, and sparse matrices of them.

A dyadic rational is `mantissa * 2**exponent`. Every float is dyadic, and sums, products and ReLU of dyadic rationals are
dyadic. So a network of these operations, with dyadic weights and float inputs, computes only with dyadic rationals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from byheart.errors import ByheartError
from byheart.theorems import realises


@dataclass(frozen=True, slots=True)
class Dyadic:
    """The number `mantissa * 2**exponent` with an odd mantissa, or zero as (0, 0).

    Every number has exactly one representation.
    """

    mantissa: int
    exponent: int

    def __post_init__(self) -> None:
        if (self.mantissa == 0 and self.exponent != 0) or (self.mantissa != 0 and self.mantissa % 2 == 0):
            raise ValueError(f"{self.mantissa}·2^{self.exponent} is not in lowest terms; use Dyadic.of")

    @staticmethod
    def of(value: Number) -> Dyadic:
        """Convert an int, a finite float or a fraction whose denominator is a power of two."""
        if isinstance(value, Dyadic):
            return value
        if isinstance(value, (float, np.floating)):
            value = Fraction(float(value))
        numerator, denominator = int(value.numerator), int(value.denominator)
        if denominator & (denominator - 1):
            raise ByheartError(
                f"{value} is not a dyadic rational: its denominator is not a power of two.", value=value
            )
        if numerator == 0:
            return ZERO
        twos = (numerator & -numerator).bit_length() - 1
        return Dyadic(numerator >> twos, twos - (denominator.bit_length() - 1))

    def __bool__(self) -> bool:
        return self.mantissa != 0

    def __neg__(self) -> Dyadic:
        return Dyadic(-self.mantissa, self.exponent)

    def __float__(self) -> float:
        """Return the nearest float. Raises OverflowError if the number is too large."""
        return float(self.fraction)

    @property
    def fraction(self) -> Fraction:
        if self.exponent >= 0:
            return Fraction(self.mantissa << self.exponent)
        return Fraction(self.mantissa, 1 << -self.exponent)

    @property
    @realises("KS25-bits")
    def bits(self) -> int:
        """The bit complexity: the number of binary digits before and after the point.

        Source:  KS25 section 3.3 after Vardi et al. (2022): the bits needed to write the parameter, without its sign.
        """
        before_point = max(0, self.mantissa.bit_length() + self.exponent)
        return before_point + max(0, -self.exponent)

    @property
    def is_float64(self) -> bool:
        """Whether a float64 represents this number exactly."""
        try:
            return Fraction(float(self)) == self.fraction
        except OverflowError:
            return False


ZERO = Dyadic(0, 0)
Number: TypeAlias = int | float | Fraction | Dyadic


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A matrix of dyadic rationals that stores only the non-zero entries, row by row.

    A bias is a matrix with one column. `entries` must not be modified.
    """

    shape: tuple[int, int]
    entries: Mapping[tuple[int, int], Dyadic]

    def __post_init__(self) -> None:
        n_rows, n_cols = self.shape
        for row, col in self.entries:
            if not (0 <= row < n_rows and 0 <= col < n_cols):
                raise IndexError(f"entry ({row}, {col}) lies outside a matrix of shape {self.shape}")
        kept = {index: self.entries[index] for index in sorted(self.entries) if self.entries[index] != ZERO}
        object.__setattr__(self, "entries", kept)

    @staticmethod
    def of(shape: tuple[int, int], entries: Mapping[tuple[int, int], Number]) -> SparseMatrix:
        """Create a matrix from any numbers that are dyadic."""
        return SparseMatrix(shape, {index: Dyadic.of(value) for index, value in entries.items()})

    @staticmethod
    def from_array(array: np.ndarray) -> SparseMatrix:
        """Create a matrix from floats or integers with one or two axes. A vector becomes one column."""
        table = array[:, None] if array.ndim == 1 else array
        rows, cols = np.nonzero(table)
        picked = table[rows, cols].tolist()
        entries = zip(rows.tolist(), cols.tolist(), picked, strict=True)
        return SparseMatrix(
            (table.shape[0], table.shape[1]), {(row, col): Dyadic.of(value) for row, col, value in entries}
        )

    def rows(self) -> list[list[tuple[int, Dyadic]]]:
        """Return the non-zero entries of each row as (column, value)."""
        table: list[list[tuple[int, Dyadic]]] = [[] for _ in range(self.shape[0])]
        for (row, col), value in self.entries.items():
            table[row].append((col, value))
        return table

    def toarray(self) -> np.ndarray:
        """Return all entries, including zeros, as an array of `Fraction`."""
        dense = np.full(self.shape, Fraction(0), dtype=object)
        for at, value in self.entries.items():
            dense[at] = value.fraction
        return dense

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparseMatrix) and self.shape == other.shape and self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]  # entries are a mapping


Weights: TypeAlias = SparseMatrix | np.ndarray


def as_sparse(weights: Weights) -> SparseMatrix:
    return weights if isinstance(weights, SparseMatrix) else SparseMatrix.from_array(weights)


def as_dense(weights: Weights) -> np.ndarray:
    """Return all entries, including zeros, as an array of floats or, if the weights are exact, of `Fraction`."""
    return weights.toarray() if isinstance(weights, SparseMatrix) else np.asarray(weights)


def nonzero_values(weights: Weights) -> Iterator[Dyadic]:
    return iter(as_sparse(weights).entries.values())
