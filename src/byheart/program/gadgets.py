"""Lemmas G.2 to G.6 of KS25 as residual programs: bumps, subset lookup, bit extraction and keyed extraction.

Here, BIN_{i:j}(x) is the number formed by bits i to j of x, counted from the left of a word of fixed width, so leading zeros count.
With the variable width of KS25, the fields would be shifted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from byheart.network.exact.dyadic import Dyadic
from byheart.program.blocks import Block, Blocks, Form, Step, Unit, clear, mean_of_ends, negate, side_by_side
from byheart.theorems import realises


def trapezoid(reads: Mapping[str, int], low: int, high: int, writes: Form) -> tuple[Unit, ...]:
    """Return four units of one ReLU layer that add `writes` times a function of z = Σ reads · register.

    The function is 1 on [low, high] and 0 outside (low - 1/2, high + 1/2). It equals
    ReLU(2z - 2·low + 1) - ReLU(2z - 2·low) - ReLU(2z - 2·high) + ReLU(2z - 2·high - 1).
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
    """Return a block that adds `writes` if x ∈ [low, high], and nothing if x < low - 1/2 or x > high + 1/2.

    Source:     KS25 Lemma G.2 (Vardi et al. 2022).
    Assumes:    low <= high.
    Size:       1 block, 4 units (the paper: 2 plain layers of 2 units); biases with 1 bit more than `high`, if low >= 0.
    Departs:    the paper composes two ReLU layers, ReLU(1 - ReLU(2·low - 2x) - ReLU(2x - 2·high)). One layer of four units
                computes the same function with half the depth. The paper's bit count omits one bit for the factor 2.
    """
    return Block(trapezoid({x: 1}, low, high, writes))


@realises("KS25-L G.3")
def subset_lookup(x: str, keys: Sequence[Sequence[Fraction]], words: Sequence[Form]) -> Blocks:
    """Return blocks that add words[j] to the registers if x is one of keys[j], the keys of group j.

    Source:     KS25 Lemma G.3.
    Assumes:    keys ascend within each group and from group to group, and any two differ by at least 2; no group is empty.
    Guarantee:  for x equal to a key of group j, exactly words[j] is added. For x at least 2 away from every key, either
                nothing or words[j] for one j is added.
    Size:       one block of 4 units per group (the paper: 3 plain layers per group).
    Departs:    the caller supplies the groups. The paper puts key i into group ⌈i/k⌉ in one place and into group i mod k in
                another, and some of its groups can be empty (erratum 5).
    """
    return tuple(interval_bump(x, *span(group), word) for group, word in zip(keys, words, strict=True))


