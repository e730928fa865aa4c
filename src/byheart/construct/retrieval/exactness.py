"""The proof that floats do not round, checked on the numbers of one network.

Let u be a power of two. A float type with an M-bit mantissa holds every multiple of u up to 2^M·u. If all terms of a sum are
multiples of u, and no partial sum in any order exceeds 2^M·u, then every partial sum is exact on every device. `margins` lists the
unit u and the largest partial sum of every kind of sum. A network is built only if all these sums fit into the mantissa.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Shaped

from byheart.construct.retrieval.dual_table import DualTable
from byheart.construct.retrieval.gadgets import HALF
from byheart.construct.retrieval.key_hash import KeyHash
from byheart.construct.retrieval.label_reader import WORD_SCALE
from byheart.construct.retrieval.layout import RetrievalLayout, largest_digit_sum, odd_part
from byheart.construct.retrieval.part_tables import PartTables
from byheart.errors import ByheartError


class NotExactInFloats(ByheartError):
    """A sum of the network would be rounded. Such a network is never built."""


@dataclass(frozen=True)
class Margin:
    """One kind of sum: all terms are multiples of `unit`, and no partial sum exceeds `largest`."""

    name: str
    unit: Fraction
    largest: int

    @property
    def bits(self) -> int:
        """The number of mantissa bits that a float needs to represent every partial sum exactly."""
        return int(self.largest / self.unit - 1).bit_length()


def centre_of(layout: RetrievalLayout, sums: Shaped[np.ndarray, " n_keys"]) -> int:
    """Return the integer c for which c·2^word_bits is closest to the middle of the sums."""
    if len(sums) == 0:
        return 0
    twice = int(sums.min()) + int(sums.max())
    return (twice + (1 << layout.word_bits)) >> (layout.word_bits + 1)


def margins(
    layout: RetrievalLayout,
    hashed: KeyHash,
    words: Shaped[np.ndarray, " n_columns"],
    sums: Shaped[np.ndarray, " n_keys"],
    centre: int,
    largest_input: int,
) -> tuple[Margin, ...]:
    """For every kind of sum in the network, return a unit that divides all terms, and the largest partial sum (see `Margin`), for
    the actual weights.

    If the inputs are vectors, their coordinates are integers here, and `largest_input` is the largest magnitude of a coordinate.
    """
    before = int(hashed.tokens.max(initial=0)) + int(hashed.positions.max(initial=0))
    before = max(before, int(np.abs(hashed.weights).sum(axis=0).max(initial=0)) * largest_input)
    before += int(np.abs(hashed.offsets).max(initial=0)) + int(hashed.centres.max(initial=0))
    one_token = max(field.n_values for field in layout.hashed_fields)
    odd = odd_part(layout.n_tokens * layout.sum_factor)
    top, middle = int(sums.max(initial=0)), centre << layout.word_bits
    field = max(WORD_SCALE * (top - middle) + 1, WORD_SCALE * (middle - int(sums.min(initial=top))) - 1)
    headroom = 2 ** (layout.word_bits + 2 + layout.headroom_bits)
    if field >= headroom:
        raise NotExactInFloats(
            f"the words of some key add up to a sum that is {field} away from the centre of all such sums (after scaling). "
            f"With {layout.headroom_bits} bits of headroom, the distance must be less than {headroom}.",
            field=field,
        )
    return (
        Margin("entrance", HALF, 2 * before),
        Margin("pooling", Fraction(1), odd * layout.n_tokens * one_token),
        Margin("folding", HALF, layout.sum_width * one_token),
        Margin("digits", Fraction(1), max(map(largest_digit_sum, layout.digit_fields))),
        Margin("shard of a row", Fraction(layout.shard_unit), layout.largest_shard_sum),
        *_table_margins(layout, words),
        Margin("sum of the words of a key", Fraction(WORD_SCALE), WORD_SCALE * max(top, middle)),
        Margin("reading", Fraction(1), field),
    )


def _table_margins(layout: RetrievalLayout, words: Shaped[np.ndarray, " n_columns"]) -> tuple[Margin, ...]:
    """Return the margin (unit and largest partial sum) of every kind of sum that the tables compute."""
    table = words.reshape(layout.n_rows, layout.n_segments, layout.n_channels)
    if isinstance(layout, DualTable):
        fetched = layout.n_groups * int(np.abs(table[:, 0]).max(initial=0))
        assert fetched <= layout.gate
        of_parts: tuple[Margin, ...] = ()
        if isinstance(layout, PartTables):
            of_parts = (Margin("sum of a part", Fraction(1), layout.largest_part_sum),)
        return (
            *of_parts,
            Margin("unit of the table", Fraction(1), layout.largest_gate_sum),
            Margin("words read by the extra token (the token added to every input)", Fraction(1), fetched),
            Margin("words of one channel", Fraction(WORD_SCALE), WORD_SCALE << layout.word_bits),
        )
    stacked = int(table.max(axis=0).sum(axis=0).max(initial=0))
    return (
        Margin("row number and its square", Fraction(1), 8 * layout.n_rows**2),
        Margin("words of one channel", Fraction(WORD_SCALE), WORD_SCALE * stacked),
    )


def require_exact(found: tuple[Margin, ...], mantissa_bits: int) -> None:
    """Raise `NotExactInFloats` unless the mantissa can hold every partial sum of these kinds of sums."""
    for margin in found:
        if margin.bits > mantissa_bits:
            raise NotExactInFloats(
                f"{margin.name}: sums need {margin.bits} bits, but the mantissa has {mantissa_bits}.",
                name=margin.name,
            )
