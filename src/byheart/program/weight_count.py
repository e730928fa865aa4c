"""Counting weights before they are made: how many are not zero, and how many bits they take.

A weight either follows from the shape of a construction, or is a number of the data once they are arranged: where a
sample lies on a line, the labels of a group packed in a word. The first kind is counted from the gadgets; of the second
kind, `Statistics.numbers` tells what a look at the data found. Together they are the size, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from byheart.network.exact.dyadic import Dyadic, Number
from byheart.network.size import FLOAT_BITS, Size
from byheart.network.transformer.architecture import Precision


@dataclass(frozen=True)
class Tally:
    """Numbers that are not zero: how many, their bits in all, and the bits of the longest (KS25 section 3.3)."""

    count: int = 0
    bits: int = 0
    longest: int = 0

    def __add__(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(self.count + other.count, self.bits + other.bits, max(self.longest, other.longest))

    def times(self, n_copies: int) -> Tally:
        """Each number so many times over."""
        return Tally(n_copies * self.count, n_copies * self.bits, self.longest if n_copies else 0)


NOTHING = Tally()


def tally(numbers: Iterable[Number]) -> Tally:
    """Count `numbers`; zeros do not count."""
    bits = [exact.bits for exact in map(Dyadic.of, numbers) if exact.mantissa]
    return Tally(len(bits), sum(bits), max(bits, default=0))


def alike(count: int, bits: int) -> Tally:
    """`count` numbers of `bits` bits each."""
    return Tally(count, count * bits, bits if count else 0)


def total(parts: Iterable[Tally]) -> Tally:
    """All parts together."""
    return sum(parts, NOTHING)


def tally_of_range(first: int, step: int, count: int) -> Tally:
    """The whole numbers first, first + step, ... (positive, ascending), without listing them.

    A number x has Σ_b [x >= 2^b] bits, so all together have Σ_b #{x >= 2^b}.
    """
    last = first + step * (count - 1)
    if count < 1:
        return NOTHING
    below = (max(0, -(-((1 << b) - first) // step)) for b in range(last.bit_length()))
    return Tally(count, sum(count - n_below for n_below in below), last.bit_length())


Blocks = tuple[int, int]
"""So many feed-forward blocks, each with so many hidden units."""


def block_parameters(blocks: Sequence[Blocks], model_width: int) -> int:
    """Entries of all weight matrices and biases of the blocks."""
    return sum(n_blocks * (2 * model_width * hidden + hidden + model_width) for n_blocks, hidden in blocks)


def block_width(blocks: Sequence[Blocks], model_width: int) -> int:
    """The width of a network of these blocks."""
    return max([model_width, *(hidden for n_blocks, hidden in blocks if n_blocks)])


def size_from(
    n_dense: int, weights: Tally, depth: int, width: int, precision: Precision | None = None
) -> Size:
    """The size of a network with these weights; floats take a word for every entry, zero or not."""
    if precision in FLOAT_BITS:
        word = FLOAT_BITS[precision]
        return Size(n_dense, weights.count, depth, width, word, word * n_dense)
    return Size(n_dense, weights.count, depth, width, weights.longest, weights.bits)