def span(group: Sequence[Fraction]) -> tuple[int, int]:
    """Return the interval on which the bump function of a group is 1.

    It is [⌊first⌋, ⌊last⌋ + 1], where `first` and `last` are the first and the last key of the group, so it contains all keys of
    the group. Any other key, and any x at least 2 away from all keys, is at most first - 2 < ⌊first⌋ - 1/2, at least
    last + 2 > ⌊last⌋ + 1 + 1/2, or between two keys of the group, where the bump is 1. So no such number lies on a slope of the
    bump.
    """
    return int(group[0] // 1), int(group[-1] // 1) + 1


@dataclass(frozen=True)
class PackedRegister:
    """Two registers that hold a number x of n = `n_bits` bits. Bits are removed from it one by one, starting with the highest.

    Let ψ(z) = ReLU(ReLU(2z) - ReLU(4z - 2)) be Telgarsky's triangle function, and ψ^(i) its i-fold composition. After i bits are
    removed, the registers hold ψ^(i)(x/2^n + 1/2^(n+1)) and ψ^(i)(x/2^n + 1/2^(n+2)).
    """

    high: str
    low: str
    n_bits: int

    def opening(self) -> Block:
        """Return the block after which bits can be removed from the registers (the paper's H, eq. 161).

        Let x be the packed number and n = `n_bits`. Before the block, `high` holds x/2^n and `low` holds 0. After the block,
        `high` holds x/2^n + 1/2^(n+1) and `low` holds x/2^n + 1/2^(n+2).
        """
        adds = {self.high: Dyadic(1, -self.n_bits - 1), self.low: Dyadic(1, -self.n_bits - 2)}
        return Block((Unit({self.high: 1}, 0, {self.low: 1}),), adds)


@realises("KS25-L G.4")
def extract_bits(packed: PackedRegister, first: int, last: int, into: str) -> Blocks:
    """Return blocks that remove bits `first` to `last` from a packed register and add them as one number to the register `into`.

    Bits are counted from 1, starting at the highest.

    Source:     KS25 Lemma G.4 (Vardi et al. 2022; Telgarsky's triangle).
    Assumes:    the bits before bit `first` have been removed.
    Guarantee:  afterwards `packed` holds ψ^(last) of its two copies of x; `PackedRegister` defines ψ and the copies.
    Size:       last - first + 1 blocks of 4 units (the paper: 3 plain layers per bit); weights of at most
                n_bits + 2 + last - first bits.
    Departs:    on [0, 1] the outer ReLU of ψ changes nothing and ReLU(2z) = 2·ReLU(z), so ψ is one residual block:
                z ← z + ReLU(z) - ReLU(4z - 2). Each bit is added with its place value. Weights therefore have last - first more
                bits, but no unit is needed to double the sum.
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
    """Return a block that adds `writes` if x ∈ [y, y + 1], and nothing if x > y + 3/2 or x < y - 1/2.

    Source:     KS25 Lemma G.5 (Vardi et al. 2022).
    Size:       1 block, 4 units (the paper: 2 plain layers of 2 units).
    Departs:    one layer of four units, as in `interval_bump`.
    """
    return Block(trapezoid({x: 1, y: -1}, 0, 1, writes))


KEY, VALUE, HIT = SCRATCH = ("key", "value", "hit")
"""Registers that keyed extraction uses for intermediate results and leaves at zero."""


@realises("KS25-L G.6")
@dataclass(frozen=True)
class KeyedExtraction:
    """Blocks that add to `into` the value whose key is ⌊x⌋. They add nothing if |x - 1/2 - key| > 1 for every key.

    Source:     KS25 Lemma G.6.
    Assumes:    the registers `keys` and `values` each hold n_entries fields; keys that occur differ by at least 2; x >= 2; the
                scratch registers are zero. An unused field has the key 0 and the value 0, and no x >= 2 matches it (erratum 4).
    Guarantee:  exact, if ⌊x⌋ is a key or |x - 1/2 - key| > 1 for every key.
    Size:       n_entries · (max(key bits, value bits) + 2) + 1 blocks of at most 8 units each (paper: 3 plain layers per
                bit, width 12).
    Departs:    eq. (153) of the paper confuses ρ (the number of bits of a key) with c (that of a value), so it reads the wrong
                field. Here, value j is bits cj + 1 to c(j + 1) of the packed values (errata 2 and 3).
    """

    x: str
    keys: PackedRegister
    values: PackedRegister
    n_entries: int
    into: str

    def blocks(self) -> Blocks:
        """Return all blocks: the opening block, then those of each entry."""
        entries = (block for number in range(self.n_entries) for block in self.entry(number))
        return (*self.opening(), *entries)

    def outline(self) -> tuple[Step, ...]:
        """Return steps that stand for `blocks()` when their size is counted.

        The blocks of all entries are replaced by copies of those of the first and of the last entry. From each entry to the next,
        the number of weight bits decreases by the same amount. The total of the weight bits is therefore exact for one entry or
        an even number of entries, and slightly too large otherwise (see `mean_of_ends`).
        """
        return (*self.opening(), *mean_of_ends(0, self.n_entries - 1, self.entry))

    def opening(self) -> Blocks:
        """Return the block that prepares both packed registers, `keys` and `values`."""
        return side_by_side((self.keys.opening(),), (self.values.opening(),))

    def entry(self, number: int) -> Blocks:
        """Return the blocks of one entry.

        They remove its key and its value (field `number`) from the two packed registers, and add the value to `into` if the key
        matches x.
        """
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
