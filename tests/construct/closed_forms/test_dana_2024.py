"""DPC24: one layer of attention alone, at H·d_h + d >= T and beyond, and through the pipeline."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import byheart as bh
from byheart.bounds.dana_2024 import AttentionOnlyShape
from byheart.construct.dana_2024.compact import fit_compact
from byheart.construct.dana_2024.encoders import (
    SequenceEncoder,
    association_encoder,
    best_encoder,
    full_rank_encoder,
)
from byheart.construct.dana_2024.head_solver import interpolate
from byheart.construct.dana_2024.heads import attention_features, draw_heads
from byheart.construct.dana_2024.likeliest import (
    likeliest_sequences,
    memorise_approximately,
    memorise_likeliest,
)
from byheart.construct.dana_2024.partial import memorise_in_part
from byheart.construct.dana_2024.size import DanaOptions, heads_needed
from byheart.construct.registry import get
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.attention_only.architecture import AttentionOnlySpec
from byheart.network.size import size_of_network
from byheart.program.fewest import find_fewest
from byheart.theorems import checks
from byheart.verify.digest import weights_digest
from tests.examples import examples
from tests.refusal import refused

from .story_data import documents


def pairs(n_tokens: int) -> np.ndarray:
    return np.stack(np.meshgrid(range(n_tokens), range(n_tokens), indexing="ij"), -1).reshape(-1, 2)


@checks("DPC24-L2")
@examples(200)
@given(
    n_heads=st.integers(1, 4),
    dim=st.integers(2, 4),
    head_dim=st.integers(1, 4),
    seq_len=st.integers(2, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_generic_heads_have_full_rank(n_heads: int, dim: int, head_dim: int, seq_len: int, seed: int) -> None:
    head_dim = min(head_dim, dim)
    rng = np.random.default_rng(seed)
    wanted = n_heads * head_dim + dim
    ids = rng.permutation(6**seq_len)[: wanted + 3]
    rows = np.stack([(ids // 6**place) % 6 for place in range(seq_len)], axis=1)
    spec = AttentionOnlySpec("float64", 6, seq_len, dim, n_heads, head_dim, head_dim, dim, 2)
    network = draw_heads(spec, 3.0, rng)
    features = attention_features(network, rows)
    n_lasts = len(np.unique(rows[:, -1]))
    rank = np.linalg.matrix_rank(features, tol=1e-11)
    # the skip connection brings no more than the different last tokens: what the paper overlooks
    assert rank <= n_heads * head_dim + min(dim, n_lasts)
    if n_lasts >= dim and len(rows) >= wanted and len(rows) - n_lasts >= n_heads * head_dim:
        assert rank == wanted


@checks("DPC24-T1", "DPC24-C1", "DPC24-P3")
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("dim", "head_dim"), [(2, 2), (10, 10), (4, 1)])
def test_all_bigrams_at_equality(dim: int, head_dim: int, precision: str) -> None:
    rng = np.random.default_rng(0)
    ids = pairs(12)
    labels = rng.integers(0, 12, len(ids))
    encoder = association_encoder(labels, 12, dim)
    found = interpolate(ids, 12, encoder, rng, head_dim=head_dim, precision=precision)
    network = found.network
    shape = AttentionOnlyShape(12, 2, dim, head_dim, network.n_heads)
    assert 144 <= shape.rank < 144 + head_dim
    assert sum(w.size for _, w in network.parameters()) == shape.parameters
    logits = network.compute_logits(ids)
    assert (logits.argmax(axis=1) == labels).all()
    assert np.abs(logits - encoder.logits).max() < (1e-6 if precision == "float64" else 0.02)


@checks("DPC24-T1")
@pytest.mark.parametrize("seq_len", [1, 3, 16])
def test_any_logits_of_rank_d_on_sequences_longer_than_d(seq_len: int) -> None:
    rng = np.random.default_rng(1)
    ids = np.unique(rng.integers(0, 9, (60, seq_len)), axis=0)
    encoder = SequenceEncoder(rng.normal(0, 1, (7, 3)), rng.normal(0, 1, (len(ids), 3)))
    if seq_len == 1:
        ids, encoder = ids[:3], SequenceEncoder(encoder.unembedding, encoder.embeddings[:3])
    found = interpolate(ids, 9, encoder, rng, head_dim=3)
    assert np.abs(found.network.compute_logits(ids) - encoder.logits).max() < 1e-7
    assert found.residual < 1e-7


@checks("DPC24-L2", "DPC24-C1")
@pytest.mark.parametrize("seq_len", [2, 3])
def test_heads_of_rank_one_are_enough(seq_len: int) -> None:
    """The proof of Lemma 2 takes W_QK of rank 1; a third fewer parameters a head at d_h = 2, the same sequences."""
    ids = np.unique(np.random.default_rng(0).integers(0, 6, (40, seq_len)), axis=0)
    labels = np.random.default_rng(1).integers(0, 6, len(ids))
    data = bh.Dataset.from_arrays(ids, labels)
    full, thin = (bh.compile(data, method="dana-2024", head_dim=2, key_dim=key_dim) for key_dim in (2, 1))
    assert thin.certificate.holds
    assert thin.memoriser.network.n_heads == full.memoriser.network.n_heads
    assert thin.memoriser.network.query.shape[1:] == (1, 2)
    saved = full.size.parameters_dense - thin.size.parameters_dense
    assert saved == thin.memoriser.network.n_heads * 2 * 2  # one row of W_Q and of W_K, d = 2 entries each
    assert get("dana-2024").estimate(DataShape.of(data), {"head_dim": 2, "key_dim": 1}) == thin.size


def test_heads_needed() -> None:
    assert heads_needed(2500, 10, 10) == 249
    assert heads_needed(2500, 2, 1) == 2498
    assert heads_needed(3, 5, 2) == 0
    assert heads_needed(86, 57, 57, n_last_tokens=20) == 2


@checks("DPC24-T1")
def test_heads_add_nothing_to_sequences_of_one_token() -> None:
    data = bh.Dataset.from_arrays(np.arange(4).reshape(4, 1), np.array([0, 1, 0, 1]))
    with refused(AssumptionViolated, n_sequences=4, dim=2):
        bh.compile(data, method="dana-2024")
    with refused(AssumptionViolated, n_sequences=4, dim=2):
        get("dana-2024").estimate(DataShape.of(data), {})
    certificate = bh.compile(data, method="dana-2024", dim=4).certificate
    assert certificate is not None
    assert certificate.holds


def test_the_likeliest_sequences_come_first() -> None:
    weights = np.array([0.1, 0.4, 0.0, 0.2, 0.3])
    assert likeliest_sequences(weights, 0.0).tolist() == [1, 4, 3, 0]
    assert likeliest_sequences(weights, 0.25).tolist() == [1, 4, 3]
    assert likeliest_sequences(weights, 0.65).tolist() == [1]
    kept = likeliest_sequences(np.full(100, 0.01), 0.2)
    assert 80 <= len(kept) <= 81


@checks("DPC24-T1")
@pytest.mark.parametrize("dim", [2, 3])  # below N - 1 = 5
def test_what_is_left_out_costs_at_most_its_share_of_the_worst_error(dim: int) -> None:
    rng = np.random.default_rng(3)
    ids, weights = pairs(6), rng.dirichlet(np.full(36, 0.3))
    p = rng.dirichlet(np.full(6, 0.5), 36) * 0.99 + 0.01 / 6
    encoder = best_encoder(p, weights, dim, rng, n_random_starts=1, max_evaluations=200).encoder
    n_heads = []
    for epsilon in (0.0, 0.05, 0.3):
        found = memorise_likeliest(ids, p, weights, encoder, rng, epsilon=epsilon, n_vocab=6, head_dim=dim)
        n_heads.append(found.network.n_heads)
        left = np.setdiff1d(np.arange(36), found.kept)
        assert weights[left].sum() < epsilon or not len(left)
        assert found.gamma < 1e-5
        assert found.divergence <= found.ceiling(epsilon) + 1e-12
        if epsilon == 0:
            assert found.divergence == pytest.approx(found.encoder_divergence, abs=1e-5)
    assert n_heads[0] > n_heads[1] > n_heads[2]  # fewer sequences take fewer heads


@checks("DPC24-T1")
def test_uniform_distributions_have_logits_of_zero() -> None:
    ids, uniform, weights = pairs(3), np.full((9, 3), 1 / 3), np.full(9, 1 / 9)
    encoder = full_rank_encoder(uniform)
    found = memorise_likeliest(
        ids, uniform, weights, encoder, np.random.default_rng(0), epsilon=0.3, n_vocab=3
    )
    assert found.divergence <= found.ceiling(0.3) + 1e-12


@checks("DPC24-T3", "DPC24-D2", "DPC24-L4")
def test_distributions_with_zeros_are_approximated_within_epsilon_log_one_over_epsilon() -> None:
    rng = np.random.default_rng(0)
    ids, weights = pairs(5), rng.dirichlet(np.full(25, 0.3))
    p = rng.dirichlet(np.full(5, 0.5), 25)
    p[np.arange(25), rng.integers(0, 5, 25)] = 0
    p /= p.sum(axis=1, keepdims=True)
    scales = []
    for epsilon in (0.2, 0.05, 0.0125):
        found = memorise_approximately(ids, p, weights, rng, epsilon=epsilon, n_vocab=5, head_dim=4)
        assert found.encoder_divergence <= epsilon
        assert found.divergence <= found.ceiling(epsilon) + 1e-12
        scales.append(found.scale)
    growth = np.diff(scales) / np.log(4)
    assert (growth < 1.5).all()  # ‖WE‖ is O(log 1/ε)


@checks("DPC24-T3")
@pytest.mark.parametrize("epsilon", [0.0, -0.1, float("nan")])
def test_an_approximation_without_error_is_refused(epsilon: float) -> None:
    """It ended in a LinAlgError."""
    certain = np.eye(4)[np.zeros(9, dtype=int)]
    ids, weights, rng = pairs(3), np.full(9, 1 / 9), np.random.default_rng(0)
    with refused(UsageError, "epsilon"):
        memorise_approximately(ids, certain, weights, rng, epsilon=epsilon, n_vocab=4)


@checks("DPC24-C2")
@pytest.mark.parametrize("n_heads", [0, 5, 12])
def test_fewer_heads_are_right_as_often_as_the_corollary_says(n_heads: int) -> None:
    ids, labels = pairs(8), np.random.default_rng(0).integers(0, 8, 64)
    found = memorise_in_part(ids, labels, 8, np.random.default_rng(1), n_heads=n_heads)
    assert found.network.n_heads == n_heads
    assert len(found.kept) == 2 * n_heads + 2
    answers = found.network.compute_logits(ids).argmax(axis=1)
    assert (answers[found.kept] == labels[found.kept]).all()
    assert (answers == labels).mean() == found.accuracy >= found.bound.value
    # the corollary itself: over all labels of the rest, each of its answers is right for one label in N
    rest = np.setdiff1d(np.arange(64), found.kept)
    by_shift = [(answers[rest] == (labels[rest] + shift) % 8).sum() for shift in range(8)]
    assert sum(by_shift) == len(rest)
    expected = Fraction(len(found.kept), 64) + Fraction(len(rest), 64 * 8)
    assert expected == found.bound.value


@checks("DPC24-C2")
def test_draws_that_lose_a_kept_sequence_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, labels = pairs(4), np.random.default_rng(0).integers(0, 4, 16)
    monkeypatch.setattr(
        "byheart.construct.dana_2024.partial.accuracy",
        lambda _, encoded, __: 1.0 if len(encoded) == 16 else 0.5,
    )
    with refused(AssumptionViolated, n_kept=6, accuracy=1.0) as caught:
        memorise_in_part(ids, labels, 4, np.random.default_rng(1), n_heads=2)
    assert "all 6 sequences that it should memorise" in str(caught.value)


@checks("DPC24-C2", "DPC24-C1")
def test_dimension_1_is_refused() -> None:
    ids = pairs(4)
    labels = ids.sum(axis=1) % 4
    with refused(UsageError, dim=1):
        memorise_in_part(ids, labels, 4, np.random.default_rng(1), n_heads=15, dim=1, head_dim=1)
    data = bh.Dataset.from_arrays(ids, labels)
    with refused(UsageError, dim=1):
        bh.compile(data, method="dana-2024", dim=1)
    with refused(UsageError, dim=1):
        get("dana-2024").size_of(DataShape.of(data), DanaOptions(dim=1))


def test_a_compact_mode_that_fails_says_how_much_is_right() -> None:
    data = random_tokens(20, 3, 4, 10, seed=0)
    with refused(AssumptionViolated, "n_heads") as caught:
        bh.compile(data, method="dana-2024", mode="compact", dim=1, head_dim=1)
    assert 0 < caught.value.facts["accuracy"] < 1


def test_vectors_are_refused_with_a_remedy() -> None:
    with refused(AssumptionViolated) as caught:
        get("dana-2024").estimate(DataShape(4, 3, 3, dim=2))
    assert "\n  Choose" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "high", "needed"), [(6, 4, 7), (10, 8, 19)])
def test_the_compact_mode_needs_far_fewer_heads_than_the_theorem(n: int, high: int, needed: int) -> None:
    ids = pairs(n)
    labels = np.random.default_rng(0).integers(0, n, n * n)

    def fit(n_heads: int):
        rng = np.random.default_rng(1)
        spec = AttentionOnlySpec("float32", n, 2, 5, n_heads, 5, 5, 5, n)
        return fit_compact(ids, labels, spec, rng, max_evaluations=10 * n * n)

    found = find_fewest(fit, lambda each: each.accuracy == 1, high, most=high)
    assert found is not None
    best = found.fit
    assert best.network.n_heads < heads_needed(n * n, 5, 5) == needed
    assert (best.network.compute_logits(ids).argmax(axis=1) == labels).all()
    assert best.network.n_heads == found.size
    assert found.size == 1 or (found.narrower is not None and found.narrower.accuracy < 1)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_documents_compile_save_and_load(precision: str, tmp_path: Path) -> None:
    data = documents(30, 8, 5, seed=1)
    model = bh.compile(data, method="dana-2024", precision=precision)
    assert model.certificate is not None
    assert model.certificate.distribution is not None
    assert model.certificate.distribution.max_divergence < (1e-12 if precision == "float64" else 1e-4)
    model.save(tmp_path / "model")
    again = bh.load(tmp_path / "model")
    assert again.certificate == model.certificate
    assert bh.verify(again, data).holds


def test_facts_of_different_lengths() -> None:
    data = bh.Dataset.from_csv(
        Path(__file__).parents[3] / "examples" / "capitals.csv", tokenizer="word"
    ).subset(list(range(40)))
    model = bh.compile(data, method="dana-2024", precision="float32", dim=8)
    assert model.certificate is not None
    assert model.certificate.holds
    names = [data.label_names[label] for label in data.labels]
    assert model.predict([data.inputs[i].tolist() for i in range(40)]) == names


def test_the_size_is_told_beforehand() -> None:
    rng = np.random.default_rng(0)
    data = bh.Dataset.from_arrays(pairs(8), rng.integers(0, 8, 64), task="next-token")
    built = get("dana-2024").build(data, {"precision": "float64"}, rng, None)
    planned, size = get("dana-2024").estimate(DataShape.of(data)), size_of_network(built.memoriser.network)
    assert (planned.parameters_dense, planned.width) == (size.parameters_dense, size.width)
    assert built.theorem_size is not None
    assert built.theorem_size.parameters == size.parameters_dense  # Corollary 1


def test_distributions_need_their_dimension() -> None:
    with pytest.raises(UsageError):
        bh.compile(documents(30, 8, 5, seed=1), method="dana-2024", precision="float64", dim=3)
    with refused(UsageError, "problem"):
        bh.compile(documents(30, 8, 5, seed=1), method="dana-2024", precision="float64", colour=3)


def test_the_number_of_threads_changes_no_bit() -> None:
    digests = set()
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            model = bh.compile(get("dana-2024").example().data, method="dana-2024", check=False)
        digests.add(weights_digest(model.network))
    assert len(digests) == 1
