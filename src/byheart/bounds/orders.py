"""Results that papers state only as orders of growth. The expression inside O(.) is evaluated without a constant.

An `Order` is not a `Bound`: it gives the growth of a size, not the size itself. Orders and bounds are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

from byheart.bounds.enclosures import floor_log2
from byheart.bounds.sizes import require_ball, takes_sizes
from byheart.bounds.vc_dimension import smallest
from byheart.errors import ImpossibleSize
from byheart.theorems import realises


@dataclass(frozen=True)
class Order:
    """An order of growth: one row of a comparison. `value` is `expression` without a constant, evaluated in integers.

    `side` is "upper" if sizes of this order suffice, and "lower" if they are necessary. `n_layers` is the order of the depth.
    """

    name: str
    setting: str
    n_layers: str
    side: str
    expression: str
    value: int
    source: str


@realises("KS25-Tab1")
@takes_sizes()
def table_1(n_samples: int, seq_len: int, dim: int, vocab: int) -> tuple[Order, ...]:
    """Return Table 1 of Kajitsuka & Sato 2025 for one problem: the orders of growth of the parameters that suffice ("upper") or
    are necessary ("lower").
    """
    big_n, n, d, omega = n_samples, seq_len, dim, vocab
    tokens = n * big_n
    log_tokens = floor_log2(max(tokens, 2))
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


@takes_sizes()
def park_2021(n_samples: int, radius: Fraction | int, separation: Fraction | int) -> Order:
    """By Park et al. 2021, O(N^(2/3) + log(r/δ)) parameters suffice for a feed-forward network.

    The network memorises N = `n_samples` points with norm at most r = `radius`, at least δ = `separation` apart.
    """
    require_ball(radius, separation)
    ratio = Fraction(radius) / Fraction(separation)
    value = _cube_root(n_samples**2) + max(0, floor_log2(max(ratio, Fraction(1))))
    return Order(
        "PLYS21", "one vector per sample", "N^(2/3)", "upper", "N^(2/3) + log(r/δ)", value, "Park et al. 2021"
    )


def _cube_root(value: int) -> int:
    """Return the largest integer whose cube is at most `value`."""
    return smallest(lambda root: (root + 1) ** 3 > value, start=0)


@takes_sizes()
def fixed_precision(n_samples: int) -> tuple[Order, Order]:
    """By Yu, Gao & Zhang 2025, Θ(N) parameters are necessary and sufficient for N = `n_samples`, up to logarithms.

    This holds if every weight has a fixed number of bits, with or without chain of thought. The paper's constants cannot be
    evaluated. `pigeonhole.parameter_floor` gives the lower bound with its constant: for C classes, N·log2(C) bits divided by
    the bits of a weight. For a million facts of 10 bits, a float64 network of the construction `retrieval` without reject
    bits has about twice as many parameters as this bound.
    """
    source = "Yu, Gao & Zhang 2025, Analyzing the power of chain of thought through memorization capabilities"
    setting, expression = "autoregressive, fixed precision", "N up to logarithms"
    enough = Order("YGZ25", setting, "not said", "upper", expression, n_samples, source)
    return enough, replace(enough, side="lower")


@takes_sizes()
def robust_memorisation(n_samples: int, dim: int, ratio: Fraction) -> tuple[Order, Order]:
    """Return the orders of growth of Kim, Moon & Yun 2025, for ReLU networks that are right in a ball around each sample.

    The radius of the balls is ρ = `ratio` times half the separation.

    For N = `n_samples` and d = `dim`, Ω((ρ² min(N, d) + 1) d + min(1/√(1 - ρ²), √d) √N) parameters are necessary (Theorem 3.1),
    and Õ(N d²) suffice for every ρ < 1. For small ρ, Õ(√N) suffice. This case is not evaluated, because how small ρ must be
    depends on constants that are omitted here.
    """
    if not 0 < ratio < 1:
        raise ImpossibleSize(
            f"ratio {ratio} must be above 0 and below 1, so that balls around differently labelled samples "
            "do not overlap",
            ratio=ratio,
        )
    source = "Kim, Moon & Yun 2025, The cost of robustness"
    setting = f"one vector per sample, balls of radius ρ·separation/2 with ρ = {float(ratio):g}"
    inner = (ratio**2 * min(n_samples, dim) + 1) * dim
    # min(1/√(1 - ρ²), √d)·√N = √(min(1/(1 - ρ²), d)·N), rounded down
    root = isqrt((min(1 / (1 - ratio**2), Fraction(dim)) * n_samples).__floor__())
    needed = "(ρ² min(N, d) + 1) d + min(1/√(1 - ρ²), √d) √N"
    return (
        Order("KMY25", setting, "not said", "lower", needed, inner.__floor__() + root, source),
        Order("KMY25", setting, "not said", "upper", "N d²", n_samples * dim * dim, source),
    )


@takes_sizes()
def footnote_2(n_samples: int, seq_len: int) -> tuple[Order, Order]:
    """Return two orders of growth by Kajitsuka & Sato 2025: √(N log N)·log n in Theorem B.1, and √(N log(nN)) in footnote 2.

    N = `n_samples` and n = `seq_len`. The second grows more slowly with n. The networks that byheart builds follow the footnote.
    With groups of k samples, finding the group of an input needs N/k blocks, and extracting its label needs k·bits blocks, where
    bits is about log(nN). The networks use the k with the fewest parameters. The two numbers of blocks are then about equal, which
    gives about 2√(N·bits) blocks in all.
    """
    log_n_samples = floor_log2(max(n_samples, 2))
    log_seq_len = floor_log2(max(seq_len, 2))
    log_both = floor_log2(max(n_samples * seq_len, 2))
    source = "Kajitsuka & Sato 2025, Theorem B.1"
    value = isqrt(n_samples * log_n_samples) * log_seq_len
    printed = Order("KS25", "next-token", "√N", "upper", "√(N log N)·log n", value, source)
    sharper, source = isqrt(n_samples * log_both), f"{source}, footnote 2"
    return printed, replace(printed, expression="√(N log(nN))", value=sharper, source=source)


@realises("DPC24-S6")
@takes_sizes()
def section_6(n_sequences: int, n_tokens: int, seq_len: int, dim: int) -> tuple[Order, ...]:
    """Return the number of parameters for each construction that Dana, Pydi & Chevaleyre 2024 compare in section 6.

    The networks memorise T₀ = `n_sequences` associations of S = `seq_len` tokens from a dictionary of N = `n_tokens`. For
    Corollary 1, the number is 2S + 4N + 8T₀ up to an added constant. The others are only orders of growth.
    """
    t, n, s, d = n_sequences, n_tokens, seq_len, dim
    deep = s + n + isqrt(t * floor_log2(max(t, 2)))
    rows = (
        ("DPC24", "attention only, d = 2", "1", "upper", "2S + 4N + 8T₀", 2 * s + 4 * n + 8 * t, "Corollary 1"),
        ("KKM23", "deep, with MLPs", "√(T₀ log T₀)", "upper", "S + N + √(T₀ log T₀)", deep, "Kim et al. 2023"),
        ("HM23", "heads as neurons", "1", "upper", "(d + S)(S + N + T₀)", (d + s) * (s + n + t), "Huben & Morris 2023"),
        ("MLT23", "S <= d", "1", "upper", "d T₀", d * t, "Mahdavi et al. 2023: H heads store H(d_h - 1) + 1 sequences"),
        ("CDB24", "sequences of one token, d = T₀", "1", "upper", "d²", d * d, "Cabannes et al. 2024: d² entries hold d pairs"),
    )  # fmt: skip
    return tuple(Order(*row) for row in rows)
