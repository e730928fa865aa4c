"""Sizes that suffice, worked out by hand, and how they move."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds import (
    TheoremSize,
    corollary_4_1,
    theorem_4_1,
    theorem_d_1,
    theorem_e_1,
    theorem_f_1,
)
from byheart.errors import ImpossibleSize
from byheart.theorems import checks
from tests.examples import examples


def numbers(size: TheoremSize) -> tuple[int, int, int, int]:
    return size.width, size.depth, size.parameters, size.weight_bits


@checks("KS25-T4.1", "KS25-T B.1")
def test_theorem_4_1_by_hand() -> None:
    # N = 16, n = 2, C = 16, d = 3, r = δ = 1; m = 8 groups, k = 2 keys.
    # First part: V = nN = 32, R₁ = 20 · 32² · √(3π) = 62,873.2 -> 16 bits; C₁ = ⌈4 · 16³ · √π⌉ = ⌈29,039.88⌉ = 29,040
    #   -> 15 bits; depth 2 + (3·8 + 2) + (3·2·16 + 2·2 + 2) = 130; bits 2·16 + 16 + 1 = 49.
    # Second part: R = 400 · √9 · 2³ · 16⁵ · π = 3.16243...·10^10, between 2^34 and 2^35 -> 35 bits; C = 16 -> 5 bits;
    #   depth 2 + 26 + (3·2·35 + 4 + 2) = 244; bits 2·35 + 35 + 1 = 106.
    # Together: depth 130 + 244 + 1 = 375; parameters 14·3 + 374·210 + 14 + 4·14² = 42 + 78,540 + 14 + 784 = 79,380.
    size = theorem_4_1(16, 2, 16, 3)
    assert numbers(size) == (14, 375, 79_380, 106)
    assert size.total_bits == 79_380 * 106


@checks("KS25-T4.1")
def test_theorem_4_1_as_bounds() -> None:
    size = theorem_4_1(16, 2, 16, 3)
    bounds = {bound.quantity: bound for bound in size.bounds()}
    assert {quantity: bound.value for quantity, bound in bounds.items()} == {
        "parameters": 79_380,
        "depth at width 14": 375,
        "bits per weight": 106,
        "bits": 79_380 * 106,
    }
    assert {bound.kind for bound in bounds.values()} == {"upper"}
    assert all("Theorem B.1" in bound.source for bound in bounds.values())
    assert "79,380 parameters suffice" in bounds["parameters"].sentence


@checks("KS25-T4.1")
def test_a_single_sample_forms_one_group() -> None:
    # N = n = C = d = r = δ = 1. First: R₁ = 20√π = 35.4 -> 6 bits; C₁ = ⌈4√π⌉ = 8 -> 4 bits; depth 2 + 5 + (18 + 4) = 29
    # Second: R = 400 √3 π = 2176.6 -> 12 bits; depth 2 + 5 + (36 + 4) = 47. Together 29 + 47 + 1 = 77.
    assert theorem_4_1(1, 1, 1, 1).depth == 77


@checks("KS25-C4.1")
def test_corollary_4_1_is_theorem_4_1_for_every_token() -> None:
    # N = 8 sequences of n = 2 tokens: nN = 16 sequences, as in the hand-made theorem above
    assert numbers(corollary_4_1(8, 2, 16, 3)) == numbers(theorem_4_1(16, 2, 16, 3))


@checks("KS25-T F.1")
def test_theorem_f_1_by_hand() -> None:
    # as above with B = 1: 16 batches of one key. First part: slot 16, 2 + 16·[(3 + 2) + (3·16 + 2 + 2)] + 1 = 915;
    # second part: slot 35, 2 + 16·[5 + (3·35 + 4)] + 1 = 1827; depth 915 + 1827 + 1 = 2743.
    # Bits 35 + 35 + 1 = 71. Width 15: 15·3 + 2742·240 + 15 + 4·225 = 45 + 658,080 + 15 + 900 = 659,040.
    assert numbers(theorem_f_1(16, 2, 16, 3, batch_root=1)) == (15, 2743, 659_040, 71)


@checks("KS25-T F.1")
def test_theorem_f_1_trades_parameters_for_bits() -> None:
    sizes = [theorem_f_1(10**6, 8, 16, 4, 1, Fraction(1, 100), batch_root=b) for b in (1, 10, 100, 1000)]
    assert [s.parameters for s in sizes] == sorted((s.parameters for s in sizes), reverse=True)
    assert [s.weight_bits for s in sizes] == sorted(s.weight_bits for s in sizes)


@checks("KS25-T D.1")
def test_theorem_d_1_by_hand() -> None:
    # N = 16, M = 2, C = 16, d = 3: φ as in Theorem 4.1, depth 130 and 49 bits; ρ: R = 80 · 2 · 16⁵ · π = 5.2707...·10^8,
    # between 2^28 and 2^29 -> 29 bits; depth 2 + 26 + (3·2·29 + 6) = 208; bits 2·29 + 30 = 88.
    # Parameters: φ 12·3 + 130·156 + 12 = 20,328; ρ 12 + 208·156 + 12 = 32,472.
    assert numbers(theorem_d_1(16, 2, 16, 3)) == (12, 338, 52_800, 88)


@checks("KS25-T E.1")
def test_theorem_e_1_by_hand() -> None:
    # N = 16, n = 2, C = 16, ω = 10: weights up to ⌈4 · 16² · √π · 10⌉ = ⌈18,149.93⌉ = 18,150; norm 2 · 18,150 + 10 = 36,310
    # R = 20 · 36,310 · 16² · 2 · √(3π) = 1.14145...·10^9, between 2^30 and 2^31 -> 31 bits
    # depth 2 + 26 + (3·2·31 + 6) = 220, plus attention 221; bits 2·31 + 32 = 94
    # parameters 3·10 + 4·9 + (12·3 + 220·156 + 12) = 30 + 36 + 34,368 = 34,434
    assert numbers(theorem_e_1(16, 2, 16, 10)) == (12, 221, 34_434, 94)


@checks("KS25-T E.1")
def test_theorem_e_1_pays_for_the_vocabulary() -> None:
    small, large = theorem_e_1(1000, 8, 16, 10**3), theorem_e_1(1000, 8, 16, 10**9)
    assert large.parameters - small.parameters >= 3 * (10**9 - 10**3)


sizes = st.integers(1, 10**12)


@checks("KS25-T4.1")
@given(sizes, st.integers(1, 10**12), st.integers(1, 10**6), sizes, st.integers(1, 10**6))
@examples(200)
def test_more_of_anything_never_takes_less(
    n_samples: int, more: int, seq_len: int, n_classes: int, dim: int
) -> None:
    base = theorem_4_1(n_samples, seq_len, n_classes, dim)
    for larger in (
        theorem_4_1(n_samples + more, seq_len, n_classes, dim),
        theorem_4_1(n_samples, seq_len + more, n_classes, dim),
        theorem_4_1(n_samples, seq_len, n_classes + more, dim),
        theorem_4_1(n_samples, seq_len, n_classes, dim + more),
        theorem_4_1(n_samples, seq_len, n_classes, dim, radius=more),
        theorem_4_1(n_samples, seq_len, n_classes, dim, separation=Fraction(1, more)),
    ):
        assert larger.depth >= base.depth
        assert larger.parameters >= base.parameters
        assert larger.weight_bits >= base.weight_bits


@checks("KS25-T4.1")
def test_depth_grows_as_the_square_root() -> None:
    # Õ(√N): 100 times the samples, 10 times the depth, up to a slowly growing factor
    depths = [theorem_4_1(10**k, 8, 16, 4).depth for k in range(4, 21, 2)]
    ratios = [b / a for a, b in pairwise(depths)]
    assert all(9 < ratio < 13 for ratio in ratios)
    assert ratios[-1] < ratios[0]


def test_nothing_overflows() -> None:
    size = theorem_4_1(10**30, 10**15, 10**300, 10**12, 1e300, 5e-324)
    assert size.depth > 10**15
    assert size.total_bits > 10**30


@pytest.mark.parametrize(
    "call",
    [
        lambda: theorem_4_1(0, 1, 1, 1),
        lambda: theorem_d_1(1, 0, 1, 1),
        lambda: theorem_e_1(1, 1, 1, 0),
        lambda: theorem_4_1(1, 1, 1, 1, -1, 1),
    ],
)
def test_impossible_sizes_are_refused(call: object) -> None:
    with pytest.raises(ImpossibleSize):
        call()
