"""Lemmas C.1 and B.3: numbers on a line to labels, zero for every other number, with about √N blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from byheart.program.blocks import Blocks
from byheart.program.gadgets import (
    SCRATCH,
    Scratch,
    Word,
    keyed_extraction,
    subset_lookup,
)
from byheart.theorems import realises

UNITS = {"lookup": 4, "extract one": 4, "extract both": 8, "opening": 2, "compare": 4, "answer": 4}
"""Hidden units of each kind of block."""


@dataclass(frozen=True)
class LookupPlan:
    """How `n_points` labelled points are split into groups: `group_size` keys and labels packed in a word."""

    n_points: int
    key_bits: int
    label_bits: int
    group_size: int

    @property
    def n_groups(self) -> int:
        """⌈N / group size⌉, none of them empty."""
        return -(-self.n_points // self.group_size)

    def blocks(self) -> list[tuple[int, int]]:
        """(how many, hidden width) of the blocks of this plan."""
        longer, shorter = max(self.key_bits, self.label_bits), min(self.key_bits, self.label_bits)
        return [
            (self.n_groups, UNITS["lookup"]),
            (1, UNITS["opening"]),
            (self.group_size * (longer - shorter), UNITS["extract one"]),
            (self.group_size * shorter, UNITS["extract both"]),
            (self.group_size, UNITS["compare"]),
            (self.group_size, UNITS["answer"]),
        ]

    @property
    def depth(self) -> int:
        """Number of blocks."""
        return sum(n_blocks for n_blocks, _ in self.blocks())

    def parameters(self, model_width: int) -> int:
        """Entries of all weight matrices and biases of these blocks."""
        return sum(
            n_blocks * (2 * model_width * hidden + hidden + model_width) for n_blocks, hidden in self.blocks()
        )


Planner = Callable[[int, int, int, int], LookupPlan]
"""(n_points, key_bits, label_bits, model_width) to the way of splitting them."""


def plan_lookup(n_points: int, key_bits: int, label_bits: int, model_width: int) -> LookupPlan:
    """The group size with the fewest parameters.

    The theorem takes √(N / log N), which balances N/k blocks of lookup against k·bits blocks of extraction up to
    logarithms. With a parameters per lookup block and b per field, a·⌈N/k⌉ + b·k lies within a of its smooth version, which is
    least at k* = √(aN/b) and exceeds that by b(k - k*)²/k. So the best k has (k - k*)² <= a·k/b.
    """

    def cost(group_size: int) -> int:
        return LookupPlan(n_points, key_bits, label_bits, group_size).parameters(model_width)

    a = 2 * model_width * UNITS["lookup"] + UNITS["lookup"] + model_width
    b = cost(2) - cost(1) - a * (-(-n_points // 2) - n_points)
    centre = isqrt(a * n_points // b)
    reach = isqrt(2 * a * (centre + 1) // b) + 2
    nearby = range(max(1, centre - reach), min(n_points, centre + reach) + 1)
    return LookupPlan(n_points, key_bits, label_bits, min(nearby, key=cost, default=1))


@dataclass(frozen=True)
class LookupRegisters:
    """Registers of a lookup: x is read, `into` is added to, the others must be zero."""

    x: str = "x"
    into: str = "answer"
    keys_high: str = "keys_high"
    keys_low: str = "keys_low"
    labels_high: str = "labels_high"
    labels_low: str = "labels_low"
    scratch: Scratch = SCRATCH

    @property
    def words(self) -> tuple[str, ...]:
        """Registers that are left with remains, never negative, and must be cleared before another lookup."""
        return (self.keys_high, self.keys_low, self.labels_high, self.labels_low)


REGISTERS = LookupRegisters()


@realises("KS25-L C.1")
def memorise_points(
    labelled: Mapping[Fraction, int], plan: LookupPlan, registers: LookupRegisters = REGISTERS
) -> Blocks:
    """Add label(x) to the answer if x is one of the labelled numbers, 0 if x >= 2 is at least 2 away from them.

    Source:     KS25 Lemma C.1, Stages II and III (Stage I is `project_apart`).
    Assumes:    numbers at least 2 and at least 2 apart, ⌊number⌋ < 2^key_bits; labels in 1 .. 2^label_bits - 1.
    Guarantee:  exact, for the two cases above.
    Size:       `plan.blocks()`: N/k + k·(max(key bits, label bits) + 2) + 1 blocks, words of k·max(key bits, label bits) bits.
    Departs:    groups are consecutive runs of k numbers and √(N log N) is an integer by choice of k (erratum 5); keys and labels
                have ⌊log2⌋ + 1 bits and labels start at 1, so that 0 stays "no label" (erratum 3); words are kept
                as fractions x/2^n from the start, which saves the scaling block H.
    """
    groups = grouped(labelled, plan)
    key_word_bits, label_word_bits = plan.group_size * plan.key_bits, plan.group_size * plan.label_bits
    return (
        *subset_lookup(
            registers.x,
            [group.keys for group in groups],
            [
                {registers.keys_high: group.key_word, registers.labels_high: group.label_word}
                for group in groups
            ],
        ),
        *keyed_extraction(
            registers.x,
            Word(registers.keys_high, registers.keys_low, key_word_bits),
            Word(registers.labels_high, registers.labels_low, label_word_bits),
            plan.group_size,
            registers.into,
            registers.scratch,
        ),
    )


@dataclass(frozen=True)
class Group:
    """Neighbouring keys, and the words that hold their integer parts and their labels."""

    keys: Sequence[Fraction]
    key_word: Fraction
    label_word: Fraction


def grouped(labelled: Mapping[Fraction, int], plan: LookupPlan) -> list[Group]:
    """Consecutive runs of `plan.group_size` numbers."""
    numbers = sorted(labelled)
    assert len(numbers) == plan.n_points
    runs = [numbers[at : at + plan.group_size] for at in range(0, len(numbers), plan.group_size)]
    return [
        Group(
            run,
            _packed([int(x // 1) for x in run], plan.key_bits, plan.group_size),
            _packed([labelled[x] for x in run], plan.label_bits, plan.group_size),
        )
        for run in runs
    ]


def _packed(fields: Sequence[int], field_bits: int, n_fields: int) -> Fraction:
    """Fields side by side, the first leftmost, empty ones zero, as a fraction of 2^(all bits)."""
    word = 0
    for value in [*fields, *([0] * (n_fields - len(fields)))]:
        assert value < 1 << field_bits
        word = (word << field_bits) | value
    return Fraction(word, 1 << (field_bits * n_fields))


@realises("KS25-L B.3")
def weigh_words(
    values: Sequence[Fraction],
    weights: Mapping[int, int],
    key_bits: int,
    model_width: int,
    registers: LookupRegisters = REGISTERS,
    plan: Planner = plan_lookup,
) -> tuple[Blocks, LookupPlan | None]:
    """φ as a network: word w, standing at values[w] on the line, gets weights[w], or 0 if it has none.

    Source:     KS25 Lemma B.3.
    Assumes:    values at least 2 and at least 2 apart (Lemma C.2); weights as Lemma B.2 gives them.
    Guarantee:  exact on every word, so Σ φ over a sequence is its sequence id.
    Size:       that of `memorise_points` for as many points as there are weights; nothing if there are none.
    """
    if not weights:
        return (), None
    label_bits = max(weights.values()).bit_length()
    chosen = plan(len(weights), key_bits, label_bits, model_width)
    return memorise_points(
        {values[word]: weight for word, weight in weights.items()}, chosen, registers
    ), chosen
