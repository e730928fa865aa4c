"""The size of one lookup: roots settled exactly, and one size worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from math import pi, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds.lookup import (
    Points,
    RootOfPi,
    batched_lookup_size,
    dense_parameters,
    group_count,
    group_size,
    lookup_size,
    normalise,
)
from byheart.errors import ImpossibleSize
from byheart.theorems import checks
from tests.examples import examples

# 16 points of R^3 within the unit ball, 32 in all, at distance 1:
# R = 20 · 32² · √(3π) = 20480 · 3.06998... = 62,873.2..., between 2^15 and 2^16: keys of 16 bits
UNIT = Points(32, 3, Fraction(1), 0, Fraction(1))


def test_group_count_and_size_against_whole_powers() -> None:
    for n in range(2, 120):
        m, k = group_count(n), group_size(n)
        # m >= √(n log2 n)  <=>  2^(m²) >= n^n;  k >= √(n / log2 n)  <=>  n^(k²) >= 2^n
        assert 2 ** (m * m) >= n**n > 2 ** ((m - 1) ** 2)
        assert n ** (k * k) >= 2**n > n ** ((k - 1) ** 2)
    assert (group_count(1), group_size(1)) == (1, 1)


def test_group_count_where_the_root_is_whole() -> None:
    # N = 16: N log2 N = 64 and N / log2 N = 4, both squares; N = 2^16: 2^20 and 2^12
    assert (group_count(16), group_size(16)) == (8, 2)
    assert (group_count(2**16), group_size(2**16)) == (1024, 64)


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**12), st.integers(0, 3))
@examples(200)
def test_roots_of_pi(square: Fraction, power: int) -> None:
    root = RootOfPi(square, power)
    near = sqrt(float(square) * pi**power)
    assert 2.0 ** root.floor_log2() <= near * (1 + 1e-12)
    assert near * (1 - 1e-12) < 2.0 ** (root.floor_log2() + 1)
    assert near * (1 - 1e-12) <= root.ceil() < near * (1 + 1e-12) + 1


def test_a_root_next_to_a_power_of_two_is_settled() -> None:
    # q π is within 10^-60 of 4 from below, so 64 bits of π cannot tell; q is cut from 4/π
    from byheart.bounds.enclosures import pi as enclosed

    q = 4 / enclosed(400).high
    assert RootOfPi(q, 1).floor_log2() == 0
    assert RootOfPi(q, 1).ceil() == 2
    assert RootOfPi(4 / enclosed(400).low, 1).floor_log2() == 1


@checks("KS25-L C.1")
def test_lemma_c_1_by_hand() -> None:
    # N = 16: m = 8, k = 2; R = 62,873 -> 16 bits; C = 1000 -> ⌊9.96...⌋ + 1 = 10 bits; the slot takes 16
    # depth (110): 2 + (3·8 + 2) + (3·2·16 + 2·2 + 2) = 2 + 26 + 102 = 130
    # bits (111): projection 3·3·32²·√π = 16,334.9... -> 14; lookup 2·16 + 16 + 1 = 49; extraction 2·16 + 2 = 34
    assert lookup_size(UNIT, 16, 1000) == type(lookup_size(UNIT, 16, 1000))(depth=130, weight_bits=49)
    # labels longer than keys: C = 2^20 has 21 bits, so 2 + 26 + (3·2·21 + 6) = 160 and 2·21 + 17 = 59
    wide = lookup_size(UNIT, 16, 2**20)
    assert (wide.depth, wide.weight_bits) == (160, 59)


@checks("KS25-L F.1")
def test_lemma_f_1_by_hand() -> None:
    # B = 2: batches of 4 points, m = ⌈√(4·2)⌉ = 3, k = ⌈√(4/2)⌉ = 2; 16 points make 4 batches
    # depth: 2 + 4 · [(3·3 + 2) + (3·2·16 + 4 + 2)] + 1 = 2 + 4 · 113 + 1 = 455; bits 2·16 + 17 = 49
    two = batched_lookup_size(UNIT, 16, 1000, 2)
    assert (two.depth, two.weight_bits) == (455, 49)
    # B = 1: one key a group, 16 batches: 2 + 16 · [(3 + 2) + (3·16 + 2 + 2)] + 1 = 2 + 16 · 57 + 1 = 915; 16 + 17 = 33
    one = batched_lookup_size(UNIT, 16, 1000, 1)
    assert (one.depth, one.weight_bits) == (915, 33)
    # 18 points in batches of 4: the last batch is short, and there are 5
    assert batched_lookup_size(UNIT, 18, 1000, 2).depth == 2 + 5 * 113 + 1


@pytest.mark.parametrize("batch_root", [0, 5])
def test_lemma_f_1_refuses_a_batch_that_does_not_fit(batch_root: int) -> None:
    with pytest.raises(ImpossibleSize):
        batched_lookup_size(UNIT, 16, 1000, batch_root)


def test_normalise_and_dense_parameters() -> None:
    assert normalise(0.5, 3) == (1, 1)
    assert normalise(7, 0.25) == (7, Fraction(1, 4))
    with pytest.raises(ImpossibleSize):
        normalise(1, 0)
    # width 3, 2 layers, 5 inputs: 15 + 2 · 12 + 3
    assert dense_parameters(3, 2, 5) == 42
