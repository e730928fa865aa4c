"""Sign patterns and VC dimensions: golden numbers, and counts of real patterns that must stay below them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import e, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds import vc_dimension as vc
from byheart.errors import ImpossibleSize
from byheart.theorems import checks
from tests.examples import examples


@checks("KS25-L B.4")
def test_lemma_b_4_by_hand() -> None:
    # M = 100 polynomials of degree D = 4 in W = 2 variables: (8 e · 100 · 4 / 2)^2 = (4349.25...)^2, log2 = 24.173...
    value = vc.log2_sign_patterns(100, 4, 2)
    assert abs(value - Fraction(2 * log2(8 * e * 200))) < Fraction(1, 10**9)
    assert 24.17 < value < 24.18
    # M = 2, D = 9, W = 2: the lemma gives 2 log2(8 e · 9) = 15.2..., more than the 3^2 vectors there are
    assert float(vc.log2_sign_patterns(2, 9, 2)) == pytest.approx(2 * log2(3))
    # without polynomials or variables there is one sign vector
    assert vc.log2_sign_patterns(0, 1, 1) == vc.log2_sign_patterns(1, 1, 0) == 0
    # fewer polynomials than variables: the lemma is silent, and 3^M it is
    assert float(vc.log2_sign_patterns(3, 1, 5)) == pytest.approx(3 * log2(3))


@checks("KS25-L B.4")
@given(st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=4), min_size=1, max_size=8))
@examples(200)
def test_lemma_b_4_covers_the_sign_vectors_of_real_polynomials(coefficients: list[list[int]]) -> None:
    # one variable: walk a rational grid and count the sign vectors seen
    grid = [Fraction(k, 7) for k in range(-45, 46)]

    def sign(polynomial: list[int], x: Fraction) -> int:
        value = sum((c * x**i for i, c in enumerate(polynomial)), Fraction(0))
        return (value > 0) - (value < 0)

    seen = {tuple(sign(p, x) for p in coefficients) for x in grid}
    degree = max(1, max(len(p) - 1 for p in coefficients))
    assert len(seen) <= 2 ** float(vc.log2_sign_patterns(len(coefficients), degree, 1)) * (1 + 1e-9)


def test_goldberg_jerrum_theorem_2_2_by_hand() -> None:
    # 2 W log2(8 e D s) with W = 3, D = 2, s = 5: 6 · log2(217.46...) = 6 · 7.7646... = 46.58...
    assert vc.goldberg_jerrum_vc_dimension(3, 5, 2) == 46


def test_bartlett_theorem_7_by_hand() -> None:
    # one hidden layer of 2 units on 1 input (4 parameters), one output (3 parameters):
    # L = 2, W_1 = 4, W_2 = 7, S = 11, R = 1·2 + 2·1 = 4, 2 e R = 21.746..., log2 of it 4.4427...
    # L + S log2(4 e R log2(2 e R)) = 2 + 11 · log2(43.49... · 4.4427...) = 2 + 11 · 7.5941... = 85.5...
    assert vc.bartlett_vc_dimension([2, 1], [4, 3]) == 85


def test_bartlett_in_closed_form_equals_the_sum() -> None:
    for width, depth, dim in itertools.product((1, 3, 14), (1, 2, 7), (1, 4)):
        units = [width] * depth + [1]
        parameters = [(dim + 1) * width] + [(width + 1) * width] * (depth - 1) + [width + 1]
        assert vc.uniform_width_vc_dimension(width, depth, dim) == vc.bartlett_vc_dimension(units, parameters)


def test_smallest_relu_parameters_by_hand() -> None:
    # N = 1000: log2(16 e · 1000) = 15.4085...; W = 31: 31 · (15.5 + 15.4085) = 958.2 < 1000;
    # W = 32: 32 · (16 + 15.4085) = 1005.1 >= 1000
    assert vc.smallest_relu_parameters(1000) == 32
    # N = 10^6: log2(16 e · 10^6) = 25.374...; 1389 · (694.5 + 25.374) = 999,905 < 10^6 <= 1390 · 720.374 = 1,001,320
    assert vc.smallest_relu_parameters(10**6) == 1390
    assert vc.smallest_relu_parameters(0) == 0
    assert vc.smallest_relu_parameters(1) == 1


@given(st.integers(1, 10**14))
@examples(200)
def test_the_smallest_is_the_smallest(n_points: int) -> None:
    w = vc.smallest_relu_parameters(n_points)

    def room(parameters: int) -> float:
        return parameters * (parameters / 2 + log2(16 * e * n_points))

    assert w == n_points or room(w) >= n_points * (1 - 1e-12)
    assert w == 1 or room(w - 1) < n_points * (1 + 1e-12)


@pytest.mark.parametrize("n_units", [1, 2, 3])
def test_a_network_that_shatters_has_at_least_so_many_parameters(n_units: int) -> None:
    # x -> sum_i a_i relu(x - i) + c shatters n_units + 1 points of the line; 3 n_units + 1 parameters in full
    points = range(n_units + 1)
    for labels in itertools.product((0, 1), repeat=n_units + 1):
        slopes, last = [], 0
        for i in range(n_units):
            slopes.append(labels[i + 1] - labels[i] - last)
            last += slopes[-1]
        values = [labels[0] + sum(a * max(0, x - i) for i, a in enumerate(slopes)) for x in points]
        assert tuple(values) == labels
    assert vc.smallest_relu_parameters(n_units + 1) <= 3 * n_units + 1


def test_smallest_finds_the_threshold() -> None:
    for threshold in (1, 2, 3, 17, 10**15 + 1):
        assert vc.smallest(lambda n, t=threshold: n >= t) == threshold


@pytest.mark.parametrize(
    "call",
    [
        lambda: vc.log2_sign_patterns(-1, 1, 1),
        lambda: vc.log2_sign_patterns(1, 0, 1),
        lambda: vc.log2_sign_patterns(1, 1, -1),
        lambda: vc.goldberg_jerrum_vc_dimension(0, 1, 1),
        lambda: vc.bartlett_vc_dimension([], []),
        lambda: vc.bartlett_vc_dimension([1], [0]),
        lambda: vc.uniform_width_vc_dimension(0, 1, 1),
        lambda: vc.smallest_relu_parameters(-1),
    ],
)
def test_impossible_sizes_are_refused(call: object) -> None:
    with pytest.raises(ImpossibleSize):
        call()
