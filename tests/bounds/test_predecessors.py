"""Sontag, Siegel, Baum, Bubeck, Vardi, Mahdavi, linear memory; orders; measured laws."""

from __future__ import annotations

from fractions import Fraction
from math import e, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds import empirical, orders, predecessors
from byheart.bounds.empirical import (
    ALLEN_ZHU_2024,
    MORRIS_2025,
    STATIC_FUNCTION_BITS_PER_STORED_BIT,
    EmpiricalLaw,
    law_from_runs,
)
from byheart.bounds.kajitsuka_sato_2025_lower import feed_forward_input
from byheart.errors import ImpossibleSize
from byheart.theorems import checks
from tests.examples import examples


def test_sontag_by_hand() -> None:
    assert predecessors.sontag_1997(1001).value == 500
    assert predecessors.sontag_1997(1002).value == 501  # 500.5, rounded up
    assert predecessors.sontag_1997(1).value == 0


def test_siegel_by_hand() -> None:
    # r = 1, δ = 2^-9: M = 2·512 + 1 = 1025 points on the diameter; N = 8: b = 4 blocks of 256 points, p = 255.
    # 4 (log2 1020 - W/2) <= W (W/2 + log2(16 e · 1025)): 9.9944..., 15.4441...
    # W = 1: 4 · 9.494 = 37.98 > 15.94; W = 2: 4 · 8.994 = 35.98 > 32.89; W = 3: 4 · 8.494 = 33.98 <= 50.8
    assert predecessors.siegel_2024(8, 1, Fraction(1, 512)).value == 3
    assert abs(log2(16 * e * 1025) - 15.4441) < 1e-3


def test_siegel_tends_to_half_the_samples() -> None:
    assert predecessors.siegel_2024(100, 1, Fraction(1, 2**100_000)).value == 50
    assert predecessors.siegel_2024(1000, 1, Fraction(1, 2**1_000_000)).value == 500


def test_siegel_where_no_two_points_fit() -> None:
    assert predecessors.siegel_2024(100, Fraction(1, 4), 1).value == 0
    assert predecessors.siegel_2024(1, 1, Fraction(1, 10)).value == 0


@given(st.integers(1, 10**13), st.integers(1, 10**13), st.integers(1, 10**40))
@examples(200)
def test_siegel_never_falls_as_samples_grow(n_samples: int, more: int, inverse: int) -> None:
    delta = Fraction(1, inverse)
    value = predecessors.siegel_2024(n_samples, 1, delta).value
    assert value <= predecessors.siegel_2024(n_samples + more, 1, delta).value
    assert value <= n_samples // 2


def test_feed_forward_networks_by_hand() -> None:
    # N = 1000 points of R^32: Baum ⌈31.25⌉ = 32 units · 34 + 1 = 1,089; Bubeck 4·32·34 = 4,352; plain 1000·34 + 1
    assert predecessors.baum_1988(1000, 32).value == 1_089
    assert predecessors.bubeck_2020(1000, 32).value == 4_352
    assert predecessors.two_layer_relu_size(1000, 32).parameters == 34_001
    # Vardi with 16 points of R^3, r = δ = 1, C = 16: R = 20·16²·√(3π) = 15,718.3 -> 14 bits;
    # depth 2 + 26 + (3·2·14 + 6) = 118; 12·3 + 118·156 + 12 = 18,456
    assert predecessors.vardi_2022_size(16, 16, 3, 1, 1).parameter_bound().value == 18_456


def test_two_layer_relu_interpolates_with_so_many_units() -> None:
    rng = np.random.default_rng(1)
    points, labels = rng.normal(size=(40, 5)), rng.integers(0, 7, size=40).astype(float)
    along = points @ rng.normal(size=5)
    order = np.argsort(along)
    x, y = along[order], labels[order]
    slopes = np.diff(y) / np.diff(x)
    weights = np.diff(slopes, prepend=0)
    predicted = y[0] + (np.maximum(0, x[:, None] - x[None, :-1]) * weights).sum(axis=1)
    assert np.allclose(predicted, y, atol=1e-6)
    assert predecessors.two_layer_relu_size(40, 5).parameters >= len(weights) * (5 + 2)


@checks("DPC24-S6")
def test_attention_and_linear_memory_by_hand() -> None:
    # H = 20 heads of size 10, n = 2: 20 · (2 - 1) + 1 = 21; n = 12: 20 · 9 + 1 = 181
    assert predecessors.mahdavi_2023(20, 10, 2).value == 21
    assert predecessors.mahdavi_2023(20, 10, 12).value == 181
    # N = 100, n = 4, d = 8: ⌈99 / 3⌉ = 33 heads of 2·8·4 + 2·64 = 192, and 8 to read out: 6,344
    assert predecessors.mahdavi_2023_parameters(100, 4, 8).value == 6_344
    assert predecessors.linear_memory(768).value == 768
    with pytest.raises(ImpossibleSize):
        predecessors.mahdavi_2023_parameters(100, 9, 8)


@checks("DPC24-S6")
def test_a_linear_memory_stores_one_association_per_dimension() -> None:
    rng = np.random.default_rng(2)
    keys, values = rng.normal(size=(12, 12)), rng.normal(size=(30, 12))
    targets = rng.integers(0, 30, size=int(predecessors.linear_memory(12).value))
    memory = np.linalg.solve(keys, values[targets])  # key_i @ memory = value of target i
    nearest = ((keys @ memory)[:, None, :] - values[None]) ** 2
    assert (nearest.sum(axis=2).argmin(axis=1) == targets).all()


