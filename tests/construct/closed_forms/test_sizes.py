"""Every number of a size is known before building: the estimate of a shape is what is built, but for weights that are zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import byheart as bh
from byheart.bounds.madden_2024 import theorem_5_parameters, theorem_7_parameters
from byheart.construct.registry import get
from byheart.data.dataset import Dataset
from byheart.data.generators import uniform_vectors
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.size import size_of_network
from byheart.theorems import statements
from tests.refusal import refused

from .story_data import documents


def single_tokens(n_samples: int, n_classes: int = 7, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    ids = rng.permutation(n_samples + 5)[:n_samples]
    labels = rng.integers(0, n_classes, n_samples)
    labels[:n_classes] = range(n_classes)
    return Dataset.from_arrays(ids[:, None], labels)


def pairs(n_samples: int, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    ids = rng.permutation(40 * 40)[:n_samples]
    return Dataset.from_arrays(np.stack([ids // 40, ids % 40], axis=1), rng.integers(0, 5, n_samples))


def agrees(name: str, data: Dataset, **options: object) -> None:
    method = get(name)
    found = method.plan(data, method.read_options(options), np.random.default_rng(0), None)
    size, estimate = (
        size_of_network(found.emit().memoriser.network),
        method.estimate(DataShape.of(data), options),
    )
    assert found.size == size
    assert replace(estimate, parameters_nonzero=size.parameters_nonzero) == size


@pytest.mark.parametrize("name", ["madden-2024", "madden-2024-averaging", "dana-2024"])
@pytest.mark.parametrize("n_samples", [10, 100, 1000])
def test_sizes_of_pairs_are_exact(name: str, n_samples: int) -> None:
    agrees(name, pairs(n_samples))


@pytest.mark.parametrize("name", ["linear-memory", "attention-as-mlp"])
@pytest.mark.parametrize("n_samples", [10, 100, 1000])
def test_sizes_of_single_tokens_are_exact(name: str, n_samples: int) -> None:
    agrees(name, single_tokens(n_samples))


@pytest.mark.parametrize("name", ["linear-memory", "attention-as-mlp"])
def test_sizes_of_single_tokens_name_a_statement_or_none(name: str) -> None:
    method = get(name)
    found = method.plan(single_tokens(10), method.read_options({}), np.random.default_rng(0), None)
    assert found.theorem_size is not None
    assert found.theorem_size.theorem.statement in {"", *(each.id for each in statements())}


@pytest.mark.parametrize("n_samples", [10, 100, 1000])
def test_sizes_of_vectors_are_exact(n_samples: int) -> None:
    agrees("mahdavi-2023", uniform_vectors(n_samples, 7, 12, seed=0))
    if n_samples <= 100:
        agrees("mahdavi-2023", uniform_vectors(n_samples, 7, 12, seed=0), head_dim=3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("madden-2024", {"precision": "float32"}),
        ("madden-2024-averaging", {"precision": "float32", "activation": "gelu"}),
        ("madden-2024", {"solver": "random-features", "dim": 6, "n_heads": 2}),
        ("madden-2024", {"solver": "convex", "hidden_width": 24, "gap": 0.5}),
        ("dana-2024", {"dim": 5, "head_dim": 3}),
        ("dana-2024", {"precision": "float32", "dim": 4}),
        ("dana-2024", {"mode": "compact", "dim": 6, "n_heads": 8}),
    ],
)
def test_sizes_are_exact_for_other_choices(name: str, options: dict[str, object]) -> None:
    agrees(name, pairs(60), **options)


@pytest.mark.parametrize("name", ["madden-2024", "madden-2024-averaging", "dana-2024"])
def test_sizes_of_distributions_are_exact(name: str) -> None:
    agrees(name, documents(40, 12, 6, seed=1))


def test_what_is_estimated_of_random_data_is_the_theorems_number() -> None:
    # before building nothing is known of zeros, and the dense count is that of the theorem at d = 1
    shape = DataShape(500, 3, 10, vocab=40)
    for name, theorem in (
        ("madden-2024", theorem_5_parameters),
        ("madden-2024-averaging", theorem_7_parameters),
    ):
        size = get(name).estimate(shape)
        assert size.parameters_dense == size.parameters_nonzero == theorem(500, 40, 3, 10).value


@pytest.mark.parametrize("name", ["linear-memory", "attention-as-mlp"])
def test_memories_of_single_tokens_compile_verify_save_and_answer(name: str, tmp_path: object) -> None:
    data = single_tokens(60)
    model = bh.compile(data, method=name, precision="float64")
    assert model.certificate is not None
    assert model.certificate.holds
    assert model.certificate.checked == 60
    model.save(f"{tmp_path}/model")
    again = bh.load(f"{tmp_path}/model")
    assert again.certificate == model.certificate
    asked = [sequence.tolist() for sequence in (data.inputs[i] for i in range(60))]
    assert again.predict(asked) == model.predict(asked)
    assert bh.verify(again, data).holds
    # one changed label is found out
    labels = data.labels.copy()
    labels[7] = (labels[7] + 1) % 7
    spoilt = Dataset.from_arrays(data.inputs.ids[:, None], labels)
    assert bh.verify(again, spoilt).wrong == 1


@pytest.mark.parametrize("name", ["linear-memory", "attention-as-mlp"])
def test_memories_of_single_tokens_refuse_sequences_and_vectors(name: str) -> None:
    with refused(AssumptionViolated, "method", seq_len=2):
        bh.compile(pairs(10), method=name, precision="float64")
    with refused(AssumptionViolated, "method"):
        bh.compile(uniform_vectors(5, 1, 4, seed=0), method=name, precision="float64")


def test_a_linear_memory_of_fewer_dimensions_is_fitted_or_refused() -> None:
    data = single_tokens(40)
    fitted = bh.compile(data, method="linear-memory", precision="float64", dim=20)
    assert fitted.record["notes"]["rule"] == "regression"
    assert fitted.certificate is not None
    assert fitted.certificate.holds
    with refused(AssumptionViolated, wrong=32):
        bh.compile(data, method="linear-memory", precision="float64", dim=3, rule="hebbian")


def test_the_zero_token_takes_its_share() -> None:
    """A head with score s and value v gives sigmoid(s)·v, and v without the zero token."""
    model = bh.compile(single_tokens(6, 3), method="attention-as-mlp", precision="float64")
    network = model.network
    few = replace(
        network,
        query=np.array([[[0.5, 0.0]]]),
        key=np.array([[[0.0, 1.0]]]),
        value=np.array([[[1.0, 0.0]]]),
        output=np.array([[[1.0], [0.0]]]),
        unembedding=np.eye(2),
    )
    ids = np.array([[3]])
    assert few.compute_logits(ids)[0, 0] == pytest.approx(3 / (1 + np.exp(-1.5)), rel=1e-15)
    assert replace(few, zero_token=False).compute_logits(ids)[0, 0] == 3
