"""Certified ranks: the section of the closed forms' benchmark for MFT24 Theorems 2 and 3."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

from closed_forms_shared import Row, timed

from byheart.construct.madden_2024.ranks import certified_determinant, polynomial_rank


def ranks(long: bool) -> Iterator[Row]:
    """Certified determinants and modular ranks, and the counterexamples to the printed theorems."""
    for n in (50, 100, 200):
        for activation in ("tanh", "gelu"):
            a = [Fraction(i + 1, n + 1) for i in range(n)]
            b = [Fraction(j + 1, n) for j in range(n)]
            found, seconds = timed(lambda: certified_determinant(activation, a, b, first_bits=20 * n))
            yield {
                "what": activation,
                "n": n,
                "full_rank": found.excludes_zero,
                "log10_det": found.log10_size,
                "bits": found.bits,
                "seconds": round(seconds, 1),
            }
    for n in (200, 1000):
        drawn = random.Random(0)
        rows, columns = (drawn.sample(range(1, 10**9), n) for _ in range(2))
        rank, seconds = timed(lambda: polynomial_rank({k: k + 1 for k in range(n)}, rows, columns))
        yield {"what": "polynomial", "n": n, "full_rank": rank.is_decided, "seconds": round(seconds, 1)}
    yield {
        "what": "x + x^3, b = (1, -1)",
        "n": 2,
        "full_rank": polynomial_rank({1: 1, 3: 1}, [3, 5], [1, -1]).is_decided,
    }
    for activation, signs in (("tanh", (1, -1)), ("gelu", (1, -1, 2, -2))):
        a = [Fraction(1, k) for k in (3, 5, 7, 11)[: len(signs)]]
        found = certified_determinant(
            activation,
            a,
            [Fraction(y) for y in signs],
            first_bits=4096,
            most_bits=4096,
        )
        yield {
            "what": f"{activation}, b = {signs}",
            "n": len(signs),
            "full_rank": found.excludes_zero,
            "log10_det": found.log10_size,
        }
