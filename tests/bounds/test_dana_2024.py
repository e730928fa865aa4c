"""DPC24: golden numbers worked out by hand, and the repaired Theorem 2 against real encoders."""

from __future__ import annotations

from fractions import Fraction
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds import dana_2024 as dpc
from byheart.bounds.dana_2024 import AttentionOnlyShape
from byheart.errors import ImpossibleSize
from byheart.theorems import checks
from tests.examples import examples
from tests.refusal import refused

# Figure 1: N = 50 tokens, S = 2, d = d_h = 10, H = 20
FIGURE_1 = AttentionOnlyShape(n_tokens=50, seq_len=2, dim=10, head_dim=10, n_heads=20)


@checks("DPC24-T1", "DPC24-R1")
def test_theorem_1_by_hand() -> None:
    # parameters 10 · (2 + 100 + 4·10·20) = 9,020; sequences 20·10 + 10 = 210
    assert FIGURE_1.parameters == 9_020
    assert dpc.theorem_1(FIGURE_1).value == 210
    # T = 210 sequences in dimension 10: 10 · (2 + 100 + 4·200) = 9,020 again
    assert dpc.theorem_1_parameters(210, 50, 2, 10, 50).value == 9_020
    assert dpc.theorem_1_parameters(210, 50, 2, 10, 50).quantity == "parameters at embedding dimension 10"
    # dimension N - 1 = 49 is exact: 49 · (2 + 100 + 4·161) = 36,554
    exact = dpc.theorem_1_parameters(210, 50, 2, 49, 50)
    assert (exact.value, exact.quantity) == (36_554, "parameters")


@checks("DPC24-T1")
def test_a_head_wider_than_the_embedding_does_not_count() -> None:
    # Figure 4: d = 2, d_h = 5, H = 20 has rank 20·2 + 2 = 42, not the 102 that is drawn
    assert AttentionOnlyShape(10, 2, 2, 5, 20).rank == 42


@checks("DPC24-T1", "DPC24-C1")
def test_the_skip_connection_has_the_rank_of_the_last_tokens() -> None:
    # two sequences that end alike: H = 0 would give both the same logits, so one head more than printed
    assert dpc.corollary_1_parameters(2, 3, 2, 2).value == 2 * (2 + 2 * 3)
    assert dpc.corollary_1_parameters(2, 3, 2, 1).value == 2 * (2 + 2 * 3 + 4)
    assert dpc.corollary_1_parameters(2, 3, 2).value == dpc.corollary_1_parameters(2, 3, 2, 1).value
    assert AttentionOnlyShape(3, 2, 2, 1, 0, n_last_tokens=1).rank == 1
    # and it is so: without heads logits are a function of the last token alone
    skip = np.random.default_rng(0).normal(size=(2, 3))
    assert np.linalg.matrix_rank(np.repeat(skip[:1], 2, axis=0)) == 1


@checks("DPC24-T3")
def test_theorem_3_has_the_size_of_theorem_1() -> None:
    bound = dpc.theorem_3_parameters(210, 50, 2, 10, 50)
    assert bound.value == 9_020
    assert "O(ε log 1/ε)" in bound.quantity


@checks("DPC24-C1")
def test_corollary_1_by_hand() -> None:
    # all 2,500 bigrams over 50 tokens: 2 · (2 + 100 + 4 · 2,498) = 20,188
    assert dpc.corollary_1_parameters(2500, 50, 2, 50).value == 20_188
    assert dpc.corollary_1_parameters(1, 50, 2).value == 204


@checks("DPC24-C2")
def test_corollary_2_by_hand() -> None:
    # 1/50 + 49/50 · 210/2500 = 1/50 + 10,290/125,000 = 2,500/125,000 + 10,290/125,000 = 12,790/125,000
    assert dpc.corollary_2(FIGURE_1, 2500).value == Fraction(12_790, 125_000)
    assert dpc.corollary_2(FIGURE_1, 100).value == 1


@checks("DPC24-C2")
def test_corollary_2_needs_two_dimensions() -> None:
    # in dimension 1 logits are e·W for a number e: the largest is that of the largest weight, or of the smallest
    weights = np.random.default_rng(0).normal(size=10)
    answers = {int((e * weights).argmax()) for e in np.linspace(-3, 3, 60)}
    assert len(answers) == 2
    # so of the pairs of ten tokens, labelled with their sum modulo 10, at most 20 of 100 can be right
    with refused(ImpossibleSize, dim=1):
        dpc.corollary_2(AttentionOnlyShape(10, 2, 1, 1, 99), 100)
    assert dpc.corollary_2(AttentionOnlyShape(10, 2, 2, 1, 98), 100).value == 1


