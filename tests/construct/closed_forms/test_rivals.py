"""What MFT24 and DPC24 compare themselves with: MLT23, linear memories, heads as neurons."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import byheart as bh
from byheart.construct.attention_as_mlp.theorem import network_of_heads
from byheart.construct.linear_memory.memories import hebbian, pseudo_inverse, random_embeddings, regression
from byheart.construct.mahdavi_2023.theorem import capacity, head_features, heads_for
from byheart.construct.registry import get
from byheart.data.generators import uniform_vectors
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.size import size_of_network
from tests.examples import examples


def heads_without_outputs(n_heads: int, head_dim: int, dim: int, seq_len: int, seed: int) -> AttentionOnly:
    rng = np.random.default_rng(seed)
    query, key = (rng.standard_normal((n_heads, head_dim, dim)) for _ in range(2))
    zero = np.zeros((n_heads, 2, dim)), np.zeros((n_heads, 2, 2))
    return AttentionOnly(None, query, key, *zero, np.zeros((2, 2)), seq_len, skip=False, sees_itself=False)


@pytest.mark.parametrize(
    ("n_context", "dim", "head_dim", "n_heads"), [(4, 8, 4, 5), (4, 8, 2, 5), (6, 16, 4, 8)]
)
def test_examples_at_the_bound_are_memorised(n_context: int, dim: int, head_dim: int, n_heads: int) -> None:
    n_examples = capacity(n_heads, n_context, head_dim)
    assert heads_for(n_examples, n_context, head_dim) == n_heads
    data = uniform_vectors(n_examples, n_context + 1, dim, seed=1)
    model = bh.compile(data, method="mahdavi-2023", head_dim=head_dim)
    assert model.certificate is not None
    assert model.certificate.holds
    assert model.network.n_heads == n_heads
    assert model.record["notes"]["rank"] == n_examples


def test_the_size_is_told_beforehand() -> None:
    data = uniform_vectors(16, 5, 8, seed=0)
    built = get("mahdavi-2023").build(data, {}, np.random.default_rng(0), None)
    planned, size = get("mahdavi-2023").estimate(DataShape.of(data)), size_of_network(built.memoriser.network)
    assert (planned.parameters_dense, planned.depth, planned.width) == (
        size.parameters_dense,
        size.depth,
        size.width,
    )


def test_a_shared_context_has_a_ceiling_that_head_size_does_not_lower() -> None:
    rng = np.random.default_rng(0)
    n_context, dim, n_heads = 4, 8, 5
    ceiling = n_heads * (n_context - 1) + 1  # softmax patterns sum to one
    context = rng.standard_normal((1, n_context, dim)).repeat(ceiling + 1, axis=0)
    queries = 3 * rng.standard_normal((ceiling + 1, 1, dim))
    x = np.concatenate([context, queries], axis=1)
    assert capacity(n_heads, n_context, 1) == 1  # what the formula says of d_h = 1
    found = head_features(heads_without_outputs(n_heads, 1, dim, n_context + 1, 0), x)
    assert found.rank == ceiling  # one more example than the ceiling cannot be memorised


def test_what_breaks_an_assumption_is_refused() -> None:
    good = uniform_vectors(5, 4, 8, seed=0)
    values = np.array(good.inputs.values)
    same = values.copy()
    same[1] = same[0]
    flat = values.copy()
    flat[2, 1] = flat[2, 0]
    for broken in (values[:, :, :3], same, flat):
        data = bh.Dataset.from_arrays(
            broken, np.arange(5) if broken is not same else np.array([0, 0, 1, 2, 3])
        )
        with pytest.raises(AssumptionViolated):
            bh.compile(data, method="mahdavi-2023")
    with pytest.raises(AssumptionViolated):
        heads_for(5, 4, 1)


def answers(inputs: np.ndarray, matrix: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    return np.asarray((inputs @ matrix.T @ outputs.T).argmax(axis=1))


@examples(200)
@given(dim=st.integers(2, 20), seed=st.integers(0, 2**32 - 1))
def test_as_many_associations_as_dimensions_are_exact(dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, outputs = random_embeddings(dim, dim, rng), random_embeddings(dim, dim, rng)
    outputs /= np.linalg.norm(outputs, axis=1, keepdims=True)  # then u_y·u_y is the largest u_y·u
    labels = rng.permutation(dim)
    matrix = pseudo_inverse(inputs, outputs, labels)
    if np.linalg.cond(inputs) < 1e6:
        assert (answers(inputs, matrix, outputs) == labels).all()


def test_regression_stores_what_hebb_cannot() -> None:
    dim, rng = 16, np.random.default_rng(0)
    n = 45  # N ln N = 171 < d² = 256, where Hebb wants 8 N ln N
    inputs, outputs = random_embeddings(n, dim, rng), random_embeddings(n, dim, rng)
    labels = rng.permutation(n)
    assert (answers(inputs, hebbian(inputs, outputs, labels), outputs) == labels).mean() < 1
    assert (answers(inputs, regression(inputs, outputs, labels), outputs) == labels).all()
    inputs, outputs = random_embeddings(4, 512, rng), random_embeddings(4, 512, rng)
    assert (answers(inputs, hebbian(inputs, outputs, np.arange(4)), outputs) == np.arange(4)).all()


@examples(200)
@given(seed=st.integers(0, 2**32 - 1), width=st.integers(1, 6), n_vocab=st.integers(1, 5))
def test_heads_are_silu_neurons(seed: int, width: int, n_vocab: int) -> None:
    rng = np.random.default_rng(seed)
    directions, outputs = rng.normal(0, 2, (width, 2)), rng.normal(0, 1, (width, 2))
    network = network_of_heads(directions, outputs, n_vocab, np.eye(2))
    tokens = np.arange(n_vocab)
    before = torch.from_numpy(np.outer(tokens, directions[:, 0]) + directions[:, 1])
    expected = torch.nn.functional.silu(before).numpy() @ outputs
    assert np.abs(network.compute_logits(tokens[:, None]) - expected).max() < 1e-12
