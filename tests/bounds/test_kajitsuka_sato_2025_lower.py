"""Sizes that are necessary: worked out by hand, and never above what a network that does it has."""

from __future__ import annotations

import itertools
from math import e, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds.kajitsuka_sato_2025_lower import (
    BlockShape,
    log2_hard_attention_patterns,
    remark_4_3,
    theorem_4_2,
    theorem_4_2_depth,
    theorem_4_2_shallow,
    theorem_4_3,
    theorem_4_3_depth,
)
from byheart.bounds.vc_dimension import uniform_width_vc_dimension
from byheart.errors import ImpossibleSize
from byheart.theorems import checks
from tests.examples import examples

TINY = BlockShape(dim=1, model_width=1, head_size=1, n_heads=1, hidden_width=1)


@checks("KS25-R4.3")
def test_remark_4_3() -> None:
    assert (remark_4_3(768).value, remark_4_3(768).kind) == (768, "lower")


@checks("KS25-T4.2", "KS25-T B.2")
def test_theorem_4_2_by_hand() -> None:
    # the smallest W with W (W/2 + log2(16 e N)) >= N. N = 10^4: log2(434,925) = 18.7304...;
    # 123 · (61.5 + 18.7304) = 9,868.3 < 10^4 <= 124 · (62 + 18.7304) = 10,010.6
    bound = theorem_4_2(10**4)
    assert (bound.value, bound.kind, bound.quantity) == (124, "lower", "parameters")
    assert "at least 124 parameters" in bound.sentence