@checks("DPC24-P1", "DPC24-P2", "DPC24-P3")
def test_propositions() -> None:
    assert dpc.proposition_1(0.25).value == Fraction(1, 4)
    assert dpc.proposition_1(0.25).kind == "lower"
    assert (dpc.proposition_2(50).value, dpc.proposition_2(50).kind) == (49, "exact")
    assert (dpc.proposition_3().value, dpc.proposition_3().kind) == (2, "upper")


@checks("DPC24-P2")
def test_dimension_n_minus_1_reaches_every_distribution_and_less_does_not() -> None:
    # N = 3: centred logits of all distributions span a plane; a single direction does not hold two of them
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5, 3))
    centred = logits - logits.mean(axis=1, keepdims=True)
    assert np.linalg.matrix_rank(centred) == dpc.proposition_2(3).value


@checks("DPC24-P3")
def test_two_dimensions_tell_every_token_apart() -> None:
    # the circle of the proof: each token's own logit is the largest
    angle = 2 * np.pi * np.arange(200) / 200
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert ((circle @ circle.T).argmax(axis=1) == np.arange(200)).all()


@checks("DPC24-T2")
def test_the_stated_coherence_is_vacuous_in_small_dimensions() -> None:
    # C >= 1/2 for d <= 128 ln(N + 1): with N = 50, 128 · ln 51 = 503.27
    assert dpc.johnson_lindenstrauss_coherence(50, 503).low > Fraction(1, 2)
    assert dpc.johnson_lindenstrauss_coherence(50, 504).high < Fraction(1, 2)


@checks("DPC24-T2")
def test_theorem_2_by_hand() -> None:
    # two tokens, one context (3/4, 1/4), C = 0: H = ln 4 - 3/4 ln 3 = 0.56233..., e^H = 4 / 3^(3/4) = 1.75477...,
    # (1/4) ln(1 / 0.75477) = (1/4) · 0.28134... = 0.07033...
    bound = dpc.theorem_2([1], [[Fraction(3, 4), Fraction(1, 4)]], 0)
    assert float(bound.value) == pytest.approx(-log(4 / 3**0.75 - 1) / 4, rel=1e-12)
    # C = 1/4 stretches it by (1 + 1/2) / (1 - 1/2) = 3
    assert dpc.theorem_2([1], [[Fraction(3, 4), Fraction(1, 4)]], Fraction(1, 4)).value == 3 * bound.value
    # a lookup table costs nothing
    assert dpc.theorem_2([1], [[1, 0, 0]], 0).value == 0


def best_divergence(rows: np.ndarray, distribution: np.ndarray) -> float:
    """The divergence of logits λ W W_g at the λ that solves eq. (6), found by bisection."""
    g = int(distribution.argmax())
    gaps = (rows[g] - rows) @ rows[g]
    entropy = -float(distribution @ np.log(distribution))
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        if np.log(np.exp(-middle * gaps).sum()) > entropy:
            low = middle
        else:
            high = middle
    return float(high * distribution @ gaps)


@checks("DPC24-T2")
@given(st.integers(0, 2**32), st.integers(2, 12), st.floats(0.05, 5))
@examples(200)
def test_theorem_2_covers_real_encoders(seed: int, n_tokens: int, sharpness: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.choice([-1.0, 1.0], size=(n_tokens, 2000)) / sqrt(2000)
    coherence = float(np.abs(rows @ rows.T - np.eye(n_tokens)).max())
    counts = rng.integers(1, 100, size=n_tokens)
    counts[0] += int(100 * n_tokens * sharpness)
    distribution = counts / counts.sum()
    exact = [Fraction(int(c), int(counts.sum())) for c in counts]
    bound = dpc.theorem_2([1], [exact], coherence)
    assert best_divergence(rows, distribution) <= float(bound.value) * (1 + 1e-9) + 1e-12


@checks("DPC24-T2")
def test_theorem_2_copes_with_an_entropy_far_below_rounding() -> None:
    tiny = Fraction(1, 10**60)
    bound = dpc.theorem_2([1], [[1 - tiny, tiny]], 0)
    assert 0 < bound.value < 200 * tiny


def test_what_theorem_2_refuses() -> None:
    with pytest.raises(ImpossibleSize):
        dpc.theorem_2([1], [[1]], 0.5)
    with pytest.raises(ImpossibleSize):
        dpc.theorem_2([1], [[Fraction(1, 2), Fraction(1, 3)]], 0)
    with pytest.raises(ImpossibleSize):
        dpc.theorem_2([], [[1]], 0)
