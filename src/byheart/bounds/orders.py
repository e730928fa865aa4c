"""Results printed as orders of growth only: the expression inside O(.), evaluated, and no constant implied.

An `Order` is not a `Bound`: it says how a size grows, not how large it is, and nothing compares it with one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from byheart.bounds.enclosures import floor_log2
from byheart.theorems import realises


@dataclass(frozen=True)
class Order:
    """One row of a comparison: `value` is `expression` evaluated in whole numbers, without a constant."""

    name: str
    setting: str
    n_layers: str
    side: str
    expression: str
    value: int
    source: str


@realises("KS25-Tab1")
def table_1(n_samples: int, seq_len: int, dim: int, vocab: int) -> tuple[Order, ...]:
    """KS25 Table 1 for one problem: orders of parameters that suffice ("upper") or are needed ("lower")."""
    big_n, n, d, omega = n_samples, seq_len, dim, vocab
    tokens = n * big_n
    log_tokens = max(1, floor_log2(max(tokens, 2)))
    hard = isqrt(tokens // log_tokens)
    rows = (
        ("KKM23", "seq-to-seq", "n + √(nN)", "upper", "n + √(nN)", n + isqrt(tokens), "Kim et al. 2023"),
        ("MLT23", "next-token", "1", "upper", "d²N/n", d * d * big_n // n, "Mahdavi et al. 2023"),
        ("KS23", "seq-to-seq", "1", "upper", "dnN + d²", d * tokens + d * d, "Kajitsuka & Sato 2023"),
        ("MFT24", "next-token", "1", "upper", "ωN", omega * big_n, "Madden et al. 2024"),
        ("MFT24", "next-token", "1", "lower", "ωN", omega * big_n, "Madden et al. 2024"),
        ("KS25", "next-token", "√N", "upper", "√N", isqrt(big_n), "Kajitsuka & Sato 2025"),
        ("KS25", "next-token", "√N", "lower", "√N", isqrt(big_n), "Kajitsuka & Sato 2025"),
        ("KS25", "seq-to-seq", "√(nN)", "upper", "√(nN)", isqrt(tokens), "Kajitsuka & Sato 2025"),
        ("KS25", "seq-to-seq", "√(nN)", "lower", "√(nN/log(nN))", hard, "Kajitsuka & Sato 2025"),
    )  # fmt: skip
    return tuple(Order(*row) for row in rows)


def park_2021(n_samples: int, radius: Fraction | int, separation: Fraction | int) -> Order:
    """PLYS21: O(N^(2/3) + log(r/δ)) parameters of a feed-forward network on separated points."""
    ratio = Fraction(radius) / Fraction(separation)
    value = _cube_root(n_samples**2) + max(0, floor_log2(max(ratio, Fraction(1))))
    return Order(
        "PLYS21", "one vector per sample", "N^(2/3)", "upper", "N^(2/3) + log(r/δ)", value, "Park et al. 2021"
    )


def _cube_root(value: int) -> int:
    """The largest integer whose cube is at most `value`."""
    low, high = 0, 1 << (value.bit_length() // 3 + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 <= value else (low, middle)
    return low
