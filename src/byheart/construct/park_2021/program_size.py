"""The weights of `program`, counted without building it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from byheart.construct.park_2021.arrangement import Arrangement
from byheart.network.exact.dyadic import Number
from byheart.program.weight_count import NOTHING, Tally, alike, tally, total


@dataclass(frozen=True)
class Parts:
    """How many folds, overlaid segments, buckets, and fields of a bucket's word."""

    n_folds: int
    n_segments: int
    n_buckets: int
    n_fields: int


def program_numbers(arrangement: Arrangement, words: Sequence[int], offset: int) -> dict[str, Tally]:
    """What of the data becomes weights: thresholds, distances and words, as `lookup_program` writes them."""
    base = -arrangement.extent if arrangement.segments else 0
    n_fields = arrangement.n_fields
    shifts = [offset] + [0] * len(arrangement.mirrors)
    return {
        "offset": tally([offset]),
        "mirrors": tally(
            shift - Fraction(mirror, 2) for shift, mirror in zip(shifts, arrangement.mirrors, strict=False)
        ),
        "segment edges": tally(_edges(segment.start for segment in arrangement.segments)),
        "segment moves": tally(
            segment.target - segment.start - arrangement.extent for segment in arrangement.segments
        ),
        "bucket edges": tally(_edges(start + base for start in arrangement.starts)),
        "bucket moves": tally(-start - n_fields for start in arrangement.starts),
        "bucket words": tally(words),
        "field edges": tally(_edges(number + base - n_fields for number in range(n_fields))),
    }


def _edges(thresholds: Iterable[int]) -> Iterator[Number]:
    """The biases of `at_least`."""
    for threshold in thresholds:
        yield 1 - threshold
        yield -threshold


def expected_program_numbers(parts: Parts, field_bits: int, place_bits: int) -> dict[str, Tally]:
    """The same where the data have not been seen, with places of so many bits."""
    return {
        "offset": alike(1, place_bits),
        "mirrors": alike(parts.n_folds, place_bits),
        "segment edges": alike(2 * parts.n_segments, place_bits),
        "segment moves": alike(parts.n_segments, place_bits),
        "bucket edges": alike(2 * parts.n_buckets, place_bits),
        "bucket moves": alike(parts.n_buckets, place_bits),
        "bucket words": alike(parts.n_buckets, parts.n_fields * field_bits),
        "field edges": alike(2 * parts.n_fields, place_bits),
    }


def program_tally(parts: Parts, field_bits: int, numbers: Mapping[str, Tally]) -> Tally:
    """All weights of `lookup_program`, from its parts and its numbers of the data."""
    n_moves = parts.n_segments + parts.n_buckets
    return total(
        (
            alike(parts.n_folds, 1) + alike(parts.n_folds, 2) + numbers["mirrors"] + numbers["offset"],
            alike(2 * n_moves, 1),  # what the two units of a move read; they write with both signs
            numbers["segment edges"] + numbers["segment moves"].times(2),
            numbers["bucket edges"] + (numbers["bucket moves"] + numbers["bucket words"]).times(2),
            numbers["field edges"] + _extraction(parts.n_fields, field_bits),
        )
    )


def _extraction(n_fields: int, field_bits: int) -> Tally:
    """The weights of `extraction_steps` but for the edges of the fields."""
    gate = field_bits + 1
    opened = alike(2, 1) + alike(2, n_fields.bit_length()) + alike(2, gate) + alike(1, gate)
    handed_on = alike(3 + 2, 1)
    # Bit b of the word, of value 2^b: read twice, biases 1 - 2^b (nothing for b = 0) and -2^b, taken away with both signs
    n_bits = n_fields * field_bits
    pairs = n_bits * (n_bits - 1) // 2  # Σ b
    read = alike(2 * n_bits, 1)
    taken = Tally(3 * n_bits, 3 * (pairs + n_bits), n_bits)
    below = Tally(n_bits - 1, pairs, n_bits - 1) if n_bits > 1 else NOTHING
    worth = Tally(2 * n_bits, n_fields * field_bits * (field_bits + 1), field_bits)
    return total(
        (opened.times(n_fields), handed_on.times(n_fields - 1), read, taken, below, worth, alike(3, 1))
    )
