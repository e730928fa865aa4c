"""Capacity decided both ways: reached by a decoder, or out of reach of all of them by a certified number of nats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds.madden_2024 import DecoderShape, lemma_2, theorem_1
from byheart.bounds.rank_gap import excess_loss
from byheart.construct.madden_2024.capacity import decide_capacity, full_rank_minor, witness_corpus
from byheart.data import Dataset
from byheart.errors import AssumptionViolated, ImpossibleSize, UsageError
from byheart.network.divergence import divergences
from byheart.theorems import checks
from byheart.verify.verifier import verify
from tests.examples import examples
from tests.refusal import refused


def shape(hidden_width: int, vocab: int) -> DecoderShape:
    return DecoderShape(1, 1, 1, 1, hidden_width, vocab, 2)


SHAPES = [shape(1, 5), shape(2, 6), shape(3, 8)]


@checks("MFT24-T1")
@pytest.mark.parametrize("decoder", SHAPES)
def test_a_witness_has_one_context_too_many_and_is_out_of_reach(decoder: DecoderShape) -> None:
    data = witness_corpus(decoder)
    contexts = data.contexts()
    assert data.n_classes == decoder.vocab
    assert len(contexts) == theorem_1(decoder.parameters, decoder.vocab).value + 1
    found = decide_capacity(data, decoder.hidden_width, np.random.default_rng(0))
    assert found.verdict == "out of reach"
    assert found.excess is not None
    assert found.excess.value > 1e-4  # nats, for every decoder of this shape


@checks("MFT24-T1", "DPC24-P1")
@pytest.mark.parametrize("decoder", SHAPES[:2])
def test_no_logits_of_that_rank_come_closer_than_certified(decoder: DecoderShape) -> None:
    """Descend on all logits of rank m, which every decoder with m neurons has: the loss stays above the certified number."""
    from scipy.optimize import minimize

    data, rank = witness_corpus(decoder), decoder.hidden_width
    contexts = data.contexts()
    pi, counts = contexts.dense_probabilities(), contexts.counts
    least = decide_capacity(data, rank, np.random.default_rng(0)).excess
    assert least is not None
    cut = len(contexts) * rank

    def loss_and_slope(flat: np.ndarray) -> tuple[float, np.ndarray]:
        left, right = flat[:cut].reshape(-1, rank), flat[cut:].reshape(-1, rank)
        logits = left @ right.T
        logits -= logits.max(axis=1, keepdims=True)
        q = np.exp(logits)
        q /= q.sum(axis=1, keepdims=True)
        found = divergences(*np.nonzero(pi), pi[pi > 0], logits)
        error = counts[:, None] * (q - pi)
        return float(counts @ found), np.concatenate([(error @ right).ravel(), (error.T @ left).ravel()])

    rng = np.random.default_rng(0)
    reached = min(
        minimize(
            loss_and_slope, rng.standard_normal(cut + rank * pi.shape[1]), jac=True, method="L-BFGS-B"
        ).fun
        for _ in range(3)
    )
    assert float(least.value) <= reached


@checks("MFT24-Def1")
def test_as_many_neurons_as_contexts_reach_the_same_corpus() -> None:
    data = witness_corpus(shape(1, 5))
    found = decide_capacity(data, len(data.contexts()), np.random.default_rng(0))
    assert found.verdict == "reached"
    assert found.construction is not None
    certificate = verify(found.construction.memoriser, data)
    assert certificate.holds
    assert certificate.distribution is not None
    entropy = lemma_2(data.contexts().counts.tolist(), data.contexts().next_counts.tolist())
    assert certificate.distribution.loss_nats >= float(entropy.value) - 1e-9
    assert certificate.distribution.gap_nats < 1e-6


@checks("MFT24-Def1")
def test_what_neither_argument_decides_is_left_undecided() -> None:
    data = Dataset.from_documents(["a b c", "a b d", "b a c"])  # no two contexts share two next tokens
    assert decide_capacity(data, 1, np.random.default_rng(0)).verdict == "undecided"
    with pytest.raises(UsageError):
        decide_capacity(Dataset.from_pairs([("a", "b")]), 1, np.random.default_rng(0))
    with refused(AssumptionViolated, n_contexts=23):
        witness_corpus(shape(4, 5))
    # the vocabulary is large enough for one neuron, but its three tokens make only nine pairs
    with refused(AssumptionViolated, n_contexts=19, n_pairs=16):
        witness_corpus(shape(1, 3))


@checks("DPC24-P1")
@examples(100)
@given(st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_the_certified_number_is_below_every_model_of_that_rank(seed: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 40, (rank + 2, rank + 2))
    totals = table.sum(axis=1) + rng.integers(0, 5, rank + 2)  # some mass on other tokens
    least = excess_loss(table.tolist(), totals.tolist())
    pi = np.column_stack([table, totals - table.sum(axis=1)]) / totals[:, None]
    log_pi = np.log(np.maximum(pi, 1e-9))
    left, sizes, right = np.linalg.svd(log_pi - log_pi.mean(axis=1, keepdims=True), full_matrices=False)
    logits = (left[:, :rank] * sizes[:rank]) @ right[:rank]
    logits = logits + rng.normal(0, 0.1, (rank + 2, rank)) @ right[:rank]  # of the same rank, and truly moved
    found = divergences(*np.nonzero(pi), pi[pi > 0], logits)
    assert float(least.value) <= float(totals @ found) + 1e-12


@pytest.mark.parametrize(
    ("counts", "totals"),
    [
        ([[1]], [1]),
        ([[1, 0], [1, 1]], [1, 2]),
        ([[1, 3], [1, 1]], [2, 2]),
        ([[3, 1], [1, 3]], [3, 3]),
        ([[3, 1], [1, 3]], [4, 3]),
    ],
)
def test_counts_that_mean_nothing_are_refused(counts: list[list[int]], totals: list[int]) -> None:
    with pytest.raises(ImpossibleSize):
        excess_loss(counts, totals)


def test_frequencies_of_smaller_rank_give_nothing() -> None:
    assert excess_loss([[2, 4, 8], [2, 4, 8], [1, 1, 1]], [20, 20, 20]).value == 0
    repeated = Dataset.from_documents([f"{a} {b}" for a in "xyz" for b in "aabbc"])
    assert full_rank_minor(repeated.contexts(), 3) is None