@checks("KS25-Tab1")
def test_table_1_by_hand() -> None:
    # N = 10^4, n = 16, d = 64, ω = 1000: √N = 100, √(nN) = 400, nN / ⌊log2 nN⌋ = 160,000 / 17 = 9,411 -> 97
    rows = {(row.name, row.setting, row.side): row.value for row in orders.table_1(10**4, 16, 64, 1000)}
    assert rows == {
        ("KKM23", "seq-to-seq", "upper"): 416,
        ("MLT23", "next-token", "upper"): 2_560_000,
        ("KS23", "seq-to-seq", "upper"): 10_244_096,
        ("MFT24", "next-token", "upper"): 10**7,
        ("MFT24", "next-token", "lower"): 10**7,
        ("KS25", "next-token", "upper"): 100,
        ("KS25", "next-token", "lower"): 100,
        ("KS25", "seq-to-seq", "upper"): 400,
        ("KS25", "seq-to-seq", "lower"): 97,
    }


def test_fixed_precision_and_robust_memorisation_by_hand() -> None:
    assert [(row.side, row.value) for row in orders.fixed_precision(10**6)] == [
        ("upper", 10**6),
        ("lower", 10**6),
    ]
    # ρ = 3/5: (9/25·min(10^4, 100) + 1)·100 = 3,700; 1/(1 - 9/25) = 25/16 -> √(15,625) = 125
    needed, enough = orders.robust_memorisation(10**4, 100, Fraction(3, 5))
    assert (needed.side, needed.value) == ("lower", 3_825)
    assert (enough.side, enough.value) == ("upper", 10**8)
    # near ρ = 1 the second term is √(dN): 1/(1 - ρ²) = 50.25 > 4
    assert orders.robust_memorisation(10**4, 4, Fraction(99, 100))[0].value == 19 + 200
    with pytest.raises(ImpossibleSize):
        orders.robust_memorisation(10, 2, Fraction(1))


@checks("DPC24-S6")
def test_section_6_by_hand() -> None:
    # T₀ = 1024, N = 100, S = 3, d = 8: √(1024·10) = 101
    found = {row.name: row.value for row in orders.section_6(1024, 100, 3, 8)}
    assert found == {"DPC24": 8_598, "KKM23": 204, "HM23": 12_397, "MLT23": 8_192, "CDB24": 64}


def test_footnote_2_by_hand() -> None:
    # N = 2^20, n = 2^10: √(20·2^20)·10 = 4,579·10 and √(30·2^20) = 5,608
    printed, sharpened = orders.footnote_2(2**20, 2**10)
    assert (printed.value, sharpened.value) == (45_790, 5_608)


def test_a_feed_forward_network_has_a_weight_for_every_coordinate() -> None:
    bound = feed_forward_input(64, 256)
    assert (bound.kind, bound.value) == ("lower", 16_384)


def test_park_2021_by_hand() -> None:
    # N = 10^6: N^(2/3) = 10^4; log2(1024) = 10
    assert orders.park_2021(10**6, 1, Fraction(1, 1024)).value == 10_010
    assert orders.park_2021(10**6 - 1, 1, 1).value == 9_999


def test_measured_laws_by_hand() -> None:
    # 10^9 facts of 40 bits at 3.6 bits: 4·10^10 / 3.6 = 11,111,111,111.1; at 2 bits: 2·10^10
    assert MORRIS_2025.parameters_for(40 * 10**9) == 11_111_111_112
    assert ALLEN_ZHU_2024.parameters_for(40 * 10**9) == 20 * 10**9
    assert MORRIS_2025.bits_held_by(10) == 36
    assert MORRIS_2025.covers(10**9)
    assert not MORRIS_2025.covers(11_111_111_112)
    assert MORRIS_2025.to_json()["bits_per_parameter"] == 3.6


def test_a_law_is_no_bound() -> None:
    from byheart.bounds import Bound

    assert not issubclass(EmpiricalLaw, Bound)
    assert not isinstance(MORRIS_2025, Bound)
    assert all(isinstance(law, EmpiricalLaw) for law in empirical.PUBLISHED_LAWS)


def test_a_law_from_runs_by_hand() -> None:
    # (100, 210), (200, 390): slope (21,000 + 78,000) / (10,000 + 40,000) = 99/50
    law = law_from_runs("ours", [(100, 210), (200, 390)], "two runs", "a store")
    assert law.bits_per_parameter == Fraction(99, 50)
    assert (law.smallest_parameters, law.largest_parameters) == (100, 200)
    assert law.source == "a store (number of runs: 2)"
    with pytest.raises(ImpossibleSize):
        law_from_runs("ours", [], "none", "a store")
    with pytest.raises(ImpossibleSize):
        law_from_runs("ours", [(10, 0)], "none", "a store")


def test_a_static_function_stores_half_a_per_cent_more_than_its_values() -> None:
    assert 0 <= 1 / Fraction(1005, 1000) - STATIC_FUNCTION_BITS_PER_STORED_BIT < Fraction(1, 10_000)
