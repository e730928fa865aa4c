"""DPC24 sections 3 and 5: sequence encoders, what they cannot do, and what they can."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds.dana_2024 import theorem_2
from byheart.construct.dana_2024.encoders import (
    association_encoder,
    best_encoder,
    encoder_divergence,
    full_rank_encoder,
    full_support,
    rank_lower_bound,
)
from byheart.construct.dana_2024.lookup_encoder import (
    approximating_encoder,
    coherence_of,
    lookup_encoder,
    scale_for_entropy,
    spread_of,
    spread_rows,
)
from byheart.errors import AssumptionViolated, UsageError
from byheart.program.circle import circle_points
from byheart.theorems import checks
from tests.examples import examples
from tests.refusal import refused


def distributions(n_sequences: int, n_tokens: int, concentration: float, seed: int) -> np.ndarray:
    return (
        np.random.default_rng(seed).dirichlet(np.full(n_tokens, concentration), n_sequences) * 0.999
        + 0.001 / n_tokens
    )


def uniform(n: int) -> np.ndarray:
    return np.full(n, 1 / n)


@checks("DPC24-P3", "DPC24-A1", "DPC24-D1")
@examples(200)
@given(n_tokens=st.integers(2, 60), dim=st.integers(2, 9), seed=st.integers(0, 2**32 - 1))
def test_associations_have_no_bottleneck(n_tokens: int, dim: int, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, n_tokens, 40)
    encoder = association_encoder(labels, n_tokens, dim)
    assert (encoder.logits.argmax(axis=1) == labels).all()
    assert np.linalg.matrix_rank(encoder.logits) <= dim
    exact = np.eye(n_tokens)[labels]
    margin = 1 - np.sort(encoder.logits, axis=1)[:, -2].max()
    sharp = 40 / margin * encoder.logits
    assert encoder_divergence(exact, uniform(40), sharp) < n_tokens * np.exp(-39)  # and 0 in the limit


@checks("DPC24-P3")
def test_there_is_no_circle_in_dimension_1() -> None:
    with refused(UsageError, dim=1):
        association_encoder(np.arange(4), 6, 1)


def test_more_circles_have_more_room() -> None:
    def margin(dim: int) -> float:
        gram = circle_points(50, dim) @ circle_points(50, dim).T
        return float(1 - (gram - 2 * np.eye(50)).max())

    assert margin(2) == pytest.approx(1 - np.cos(2 * np.pi / 50))
    assert margin(10) > 20 * margin(2)


@checks("DPC24-P2", "DPC24-A2")
def test_dimension_n_minus_one_is_enough_and_less_is_not() -> None:
    p = full_support(distributions(40, 6, 0.5, 0), 1e-3)
    assert (p > 0).all()
    assert p.sum(axis=1) == pytest.approx(1)
    encoder = full_rank_encoder(p)
    assert encoder.unembedding.shape[1] == 5
    assert encoder_divergence(p, uniform(40), encoder.logits) < 1e-15
    assert rank_lower_bound(p, uniform(40), 5) < 1e-15
    assert rank_lower_bound(p, uniform(40), 2) > 0  # proved to be positive


@pytest.mark.slow
@checks("DPC24-L1", "DPC24-P1")
def test_the_best_encoder_lies_above_the_lower_bound_and_below_every_start() -> None:
    p = distributions(60, 8, 0.4, 1)
    rng = np.random.default_rng(0)
    before = np.inf
    for dim in (1, 4, 7):
        found = best_encoder(p, uniform(60), dim, rng, n_random_starts=1, max_evaluations=300)
        assert found.divergence <= min(found.by_start)  # hops never lose
        assert np.linalg.matrix_rank(found.encoder.logits) <= dim
        assert rank_lower_bound(p, uniform(60), dim) <= found.divergence + 1e-12
        assert found.divergence < before
        before = found.divergence
        # a minimum: small changes make it worse
        for _ in range(5):
            moved = found.encoder.embeddings + 1e-3 * rng.standard_normal(found.encoder.embeddings.shape)
            moved_logits = moved @ found.encoder.unembedding.T
            assert encoder_divergence(p, uniform(60), moved_logits) >= found.divergence - 1e-6
    assert before < 1e-4


@pytest.mark.parametrize("weight", [0.0, -0.5, float("nan")])
def test_a_sequence_without_weight_is_refused(weight: float) -> None:
    """The divergence was nan, and an embedding infinite."""
    p = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]])
    with refused(UsageError, "weight", sequence=2):
        best_encoder(p, np.array([0.5, 0.5, weight]), 1, np.random.default_rng(0))


@pytest.mark.parametrize("n_random_starts", [0, 2])
def test_the_best_encoder_has_the_dimension_that_was_asked_for(n_random_starts: int) -> None:
    p = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    found = best_encoder(p, uniform(2), 5, np.random.default_rng(0), n_random_starts=n_random_starts)
    assert found.encoder.embeddings.shape == (2, 5)
    assert found.encoder.unembedding.shape == (3, 5)
    assert found.divergence < 1e-9


@checks("DPC24-P1")
@examples(200)
@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(0, 4))
def test_no_encoder_goes_below_the_lower_bound(seed: int, dim: int) -> None:
    rng = np.random.default_rng(seed)
    p = distributions(12, 6, 0.7, seed)
    weights = rng.dirichlet(np.ones(12))
    log_p = np.log(p)
    left, sizes, right = np.linalg.svd(log_p - log_p.mean(axis=1, keepdims=True), full_matrices=False)
    best = (left[:, :dim] * sizes[:dim]) @ right[:dim]
    moved = best + rng.normal(0, 0.1, (12, dim)) @ right[:dim]
    for logits in (best, moved):
        assert np.linalg.matrix_rank(logits, tol=1e-9) <= dim
        assert rank_lower_bound(p, weights, dim) <= encoder_divergence(p, weights, logits) + 1e-12
    assert dim == 0 or np.abs(moved - best).max() > 1e-6


@checks("DPC24-A2")
@pytest.mark.parametrize("function", ["best_encoder", "full_rank_encoder", "rank_lower_bound"])
def test_zero_probabilities_are_refused_in_words(function: str) -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    calls = {
        "best_encoder": lambda: best_encoder(p, uniform(2), 1, np.random.default_rng(0)),
        "full_rank_encoder": lambda: full_rank_encoder(p),
        "rank_lower_bound": lambda: rank_lower_bound(p, uniform(2), 1),
    }
    with refused(AssumptionViolated, sequence=0, token=2):
        calls[function]()
    smoothed = full_support(p, 1e-3)
    assert np.isfinite(full_rank_encoder(smoothed).logits).all()


@checks("DPC24-T2", "DPC24-eq6")
@pytest.mark.parametrize(("n_tokens", "dim"), [(5, 8), (8, 40), (20, 200)])
def test_the_lookup_encoder_keeps_its_bound(n_tokens: int, dim: int) -> None:
    rng = np.random.default_rng(0)
    rows = spread_rows(n_tokens, dim, rng)
    coherence = coherence_of(rows)
    assert coherence < 0.5
    p = full_support(np.eye(n_tokens)[rng.integers(0, n_tokens, 15)], 0.02)
    exact = [[Fraction(float(x)) for x in row] for row in p]
    exact = [[*row[:-1], 1 - sum(row[:-1])] for row in exact]
    found = lookup_encoder(p, rows)
    bound = theorem_2([Fraction(1, 15)] * 15, exact, Fraction(coherence))
    assert 0 < encoder_divergence(p, uniform(15), found.encoder.logits) <= float(bound.value)
    gram = rows @ rows.T
    for scale, row in zip(found.scales, p, strict=True):
        g = int(row.argmax())
        entropy = -(row * np.log(row)).sum()
        assert np.log(np.exp(scale * (gram[g] - gram[g, g])).sum()) == pytest.approx(entropy, abs=1e-9)


@checks("DPC24-eq6")
def test_the_scale_is_zero_for_uniform_and_capped_for_none() -> None:
    differences = np.array([0.0, -1.0, -1.0, -1.0])
    assert scale_for_entropy(float(np.log(4)), differences, 1e4) == pytest.approx(0, abs=1e-9)
    assert scale_for_entropy(0.0, differences, 1e4) > 36  # where 1 + 3e^-λ is 1
    assert scale_for_entropy(0.0, differences, 20.0) == 20


@checks("DPC24-eq6")
@pytest.mark.parametrize(("scale", "most"), [(9000.0, 1e4), (2.5, 3.0), (0.25, 0.5)])
def test_a_scale_below_the_cap_is_found(scale: float, most: float) -> None:
    """The cap was returned if no power of two was between the two."""
    differences = np.array([0.0, -1 / scale])
    entropy = float(np.log(1 + np.exp(-1)))
    assert scale_for_entropy(entropy, differences, most) == pytest.approx(scale)


@checks("DPC24-D2", "DPC24-L4", "DPC24-T3")
def test_logits_of_approximations_grow_only_as_the_logarithm() -> None:
    p = np.array([[0.7, 0.3, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
    spreads, deltas = [], [10.0**-k for k in range(1, 9)]
    for delta in deltas:
        f = approximating_encoder(p, delta)
        log_q = f - np.log(np.exp(f).sum(axis=1, keepdims=True))
        missed = np.abs(np.log(p[p > 0]) - log_q[p > 0])
        assert missed.max() <= delta * (1 + 1e-6)  # (16), upper half
        assert missed.max() >= 0.9 * delta
        # (16), lower half at every entry, where π = 1/N too: c = 0.01, α = 1
        assert missed.min() >= 0.01 * delta
        spreads.append(spread_of(f))
    steps = np.diff(spreads) / np.log(10)
    assert (steps < 1.2).all()  # O(log 1/δ), Lemma 4
    assert (steps > 0.5).all()
