"""The pigeonhole bound: a model needs enough bits to distinguish all labellings (Kajitsuka & Sato 2025, Remarks 4.4 and
4.6)."""

from __future__ import annotations

from fractions import Fraction

from byheart.bounds.bound import KS25, Bound, Theorem, spell
from byheart.bounds.enclosures import ceil_fraction, log2, settle
from byheart.bounds.sizes import takes_sizes
from byheart.theorems import realises

_EXACT_POWER_BITS = 1 << 16


@takes_sizes(n_labels=0)
def label_bits(n_labels: int, n_classes: int) -> int:
    """Return ceil(log2(n_classes ** n_labels)), the exact number of bits that are needed to distinguish all labellings.

    If n_classes is a power of two, or if n_classes ** n_labels is small, the result is computed with integers. Otherwise, an
    interval around n_labels * log2(n_classes) is made shorter until both of its ends round up to the same integer. This always
    happens, because the product is irrational if n_classes is not a power of two, and a short interval around an irrational number
    contains no integer.
    """
    if n_classes & (n_classes - 1) == 0:
        return n_labels * (n_classes.bit_length() - 1)
    if n_labels * n_classes.bit_length() <= _EXACT_POWER_BITS:
        largest: int = n_classes**n_labels - 1
        return largest.bit_length()
    start_bits = 64 + n_labels.bit_length()
    return settle(lambda bits: log2(n_classes, bits) * n_labels, ceil_fraction, start_bits)


def _counting(remark: str, n_labels: int, n_classes: int) -> Bound:
    bits = label_bits(n_labels, n_classes)
    labellings = f"{spell(n_classes)}^{spell(n_labels)} labellings"
    theorem = KS25.theorem(f"Remark {remark} (counting)", f"KS25-R{remark}", f"Remark {remark}")
    assumptions = (
        f"one fixed format must be able to store each of the {labellings}",
        "the contexts are distinct, one label each",
    )
    sentence = (
        f"{spell(n_labels)} labels from {spell(n_classes)} classes allow {labellings}, so a model that may have to "
        f"hold any one of them needs at least {spell(bits)} bits."
    )
    return theorem.bound("bits", "lower", bits, assumptions, sentence)


@realises("KS25-R4.4")
@takes_sizes(n_samples=0)
def counting_next_token(n_samples: int, n_classes: int) -> Bound:
    """Remark 4.4: to store one of C = `n_classes` labels for each of N = `n_samples` distinct contexts, N log2 C bits are
    needed.
    """
    return _counting("4.4", n_samples, n_classes)


@realises("KS25-R4.6")
@takes_sizes(n_samples=0)
def counting_seq_to_seq(n_samples: int, seq_len: int, n_classes: int) -> Bound:
    """Remark 4.6: to store a label for each token of N = `n_samples` sequences of n = `seq_len` distinct tokens, nN log2 C bits
    are needed, where C = `n_classes`.
    """
    return _counting("4.6", n_samples * seq_len, n_classes)


@takes_sizes(bits=0)
def parameter_floor(bits: int, bits_per_parameter: int) -> Bound:
    """Return the number of parameters needed to hold `bits` bits, if each parameter holds `bits_per_parameter` bits."""
    value = ceil_fraction(Fraction(bits, bits_per_parameter))
    word = f"{bits_per_parameter} bits"
    name = f"information floor at {word} per parameter"
    floor = Theorem(name, "KS25-bits", "Kajitsuka & Sato 2025, section 3.3 and Remark 4.4")
    assumptions = (f"every parameter is stored in at most {word}",)
    sentence = f"{spell(bits)} bits need at least {spell(value)} parameters of {word}."
    return floor.bound(f"parameters of {word}", "lower", value, assumptions, sentence)
