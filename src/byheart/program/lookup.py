"""Lemmas C.1 and B.3 of KS25: map labelled numbers on a line to their labels and numbers far from them to zero, with about
√N blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt

from byheart.program.blocks import Blocks, Repeat, Step, typical_fraction
from byheart.program.count import count_steps
from byheart.program.gadgets import SCRATCH, KeyedExtraction, PackedRegister, interval_bump, subset_lookup
from byheart.theorems import realises

X, ANSWER = "x", "answer"
KEYS_HIGH, KEYS_LOW, LABELS_HIGH, LABELS_LOW = PACKED = ("keys_high", "keys_low", "labels_high", "labels_low")
"""The registers of the packed keys and labels of a group. After a lookup, they hold numbers that are not needed and not negative.
They must be cleared before another lookup.
"""

LOOKUP = (X, *PACKED, *SCRATCH, ANSWER)
"""All registers of a lookup. It reads `X` and adds to `ANSWER`; all others must be zero at the start."""


@dataclass(frozen=True)
class LookupPlan:
    """A split of `n_points` labelled points into groups.

    The keys of a group (the integer parts of its `group_size` points) are packed into one number, and its labels into another.
    """

    n_points: int
    key_bits: int
    label_bits: int
    group_size: int

    @property
    def n_groups(self) -> int:
        """The number of groups, ⌈n_points / group_size⌉. No group is empty."""
        return -(-self.n_points // self.group_size)

    def extraction(self) -> KeyedExtraction:
        """Return Stage III of KS25 Lemma C.1, which reads the label of x from the packed keys and labels of the group of x."""
        keys = PackedRegister(KEYS_HIGH, KEYS_LOW, self.group_size * self.key_bits)
        labels = PackedRegister(LABELS_HIGH, LABELS_LOW, self.group_size * self.label_bits)
        return KeyedExtraction(X, keys, labels, self.group_size, ANSWER)

    def outline(self) -> tuple[Step, ...]:
        """Return steps that stand for the blocks of `memorise_points` when their size is counted before the data are known.

        The weights of these steps are placeholders, about as long as the longest possible weights. For every group, both ends of
        its interval are set to the largest possible key, 2^key_bits - 1. A packed number has as many bits as all of its fields
        together. The packed numbers of actual data have fewer bits only if their last bits are zero.
        """
        furthest = (1 << self.key_bits) - 1
        group = {
            KEYS_HIGH: typical_fraction(self.group_size * self.key_bits),
            LABELS_HIGH: typical_fraction(self.group_size * self.label_bits),
        }
        bump = interval_bump(X, furthest, furthest, group)
        return (Repeat(self.n_groups, (bump,)), *self.extraction().outline())

    def parameters(self, model_width: int) -> int:
        """Return the number of entries in all weight matrices and biases of the blocks of `memorise_points`."""
        group, entry, opening = _costs(self.key_bits, self.label_bits, model_width)
        return group * self.n_groups + entry * self.group_size + opening


@lru_cache(maxsize=256)
def _costs(key_bits: int, label_bits: int, model_width: int) -> tuple[int, int, int]:
    """Return the numbers of parameters of three parts: the block that loads the words of one group, the blocks that extract one
    key and its label from these words, and the block that prepares the words for extraction.

    Weights that are zero are counted.
    """
    single = LookupPlan(1, key_bits, label_bits, 1)
    parts = (single.outline()[:1], single.extraction().entry(0), single.extraction().opening())
    group, entry, opening = (count_steps(steps, model_width).parameters_dense for steps in parts)
    return group, entry, opening


Planner = Callable[[int, int, int, int], LookupPlan]
"""A function that chooses a plan from (n_points, key_bits, label_bits, model_width)."""


def plan_lookup(n_points: int, key_bits: int, label_bits: int, model_width: int) -> LookupPlan:
    """Return the plan whose group size gives the fewest parameters.

    The paper uses groups of √(N / log N) points, where N is `n_points`. With groups of size k there are N/k blocks of lookup and
    k·bits blocks of extraction. The paper's choice makes these two numbers equal, up to logarithms.

    Let a lookup block have a parameters, and let the blocks that extract one key have b parameters. The total is
    a·⌈N/k⌉ + b·k. It exceeds the smooth function f(k) = aN/k + bk by less than a. The minimum of f is at k* = √(aN/b), and
    f(k) = f(k*) + b(k - k*)²/k. So the best whole number k satisfies |k - k*| <= √(a·k/b) + 1.
    """
    a, b, _ = _costs(key_bits, label_bits, model_width)

    def cost(group_size: int) -> int:
        return a * -(-n_points // group_size) + b * group_size

    centre = isqrt(a * n_points // b)
    reach = isqrt(2 * a * (centre + 1) // b) + 2
    nearby = range(max(1, centre - reach), min(n_points, centre + reach) + 1)
    return LookupPlan(n_points, key_bits, label_bits, min(nearby, key=cost, default=1))


@realises("KS25-L C.1")
def memorise_points(labelled: Mapping[Fraction, int], plan: LookupPlan) -> Blocks:
    """Return blocks that add label(x) to the answer if x is one of the labelled numbers.

    They add 0 if x is at least 2 and at least 2 away from all labelled numbers.

    Source:     KS25 Lemma C.1, Stages II and III (Stage I is `project_apart`).
    Assumes:    the numbers are at least 2 and differ by at least 2; ⌊number⌋ < 2^key_bits; labels are in 1 .. 2^label_bits - 1.
    Guarantee:  exact, for the two cases above.
    Size:       ⌈N/k⌉ + k·(max(key bits, label bits) + 2) + 1 blocks for N numbers in groups of k; packed numbers of
                k·max(key bits, label bits) bits.
    Departs:    groups are consecutive runs of k numbers for an integer k. The paper's number of groups, √(N log N), is not an
                integer (erratum 5). Keys and labels have ⌊log2 M⌋ + 1 bits for a largest value M, and labels start at
                1, so that 0 means "no label" (erratum 3). Packed numbers are fractions x/2^n from the start, which saves the
                scaling block H.
    """
    numbers = sorted(labelled)
    assert len(numbers) == plan.n_points
    groups = [numbers[at : at + plan.group_size] for at in range(0, len(numbers), plan.group_size)]
    packed = [
        {
            KEYS_HIGH: pack_fields([int(x // 1) for x in group], plan.key_bits, plan.group_size),
            LABELS_HIGH: pack_fields([labelled[x] for x in group], plan.label_bits, plan.group_size),
        }
        for group in groups
    ]
    return (*subset_lookup(X, groups, packed), *plan.extraction().blocks())


def pack_fields(fields: Sequence[int], field_bits: int, n_fields: int) -> Fraction:
    """Concatenate fields of `field_bits` bits, with the first one on the left (highest bits). Missing fields are zero.

    Returns the resulting number divided by 2^(n_fields · field_bits).
    """
    packed = 0
    for value in [*fields, *([0] * (n_fields - len(fields)))]:
        assert value < 1 << field_bits
        packed = (packed << field_bits) | value
    return Fraction(packed, 1 << (field_bits * n_fields))


@realises("KS25-L B.3")
def weigh_tokens(values: Sequence[Fraction], weights: Mapping[int, int], plan: LookupPlan | None) -> Blocks:
    """Return blocks that compute the token weight function φ.

    Token w was projected to the number values[w]. For this number, the blocks return weights[w], or 0 if w has no weight.

    Source:     KS25 Lemma B.3.
    Assumes:    values are at least 2 and differ by at least 2 (Lemma C.2); weights are those of Lemma B.2; `plan` is for as many
                points as there are weights, or None if there are none.
    Guarantee:  exact on every token, so the sum of φ over a sequence is its sequence id.
    Size:       that of `memorise_points`; nothing if there are no weights.
    """
    if plan is None:
        assert not weights
        return ()
    return memorise_points({values[token]: weight for token, weight in weights.items()}, plan)
