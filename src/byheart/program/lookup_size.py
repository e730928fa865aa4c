"""The weights of a lookup, counted without building it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from byheart.program.gadgets import SCRATCH, corners, span, unit_bump
from byheart.program.lookup import LookupPlan, grouped
from byheart.program.weight_count import NOTHING, Tally, alike, tally, tally_of_steps, total

EDGES, PACKED = "edges", "packed"


def lookup_numbers(labelled: Mapping[Fraction, int], plan: LookupPlan | None) -> dict[str, Tally]:
    """What of the data becomes weights of `memorise_points`: the edges of the groups' intervals, and the packed words."""
    if plan is None:
        return {EDGES: NOTHING, PACKED: NOTHING}
    groups = grouped(labelled, plan)
    return {
        EDGES: tally(corner for group in groups for corner in corners(*span(group.keys))),
        PACKED: tally(word for group in groups for word in (group.key_word, group.label_word)),
    }


def expected_lookup_numbers(plan: LookupPlan | None) -> dict[str, Tally]:
    """The same where the data have not been seen: no edge and no word is longer, and few are shorter."""
    if plan is None:
        return {EDGES: NOTHING, PACKED: NOTHING}
    words = (plan.group_size * plan.key_bits, plan.group_size * plan.label_bits)
    return {
        EDGES: alike(4 * plan.n_groups, plan.key_bits + 1),
        PACKED: total(alike(plan.n_groups, word) for word in words),
    }


def lookup_tally(plan: LookupPlan, numbers: Mapping[str, Tally]) -> Tally:
    """All weights of `memorise_points`, from its plan and its numbers of the data."""
    reads = alike(4 * plan.n_groups, 2)  # a bump reads its number doubled, and writes both words four times
    bumps = reads + numbers[EDGES] + numbers[PACKED].times(4)
    k, label_bits = plan.group_size, plan.label_bits
    compare = tally_of_steps([unit_bump("x", SCRATCH.key, {SCRATCH.hit: 1})])
    # reads the gate and the value, is held back by the gate, writes the value; three registers are cleared
    answer = alike(2, label_bits + 2) + alike(2 + 3 * 2, 1)
    words = total(_extraction(bits, k) for bits in (plan.key_bits, label_bits))
    return bumps + words + compare.times(k) + answer.times(k)


def _extraction(field_bits: int, n_fields: int) -> Tally:
    """The opening of a word and the extraction of all its bits.

    Bit t of a field, bit i of a word of n bits, is written with slope 2^(n+1-i) · 2^(field bits - t) and its double, for
    both copies of the word; the other weights of the units are 1, 1, 4, -2 and -1. Half the place value is added.
    """
    n = n_fields * field_bits
    below = field_bits * (field_bits - 1) // 2  # Σ_t (field bits - t)
    exponents = n * (n + 1) // 2 + n_fields * below
    slopes = Tally(4 * n, 2 * (2 * exponents + 3 * n), n + field_bits + 1)
    units = total((alike(3, 1), alike(1, 3), alike(1, 2))).times(2 * n)
    halves = Tally(n, n_fields * (below + 1), max(1, field_bits - 1))
    opening = alike(2, 1) + alike(1, n + 1) + alike(1, n + 2)
    return slopes + units + halves + opening
