"""Compact storage formats for weight arrays: integers with power-of-two scales, or bfloat16.

Arithmetic is done in float32. In an integer format, a weight is n · 2^e, where n has 8 or 16 bits and the exponent e has 8 bits.
There is one exponent for the whole array, one for each row, or one for each column. An array is stored without rounding or not at
all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Int

from byheart.errors import InexactWeights

StoredNumbers = Literal["int8", "int16", "float32", "bfloat16"]
Scale = Literal["one", "rows", "columns"]
Shape: TypeAlias = tuple[int, ...]

BITS: dict[StoredNumbers, int] = {"int8": 8, "int16": 16, "float32": 32, "bfloat16": 16}
EXPONENT_BITS = 8
_NONE = 1 << 20  # the granularity of zero, which is a multiple of everything
_MANTISSA = (1 << 52) - 1  # the bits of a float64 that hold its mantissa without the leading 1


@dataclass(frozen=True)
class WeightFormat:
    """The number type of one array. For integers, `scale` says which entries share an exponent (all of them, or those of
    one row or one column); for floats, it is None.
    """

    numbers: StoredNumbers
    scale: Scale | None = None

    def __str__(self) -> str:
        return self.numbers if self.scale is None else f"{self.numbers} by {self.scale}"

    def exponents_shape(self, shape: Shape) -> Shape | None:
        """Return the shape of the array of exponents for weights of this shape; None for floats."""
        if self.scale is None:
            return None
        return (1,) if self.scale == "one" else (shape[0] if self.scale == "rows" else shape[-1],)

    def n_bits(self, shape: Shape) -> int:
        """Return the number of bits that store an array of this shape, including its exponents."""
        exponents = self.exponents_shape(shape)
        return BITS[self.numbers] * prod(shape) + (0 if exponents is None else EXPONENT_BITS * exponents[0])

    def encode(
        self, name: str, weights: np.ndarray
    ) -> tuple[np.ndarray, Int[np.ndarray, " n_exponents"] | None]:
        """Return the stored numbers (bfloat16 as integers of 16 bits) and the exponents. Raises `InexactWeights` if a number would
        be rounded.
        """
        if self.scale is None:
            floats = np.ascontiguousarray(weights, dtype=np.float32)
            bits = floats.view(np.uint32)
            is_short = self.numbers == "float32" or not (bits & 0xFFFF).any()
            if not is_short or not (floats == weights).all():
                raise InexactWeights(
                    f"a weight of {name} cannot be represented as {self.numbers}.", name=name
                )
            return (floats if self.numbers == "float32" else (bits >> 16).astype(np.uint16)), None
        exponents = _shared(granularity(weights), self.scale)
        wholes = np.ldexp(weights.astype(np.float64), -_spread(exponents, self.scale, weights.ndim))
        if not _fits(wholes, exponents, self.numbers):
            raise InexactWeights(
                f"a weight of {name} cannot be stored exactly in the format `{self}`.", name=name
            )
        return wholes.astype(self.numbers), exponents.astype(np.int8)

    def decode(self, numbers: np.ndarray, exponents: Int[np.ndarray, " n_exponents"] | None) -> np.ndarray:
        """Return the weights as float32."""
        if self.numbers == "bfloat16":
            return (numbers.astype(np.uint32) << 16).view(np.float32)
        if self.scale is None:
            return numbers
        assert exponents is not None
        spread = _spread(exponents.astype(np.int32), self.scale, numbers.ndim)
        return np.asarray(np.ldexp(numbers.astype(np.float32), spread))


FLOAT32 = WeightFormat("float32")
BFLOAT16 = WeightFormat("bfloat16")


@dataclass(frozen=True)
class Storage:
    """The storage formats of the arrays of a network, in the order of its parameters. The network computes in float32."""

    precision: Literal["bfloat16", "int8"]
    formats: tuple[WeightFormat, ...]


def matrix_formats() -> Iterator[WeightFormat]:
    """Yield the formats that a matrix may have in an int8 network: those of int8 first, then those of int16, then float32."""
    for numbers in ("int8", "int16"):
        for scale in ("one", "rows", "columns"):
            yield WeightFormat(numbers, scale)
    yield FLOAT32


FORMATS = {str(each): each for each in (*matrix_formats(), BFLOAT16)}


def smallest_format(weights: np.ndarray) -> WeightFormat:
    """Return the format in which an int8 network stores `weights` in the fewest bits.

    This is int8 or int16 if such integers, times powers of two, are exactly `weights`, and otherwise float32. A vector has one
    power of two. A matrix has one, or one for each row or each column. The function does not check that float32 represents
    `weights` exactly.
    """
    grains = granularity(weights)

    def fits(each: WeightFormat) -> bool:
        if each.scale is None:
            return True
        exponents = _shared(grains, each.scale)
        wholes = np.ldexp(weights.astype(np.float64), -_spread(exponents, each.scale, weights.ndim))
        return _fits(wholes, exponents, each.numbers)

    tried = [each for each in matrix_formats() if weights.ndim == 2 or each.scale in (None, "one")]
    return next(each for each in sorted(tried, key=lambda each: each.n_bits(weights.shape)) if fits(each))


def _shared(grains: np.ndarray, scale: Scale) -> np.ndarray:
    """Return the exponents that entries share: one for the whole array, one for each row, or one for each column.

    `grains` holds the granularity of each entry: the largest g such that the entry is a multiple of 2^g. An exponent is the
    least granularity of the entries that share it, or 0 if all of them are zero.
    """
    axis = {"one": None, "rows": 1, "columns": 0}[scale]
    least = grains.min(axis=axis, keepdims=False, initial=_NONE).reshape(-1)
    return np.where(least == _NONE, 0, least)


def _spread(exponents: np.ndarray, scale: Scale, n_axes: int) -> np.ndarray:
    """Return the exponents in a shape that numpy broadcasts to the weights, so that each weight is paired with its exponent."""
    return exponents[:, None] if scale == "rows" and n_axes == 2 else exponents


def _fits(wholes: np.ndarray, exponents: np.ndarray, numbers: StoredNumbers) -> bool:
    """Whether these integers and exponents are in range. Exponents are stored from -127 to 127."""
    bounds = np.iinfo(np.dtype(numbers))
    are_short = (wholes >= bounds.min).all() and (wholes <= bounds.max).all()
    return bool(are_short and np.abs(exponents).max(initial=0) <= 127)


def granularity(values: np.ndarray) -> np.ndarray:
    """For each float, return the largest g such that the float is a multiple of 2^g. For zero, return g = 2^20."""
    numbers = np.ascontiguousarray(values, dtype=np.float64)
    bits = numbers.view(np.int64)
    mantissa = bits & _MANTISSA
    rest = (bits ^ (mantissa & -mantissa)).view(np.float64)  # without the lowest bit that is 1
    lowest = np.where(
        mantissa == 0, numbers, numbers - rest
    )  # only a power of two has no such bit in its mantissa
    return np.where(numbers == 0, _NONE, np.frexp(lowest)[1].astype(np.int64) - 1)
