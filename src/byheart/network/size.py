"""The size of a network, in every unit that byheart reports."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from byheart.network.exact.dyadic import nonzero_values
from byheart.network.protocol import FLOAT_BITS, Network, NetworkSpec, Precision
from byheart.theorems import realises


@dataclass(frozen=True)
class Size:
    """The sizes of one network.

    parameters_dense    entries of all weight matrices of the architecture, including embeddings and biases
    parameters_nonzero  the entries that are not zero
    depth               layers: feed-forward blocks and attention layers (KS25's number of blocks)
    width               max(m, s·H, q) over all layers (KS25 section 3.2): m channels of the residual stream, H heads of size s, q
                        hidden units
    weight_bits         the most bits that any weight needs: the bit complexity of the network (KS25 section 3.3). If weights are
                        floats, the bits of the widest stored type
    total_bits          bits of the weights. If weights are exact, only the digits of non-zero weights are counted; `stored_bits`
                        also counts what is needed to read them back. If weights are floats, all weights and their scales count
    """

    parameters_dense: int
    parameters_nonzero: int
    depth: int
    width: int
    weight_bits: int
    total_bits: int

    @property
    def stored_bits(self) -> int:
        """The bits of a compact encoding of these weights, by which all constructions are compared. Files use a different encoding.

        A weight of a float or int8 network takes all bits of its type, even if it is zero. An exact weight takes its digits, a sign
        and the position of its binary point. Either every weight gets as many digits as the longest one, or, if this takes fewer
        bits, only the non-zero weights are stored, each with its number of digits and its index.
        """
        words = self.weight_bits * self.parameters_dense
        # An int8 network stores whole bytes, at least one per weight. A `Size` does not say which networks are int8, so an exact
        # network whose longest weight has 32 bits is taken for one if its digits happen to fill such bytes. Likewise, an exact
        # network is taken for a float network if all its weights have equally many digits.
        is_bytes = self.total_bits % 8 == 0 and self.total_bits >= 8 * self.parameters_dense
        if self.total_bits == words or (self.weight_bits == WIDEST_BITS["int8"] and is_bytes):
            return self.total_bits
        length = int(self.weight_bits).bit_length()
        place = max(int(self.parameters_dense) - 1, 0).bit_length()
        sparse = self.total_bits + self.parameters_nonzero * (1 + 2 * length + place)
        return min(sparse, self.parameters_dense * (1 + length) + words)

    def bits_per_stored_bit(self, label_bits: float) -> float | None:
        """Return the number of label bits divided by the number of bits that store the weights.

        Return None if there are more label bits than stored bits. The weights are then a compressed form of the labels, so the
        labels are not arbitrary, and the ratio would say nothing about the capacity of weights.
        """
        return label_bits / max(1, self.stored_bits) if label_bits <= self.stored_bits else None

    def bits_per_parameter(self, label_bits: float) -> float | None:
        """Return the number of label bits divided by the number of entries of all weight matrices, including entries that are zero.

        Return None if `bits_per_stored_bit` is None.
        """
        return None if self.bits_per_stored_bit(label_bits) is None else label_bits / self.parameters_dense

    def __add__(self, other: Size) -> Size:
        """Return the total size of two parts of a network that run one after the other."""
        return Size(
            self.parameters_dense + other.parameters_dense,
            self.parameters_nonzero + other.parameters_nonzero,
            self.depth + other.depth,
            max(self.width, other.width),
            max(self.weight_bits, other.weight_bits),
            self.total_bits + other.total_bits,
        )

    def times(self, n_copies: int) -> Size:
        """Return the total size of `n_copies` equal parts that run one after the other."""
        if not n_copies:
            return NOTHING
        return replace(
            self,
            parameters_dense=n_copies * self.parameters_dense,
            parameters_nonzero=n_copies * self.parameters_nonzero,
            depth=n_copies * self.depth,
            total_bits=n_copies * self.total_bits,
        )


NOTHING = Size(0, 0, 0, 0, 0, 0)
WIDEST_BITS: dict[Precision, int] = {**FLOAT_BITS, "int8": 32}
"""Bits of the widest stored weight for each precision. An int8 network stores embeddings and some biases in 32 bits."""


@realises("KS25-bits", "KS25-eq4")
def size_of_network(network: Network) -> Size:
    """Count the parameters, layers and bits of `network`. Layers are computed from its shape; weights are counted one by one."""
    spec = network.spec
    if network.precision == "exact":
        bits = [value.bits for _, weights in network.parameters() for value in nonzero_values(weights)]
        return size_of_spec(spec, len(bits), max(bits, default=0), sum(bits))
    n_nonzero = sum(int(np.count_nonzero(np.asarray(weights))) for _, weights in network.parameters())
    return size_of_spec(spec, n_nonzero, total_bits=network.stored_bits)


def size_of_spec(
    spec: NetworkSpec,
    n_nonzero: int | None = None,
    weight_bits: int | None = None,
    total_bits: int | None = None,
) -> Size:
    """Return the size of a network of this shape.

    If `n_nonzero` is not given, all weights count as non-zero. If `weight_bits` or `total_bits` is not given, it is computed as if
    every weight had the widest type that a network of this precision stores. For exact weights, which have no such type, it is 0.
    """
    dense, word = spec.parameters_dense, WIDEST_BITS.get(spec.precision, 0)
    return Size(
        dense,
        dense if n_nonzero is None else n_nonzero,
        spec.depth,
        spec.width,
        word if weight_bits is None else weight_bits,
        word * dense if total_bits is None else total_bits,
    )
