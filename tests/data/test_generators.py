from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.data import (
    Dataset,
    TokenSequences,
    VectorSequences,
    associations,
    grid_vectors,
    rademacher_vectors,
    random_tokens,
    uniform_vectors,
    zipf_documents,
)
from byheart.errors import ConflictingLabels, NonFiniteInput
from tests.adversarial import ADVERSARIAL
from tests.examples import examples
from tests.refusal import refused

SMALL: dict[str, Callable[[int], Dataset]] = {
    "uniform": lambda seed: uniform_vectors(20, 3, 2, 5, seed=seed),
    "uniform seq-to-seq": lambda seed: uniform_vectors(20, 3, 2, 5, seed=seed, task="seq-to-seq"),
    "grid": lambda seed: grid_vectors(20, 3, 2, 5, levels=2, seed=seed),
    "grid seq-to-seq": lambda seed: grid_vectors(20, 3, 2, 5, levels=2, seed=seed, task="seq-to-seq"),
    "grid set": lambda seed: grid_vectors(20, 3, 2, 5, levels=2, seed=seed, task="set"),
    "tokens": lambda seed: random_tokens(40, 3, 2, 5, seed=seed),
    "ragged": lambda seed: random_tokens(40, 5, 2, 5, seed=seed, min_len=1),
    "multisets": lambda seed: random_tokens(40, 3, 2, 5, seed=seed, ordered=False),
    "token sets": lambda seed: random_tokens(40, 3, 2, 5, seed=seed, task="set"),
    "associations": lambda seed: associations(4, seed=seed),
    "signs": lambda seed: rademacher_vectors(20, seed=seed),
    "documents": lambda seed: zipf_documents(20, seed=seed),
}


@pytest.mark.parametrize("name", [*SMALL, *ADVERSARIAL])
def test_the_seed_decides_everything(name: str) -> None:
    make = SMALL.get(name) or ADVERSARIAL[name]
    assert make(7).digest == make(7).digest
    assert len({make(seed).digest for seed in range(6)}) > 1 or make(7).n_classes == 1


@examples(240)
@given(name=st.sampled_from(sorted(SMALL)), seed=st.integers(0, 2**32))
def test_generated_data_can_be_memorised(name: str, seed: int) -> None:
    assert SMALL[name](seed).check().is_memorisable


def test_grid_vectors_draw_inputs_first_then_labels() -> None:
    rng = np.random.default_rng(1)
    inputs, labels = rng.integers(0, 16, size=(50, 8, 4)), rng.integers(0, 16, size=50)
    data = grid_vectors(50, seed=1)
    assert isinstance(data.inputs, VectorSequences)
    assert (data.inputs.values == inputs).all()
    assert (data.labels == labels).all()
    assert (data.n_classes, data.ordered) == (16, False)


def test_uniform_vectors_fill_the_unit_cube() -> None:
    data = uniform_vectors(500, seed=0)
    assert isinstance(data.inputs, VectorSequences)
    values = data.inputs.values
    assert values.shape == (500, 8, 4)
    assert 0 <= values.min() < 0.01
    assert 0.99 < values.max() < 1
    assert set(data.labels.tolist()) == set(range(16))


def test_signs_are_minus_and_plus_one() -> None:
    data = rademacher_vectors(seed=0)
    assert (data.n_samples, data.seq_len, data.dim, data.label_names) == (500, 10, 6, ("-1", "1"))


def test_associations_are_all_pairs_once() -> None:
    data = associations(seed=0)
    assert (data.n_samples, data.seq_len, data.n_classes, data.vocab) == (2500, 2, 50, 50)
    assert isinstance(data.inputs, TokenSequences)
    assert len({tuple(data.inputs[i].tolist()) for i in range(2500)}) == 2500
    assert associations(3, 3, seed=0).n_samples == 27


def test_ragged_tokens_have_every_length() -> None:
    lengths = random_tokens(500, 5, seed=0, min_len=2).lengths
    assert set(lengths.tolist()) == {2, 3, 4, 5}


def test_documents_share_prefixes_as_stories_do() -> None:
    contexts = zipf_documents(1000, seed=0).contexts()
    assert 1000 < len(contexts) < 9000 - 2000  # far fewer than positions, far more than first tokens
    assert 0.1 < contexts.entropy_nats_per_token < 1.5


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversaries_are_memorisable_unless_marked(name: str) -> None:
    adversary = ADVERSARIAL[name]
    assert adversary.name == name
    assert len(adversary.why) > 10
    for seed in range(5):
        data = adversary(seed)
        assert data.check().is_memorisable != adversary.refused
        assert data.n_samples <= 200
        str(data.check())


def test_what_cannot_be_memorised_is_refused() -> None:
    assert {name for name, adversary in ADVERSARIAL.items() if adversary.refused} == {
        "conflicting-labels",
        "not-a-number",
        "infinite",
    }
    with refused(ConflictingLabels, "rows", "samples", "labels", n_conflicts=1):
        ADVERSARIAL["conflicting-labels"](0).require_consistent()
    for name in ("not-a-number", "infinite"):
        ADVERSARIAL[name](0).require_consistent()
        with refused(NonFiniteInput, "value", sample=6, position=3, coordinate=1, n_non_finite=1):
            ADVERSARIAL[name](0).require_finite()


def vectors(name: str) -> np.ndarray:
    inputs = ADVERSARIAL[name](0).inputs
    assert isinstance(inputs, VectorSequences)
    return inputs.values


def test_adversaries_are_what_they_say() -> None:
    rows = vectors("equal-power-sums")[:, :8, 0].astype(int)
    for a, b in zip(rows[0::2], rows[1::2], strict=True):
        assert [(a**k).sum() for k in (1, 2, 3)] == [(b**k).sum() for k in (1, 2, 3)]
        assert sorted(a) != sorted(b)
        assert (a**4).sum() != (b**4).sum()
    assert len(set(vectors("equal-sums").sum(axis=1)[:, 0])) == 1
    assert not vectors("zero-sums").sum(axis=1).any()
    delta = ADVERSARIAL["exactly-delta-apart"](0).check().separation
    assert delta is not None
    assert delta.delta == 0.125
    near = ADVERSARIAL["neighbouring-floats"](0).check().separation
    assert near is not None
    assert near.delta == 2**-52
    wide = ADVERSARIAL["huge-and-denormal"](0).check().separation
    assert wide is not None
    assert wide.delta == 5e-324
    assert ADVERSARIAL["vocabulary-of-one"](0).vocab == 1
    assert ADVERSARIAL["length-one"](0).seq_len == 1
    assert ADVERSARIAL["one-sample"](0).n_samples == 1
    assert ADVERSARIAL["all-labels-differ"](0).n_classes == ADVERSARIAL["all-labels-differ"](0).n_samples
    base, *changed = (ADVERSARIAL["one-token-differs"](0).inputs[i] for i in range(25))
    assert all((row != base).sum() == 1 for row in changed)


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = "import sys, byheart.data; print(*(m for m in sys.argv[1:] if m in sys.modules))"
    heavy = ["torch", "pyarrow", "tokenizers", "matplotlib", "scipy", "numba"]
    run = subprocess.run([sys.executable, "-c", program, *heavy], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
    twin = subprocess.run(
        [sys.executable, "-c", "import scipy.spatial;" + program, *heavy],
        capture_output=True,
        text=True,
        check=True,
    )
    assert twin.stdout.split() == ["scipy"]
