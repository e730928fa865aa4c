"""Lemmas G.2 to G.6: bumps, subset lookup, bit extraction and keyed extraction, as residual programs.

Throughout, BIN_{i:j}(x) is the number written by bits i to j of x, counted from the left of a word of fixed width
(leading zeros kept; the paper's variable width would shift the fields).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from byheart.network.exact.dyadic import Dyadic
from byheart.program.blocks import Block, Blocks, Form, Step, Unit, clear, mean_of_ends, negate, side_by_side
from byheart.theorems import realises


def trapezoid(reads: Mapping[str, int], low: int, high: int, writes: Form) -> tuple[Unit, ...]:
    """Four units adding `writes` times the function that is 1 on [low, high] and 0 outside (low - 1/2, high + 1/2).

    With z = Σ reads · register the function is
    ReLU(2z - 2·low + 1) - ReLU(2z - 2·low) - ReLU(2z - 2·high) + ReLU(2z - 2·high - 1), one layer of ReLU.
    """
    doubled = {name: 2 * value for name, value in reads.items()}
    less = negate(writes)
    return (
        Unit(doubled, 1 - 2 * low, writes),
        Unit(doubled, -2 * low, less),
        Unit(doubled, -2 * high, less),
        Unit(doubled, -2 * high - 1, writes),
    )


@realises("KS25-L G.2")
def interval_bump(x: str, low: int, high: int, writes: Form) -> Block:
    """Add `writes` to the registers if x ∈ [low, high], nothing if x < low - 1/2 or x > high + 1/2.

    Source:     KS25 Lemma G.2 (Vardi et al. 2022).
    Assumes:    low <= high.
    Size:       1 block, 4 units (the paper: 2 plain layers of 2 units); biases of LEN(high) + 2 bits.
    Departs:    the paper composes two ReLU layers, ReLU(1 - ReLU(2·low - 2x) - ReLU(2x - 2·high)); one layer with four corners
                is the same function and halves the depth. The paper's bit count lacks one bit for the factor 2.
    """
    return Block(trapezoid({x: 1}, low, high, writes))


@realises("KS25-L G.3")
def subset_lookup(x: str, keys: Sequence[Sequence[Fraction]], words: Sequence[Form]) -> Blocks:
    """Add words[j] to the registers if x is a key of group j.

    Source:     KS25 Lemma G.3.
    Assumes:    keys ascending from group to group and within, any two at least 2 apart; no group is empty.
    Guarantee:  for x equal to a key of group j: exactly words[j] is added. For x at least 2 away from every key: nothing,
                or words[j] for one j.
    Size:       one block of 4 units per group (the paper: 3 plain layers per group).
    Departs:    the group of a key is given by the caller, which settles the paper's two indexings ⌈i/k⌉ and i mod k and
                leaves no empty groups (erratum 5).
    """
    return tuple(interval_bump(x, *span(group), word) for group, word in zip(keys, words, strict=True))


def span(group: Sequence[Fraction]) -> tuple[int, int]:
    """The interval on which the bump of a group is 1.

    x in the group lies in [⌊first⌋, ⌊last⌋ + 1]. Any other key or unknown number is below first - 2 < ⌊first⌋ - 1/2, above
    last + 2 > ⌊last⌋ + 1 + 1/2, or between two keys of the group, where the bump is 1: never on a slope.
    """
    return int(group[0] // 1), int(group[-1] // 1) + 1


@dataclass(frozen=True)
class PackedRegister:
    """Two registers that hold a number of `n_bits` bits while its bits are taken off from the left.

    After i bits they hold ψ^(i)(x/2^n + 1/2^(n+1)) and ψ^(i)(x/2^n + 1/2^(n+2)), with Telgarsky's triangle
    ψ(z) = ReLU(ReLU(2z) - ReLU(4z - 2)).
    """

    high: str
    low: str
    n_bits: int

    def opening(self) -> Block:
        """From x/2^n in `high` and 0 in `low` to the two shifted copies (the paper's H, eq. 161)."""
        adds = {self.high: Dyadic(1, -self.n_bits - 1), self.low: Dyadic(1, -self.n_bits - 2)}
        return Block((Unit({self.high: 1}, 0, {self.low: 1}),), adds)


@realises("KS25-L G.4")
def extract_bits(packed: PackedRegister, first: int, last: int, into: str) -> Blocks:
    """Take bits `first` to `last` (from 1) off a packed register and add BIN_{first:last} to the register `into`.

    Source:     KS25 Lemma G.4 (Vardi et al. 2022; Telgarsky's triangle).
    Assumes:    first - 1 bits have been taken off before.
    Guarantee:  afterwards `packed` holds ψ^(last) of its two copies.
    Size:       last - first + 1 blocks of 4 units (the paper: 3 plain layers per bit); weights of n_bits + 2 bits.
    Departs:    on [0, 1] the outer ReLU of ψ is idle and ReLU(2z) = 2·ReLU(z), so ψ is one residual block:
                z ← z + ReLU(z) - ReLU(4z - 2). Bits are added at their place value, which costs last - first more bits
                in the weights and saves the unit that would double the sum.
    """
    blocks = []
    for i in range(first, last + 1):
        # ψ^(i) rises on the dyadic interval of x if its bit i is 0 and falls if it is 1; the copies differ by 2^-(n+2), so
        # bit = 1/2 + 2^(n+1-i) (ψ^(i)(low copy) - ψ^(i)(high copy)). Its place value in BIN is 2^(last-i).
        exponent = packed.n_bits + 1 - i + last - i
        units = []
        for register, sign in ((packed.high, -1), (packed.low, 1)):
            units.append(Unit({register: 1}, 0, {register: 1, into: Dyadic(sign, exponent + 1)}))
            units.append(Unit({register: 4}, -2, {register: -1, into: Dyadic(-sign, exponent)}))
        blocks.append(Block(tuple(units), {into: Dyadic(1, last - i - 1)}))
    return tuple(blocks)


@realises("KS25-L G.5")
def unit_bump(x: str, y: str, writes: Form) -> Block:
    """Add `writes` if x ∈ [y, y + 1], nothing if x > y + 3/2 or x < y - 1/2.

    Source:     KS25 Lemma G.5 (Vardi et al. 2022).
    Size:       1 block, 4 units (the paper: 2 plain layers of 2 units).
    Departs:    four corners in one layer, as in `interval_bump`.
    """
    return Block(trapezoid({x: 1, y: -1}, 0, 1, writes))


KEY, VALUE, HIT = SCRATCH = ("key", "value", "hit")
"""Registers that keyed extraction uses and leaves at zero."""


@realises("KS25-L G.6")
@dataclass(frozen=True)
class KeyedExtraction:
    """Add to `into` the value whose key is ⌊x⌋; nothing if |x - 1/2 - key| > 1 for every key.

    Source:     KS25 Lemma G.6.
    Assumes:    `keys` and `values` hold n_entries fields each; keys that occur are at least 2 apart; scratch is zero. A field
                (0, 0) is not an entry: its key is 0, and x >= 2 is more than 3/2 away (erratum 4).
    Guarantee:  exact, for the two cases above.
    Size:       n_entries · (max(key bits, value bits) + 2) + 1 blocks, at most 8 units (paper: 3 plain layers per bit, width 12).
    Departs:    the paper exchanges ρ and c: keys have ρ bits, values have c bits, and the value is BIN_{cj+1:c(j+1)}(w) (errata
                2 and 3; (153) as printed reads the wrong field).
    """

    x: str
    keys: PackedRegister
    values: PackedRegister
    n_entries: int
    into: str

    def blocks(self) -> Blocks:
        """The opening, then entry after entry."""
        entries = (block for number in range(self.n_entries) for block in self.entry(number))
        return (*self.opening(), *entries)

    def outline(self) -> tuple[Step, ...]:
        """The same for counting: weights lose the same number of bits from each entry to the next."""
        return (*self.opening(), *mean_of_ends(0, self.n_entries - 1, self.entry))

    def opening(self) -> Blocks:
        """The block that prepares both packed registers."""
        return side_by_side((self.keys.opening(),), (self.values.opening(),))

    def entry(self, number: int) -> Blocks:
        """Take field `number` off both, and add the value if the key is that of x."""
        key_bits, value_bits = self.keys.n_bits // self.n_entries, self.values.n_bits // self.n_entries
        assert key_bits * self.n_entries == self.keys.n_bits
        assert value_bits * self.n_entries == self.values.n_bits
        gate = 1 << (value_bits + 1)
        # value < gate, so ReLU(gate · hit - gate + value) is value where hit = 1 and 0 where hit = 0
        answer = Unit({HIT: gate, VALUE: 1}, -gate, {self.into: 1})
        return (
            *side_by_side(
                extract_bits(self.keys, number * key_bits + 1, (number + 1) * key_bits, KEY),
                extract_bits(self.values, number * value_bits + 1, (number + 1) * value_bits, VALUE),
            ),
            unit_bump(self.x, KEY, {HIT: 1}),
            Block((answer, *clear(HIT, KEY, VALUE))),
        )
