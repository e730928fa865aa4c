"""Counting weights before they are made: what constructions that do not count a `Program` yet still use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from byheart.network.exact.dyadic import Number
from byheart.network.size import FLOAT_BITS, Size
from byheart.network.transformer.architecture import Precision
from byheart.program.blocks import Block, Progression
from byheart.program.count import NO_WEIGHTS, WeightCount, count_numbers, count_progression, count_steps

Tally: TypeAlias = WeightCount
NOTHING = NO_WEIGHTS


def tally(numbers: Iterable[Number]) -> WeightCount:
    """Count `numbers`; zeros do not count."""
    return count_numbers([number.item() if isinstance(number, np.generic) else number for number in numbers])


def tally_of_steps(steps: Iterable[Block]) -> WeightCount:
    """The weights of some blocks."""
    return count_steps(steps, 1).weights


def tally_of_range(first: int, step: int, count: int) -> WeightCount:
    """The whole numbers first, first + step, ... (positive, ascending), without listing them."""
    return count_progression(Progression(first, step, count))


def alike(count: int, bits: int) -> WeightCount:
    """`count` numbers of `bits` bits each."""
    return WeightCount(count, count * bits, bits if count else 0)


def total(parts: Iterable[WeightCount]) -> WeightCount:
    """All parts together."""
    return sum(parts, NO_WEIGHTS)


Blocks = tuple[int, int]
"""So many feed-forward blocks, each with so many hidden units."""


def block_parameters(blocks: Sequence[Blocks], model_width: int) -> int:
    """Entries of all weight matrices and biases of the blocks."""
    return sum(n_blocks * (2 * model_width * hidden + hidden + model_width) for n_blocks, hidden in blocks)


def block_width(blocks: Sequence[Blocks], model_width: int) -> int:
    """The width of a network of these blocks."""
    return max([model_width, *(hidden for n_blocks, hidden in blocks if n_blocks)])


def size_from(
    n_dense: int, weights: WeightCount, depth: int, width: int, precision: Precision | None = None
) -> Size:
    """The size of a network with these weights; floats take a word for every entry, zero or not."""
    if precision in FLOAT_BITS:
        word = FLOAT_BITS[precision]
        return Size(n_dense, weights.count, depth, width, word, word * n_dense)
    return Size(n_dense, weights.count, depth, width, weights.longest, weights.bits)