@checks("KS25-T4.2")
def test_theorem_4_2_tends_to_the_root_of_2n() -> None:
    for k in (12, 24, 48):
        value = theorem_4_2(2 * 10**k).value
        assert 0.99 * 2 * 10 ** (k // 2) < value < 2 * 10 ** (k // 2)


@checks("KS25-T4.2")
def test_theorem_4_2_depth_is_the_first_whose_vc_bound_reaches_n() -> None:
    for n_samples in (10**4, 10**6, 10**12):
        depth = int(theorem_4_2_depth(n_samples, dim=4, width=14).value)
        assert uniform_width_vc_dimension(14, depth, 4) >= n_samples
        assert depth == 1 or uniform_width_vc_dimension(14, depth - 1, 4) < n_samples


@checks("KS25-T4.2")
def test_theorem_4_2_for_shallow_networks_by_hand() -> None:
    # L = 6 maps, W = 40: R = 6 · 21 = 126, 2 e R = 685.0, log2 of it 9.4199; S = 240;
    # 6 + 240 · log2(1370.0 · 9.4199) = 6 + 240 · 13.6556 = 3,283.3, so 3,283 points need 40 parameters or fewer ...
    assert theorem_4_2_shallow(3_283, 6).value == 40
    # ... and W = 39 (R = 120, S = 234) reaches 6 + 234 · log2(1304.8 · 9.3496) = 6 + 234 · 13.5744 = 3,182.4 only
    assert theorem_4_2_shallow(3_182, 6).value == 39
    assert theorem_4_2_shallow(3_183, 6).value == 40
    # a shallow network needs many more parameters than one of any depth
    assert theorem_4_2_shallow(10**9, 50).value > 10 * theorem_4_2(10**9).value


@checks("KS25-T4.3", "KS25-T B.3")
def test_theorem_4_3_by_hand() -> None:
    # N = 10^4, n = 8: nN = 80,000; log2(48 e · 512 · 10^4) = log2(6.6805...·10^8) = 29.3153...
    # (W² + W) >= 80,000 / 29.3153 = 2,728.9...: 51 · 52 = 2,652 < 2,728.9 <= 52 · 53 = 2,756
    bound = theorem_4_3(10**4, 8)
    assert (bound.value, bound.kind) == (52, "lower")
    # one output a sequence: 10^4 / 29.3153 = 341.1...: 17 · 18 = 306 < 341.1 <= 18 · 19 = 342
    assert theorem_4_3(10**4, 8, 10**4).value == 18
    assert theorem_4_3(5, 2, 0).value == 0


@checks("KS25-T4.3")
def test_theorem_4_3_is_at_least_as_strong_as_its_printed_form() -> None:
    # (95), (96): nN <= 9 W² log2(48 e n N), so the printed W is the root of nN / (9 log2(48 e n N))
    for n_samples, seq_len in itertools.product((10, 10**3, 10**9), (1, 8, 10**4)):
        printed = (n_samples * seq_len / (9 * log2(48 * e * n_samples * seq_len))) ** 0.5
        assert theorem_4_3(n_samples, seq_len).value >= printed


@checks("KS25-T B.3")
def test_eq_90_by_hand() -> None:
    # d = m = s = H = q = L = 1: a block has 4 + 2 + 1 + 1 = 8 parameters, W = 1 + 8 + 1 = 10. With n = 1, N = 100:
    #   outputs    (8e · 100 · 6 / 10)^10     10 log2(1304.78) = 103.496
    #   attention  (8e · 100 · 4 / 3)^3        3 log2(2899.50) =  34.505
    #   hidden     (8e · 100 · 4 / 5)^5        5 log2(1739.70) =  53.823
    assert TINY.parameters(1) == 10
    value = log2_hard_attention_patterns(TINY, 1, 100, 1)
    by_hand = 10 * log2(8 * e * 60) + 3 * log2(8 * e * 400 / 3) + 5 * log2(8 * e * 80)
    assert abs(float(value) - by_hand) < 1e-9
    assert 191.8 < value < 191.9


@checks("KS25-T B.3")
def test_the_closed_form_of_eq_90_covers_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    from byheart.bounds import kajitsuka_sato_2025_lower as module

    shape = BlockShape(4, 6, 2, 2, 8)
    summed = [log2_hard_attention_patterns(shape, depth, 10**6, 4) for depth in (1, 3, 20)]
    monkeypatch.setattr(module, "_SUMMED_LAYERS", 0)
    closed = [log2_hard_attention_patterns(shape, depth, 10**6, 4) for depth in (1, 3, 20)]
    assert all(a <= b < 2 * a for a, b in zip(summed, closed, strict=True))


def test_a_block_is_counted_as_the_network_package_counts_it() -> None:
    # d = 3, m = 5, s = 2, H = 2, q = 7: 4·5·2·2 + 5·7 + 7 + 7·5 + 5 = 80 + 82 = 162; two blocks: 15 + 324 + 5
    assert BlockShape(3, 5, 2, 2, 7).block_parameters == 162
    assert BlockShape(3, 5, 2, 2, 7).parameters(2) == 344


@checks("KS25-T4.3")
def test_theorem_4_3_depth_is_the_first_that_could() -> None:
    shape = BlockShape(4, 14, 1, 1, 14)
    for n_samples in (10**3, 10**5, 10**7):
        depth = int(theorem_4_3_depth(shape, n_samples, 8).value)
        assert shape.parameters(depth) > 8 * n_samples or (
            log2_hard_attention_patterns(shape, depth, n_samples, 8) >= 8 * n_samples
        )
        if depth > 1:
            assert log2_hard_attention_patterns(shape, depth - 1, n_samples, 8) < 8 * n_samples


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.integers(1, 10**6))
@examples(200)
def test_more_samples_never_need_less(n_samples: int, more: int, seq_len: int) -> None:
    total = n_samples + more
    assert theorem_4_2(n_samples).value <= theorem_4_2(total).value
    assert theorem_4_3(n_samples, seq_len).value <= theorem_4_3(total, seq_len).value
    assert theorem_4_3(total, seq_len, n_samples).value <= theorem_4_3(total, seq_len, total).value
    assert theorem_4_2_depth(n_samples, 3).value <= theorem_4_2_depth(total, 3).value
    shape = BlockShape(3, 4, 1, 2, 5)
    assert theorem_4_3_depth(shape, n_samples, 4).value <= theorem_4_3_depth(shape, total, 4).value


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ImpossibleSize):
        theorem_4_3(3, 2, 7)
    with pytest.raises(ImpossibleSize):
        BlockShape(1, 0, 1, 1, 1)
