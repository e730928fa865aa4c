"""Split numbers into sums of short numbers. A short number is one that bfloat16 can represent (a mantissa of 8 bits).

A longer number is split into two or three weights. A bias that is not short is split into a short bias and a short weight on a
register that always holds 1. Whole columns are split in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import floor

import numpy as np

from byheart.network.exact.dyadic import Dyadic, Number
from byheart.program.blocks import Block, Repeat, Step, TableBlock, Unit
from byheart.program.lazy_units import LazyUnits

SHORT_BITS = 8


def short_parts(number: Number, n_parts: int) -> list[Fraction]:
    """Split `number` into `n_parts` summands.

    Each summand but the last is the short number (at most 8 significant bits) closest to what remains. The last one is all that
    remains, whether short or not.
    """
    rest, found = Fraction(Dyadic.of(number).fraction), []
    for _ in range(n_parts - 1):
        found.append(_nearest_short(rest))
        rest -= found[-1]
    return [*found, rest]


def split_column(numbers: np.ndarray, n_parts: int) -> list[np.ndarray]:
    """Split every number of an array as `short_parts` does, but round ties to even. Numbers must have at most 53 bits."""
    if n_parts == 1:
        return [numbers]
    rest, found = numbers.astype(np.float64), []
    for _ in range(n_parts - 1):
        fractions, exponents = np.frexp(rest)
        found.append(np.ldexp(np.rint(np.ldexp(fractions, SHORT_BITS)), exponents - SHORT_BITS))
        rest = rest - found[-1]
    return [*found, rest]


def short_at_least(number: int) -> int:
    """Return the smallest short integer (at most 8 significant bits) >= `number`. `number` must not be negative."""
    spare = max(0, number.bit_length() - SHORT_BITS)
    return -(-number >> spare) << spare


def short_at_most(number: int) -> int:
    """Return the largest short integer (at most 8 significant bits) <= `number`. `number` must not be negative."""
    spare = max(0, number.bit_length() - SHORT_BITS)
    return number >> spare << spare


def with_short_biases(steps: Sequence[Step], one: str) -> Iterator[Step]:
    """Yield the steps with short biases: numbers that bfloat16 can represent.

    A bias that is not short is split into a short bias and a weight on the register `one`, which always holds 1. Every bias must be
    the sum of two short numbers. A `TableBlock` whose biases are a placeholder is not changed; such blocks are made if only the
    parameters of a network are counted.
    """
    for step in steps:
        if isinstance(step, Repeat):
            yield replace(step, steps=tuple(with_short_biases(step.steps, one)))
        elif isinstance(step, Block):
            make = partial(_with_short_bias, step.units, one)
            yield replace(step, units=LazyUnits(step.n_units, make))
        elif isinstance(step, TableBlock) and isinstance(step.biases, np.ndarray):
            weights, biases = split_column(step.biases, 2)
            yield replace(step, reads={**step.reads, one: weights}, biases=biases)
        else:
            yield step


def _with_short_bias(units: Sequence[Unit], one: str, at: int) -> Unit:
    unit = units[at]
    weight, bias = short_parts(unit.bias, 2)
    return unit if not bias else Unit({**unit.reads, one: weight}, bias, unit.writes)


def _nearest_short(number: Fraction) -> Fraction:
    if not number:
        return number
    exponent = number.numerator.bit_length() - number.denominator.bit_length() - SHORT_BITS
    while abs(number) >= Fraction(2) ** (exponent + SHORT_BITS):
        exponent += 1
    unit = Fraction(2) ** exponent
    return floor(number / unit + Fraction(1, 2)) * unit
