"""Only what the answer needs: the same bits as the full forward pass, of random networks and of every stored one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import byheart as bh
from byheart.network import Attention, FeedForward, Head, Transformer
from byheart.network.transformer import answer_plan, wide_layer
from byheart.network.transformer import module as transformer_module
from byheart.network.transformer.answer_plan import AnswerPlan, make_plan
from byheart.network.transformer.evaluator import evaluate
from byheart.network.transformer.floats import as_floats
from byheart.network.transformer.interpreter import Interpreter
from byheart.network.transformer.module import TransformerModule, run_module, to_module
from byheart.network.transformer.needed_tokens import needed_tokens, positions_of
from byheart.network.transformer.wide_layer import WideLayer

from .networks import exact_networks, inputs_for

FIXTURES = Path(__file__).parents[1] / "storage" / "fixtures"


def run_whole(network: Transformer, encoded: np.ndarray, *, last_only: bool) -> np.ndarray:
    """The full forward pass: every token, every channel."""
    module = to_module(network).eval()
    inputs = torch.from_numpy(np.array(encoded))
    with torch.no_grad():
        outputs = module(inputs if network.takes_ids else inputs.to(module.w_in.dtype))[:, :, 0].numpy()
    return np.asarray(outputs[:, -1] if last_only else outputs)


def run_plan(network: Transformer, encoded: np.ndarray, *, last_only: bool) -> np.ndarray:
    """The same by a plan, whatever the number of samples."""
    module = to_module(network).eval()
    plan = AnswerPlan(module, last_only=last_only)
    inputs = torch.from_numpy(np.array(encoded))
    with torch.no_grad():
        return np.asarray(plan(inputs if network.takes_ids else inputs.to(module.w_in.dtype)).numpy())


def test_each_pattern_is_asked_what_it_reads() -> None:
    assert needed_tokens(["none", "full", "none", "scatter", "none"], last_only=True) == [
        *("all", "all", "ends", "ends", "last", "last")
    ]
    assert needed_tokens(["gather", "scatter"], last_only=True) == ["all", "ends", "last"]
    assert needed_tokens(["scatter", "gather"], last_only=True) == ["ends", "ends", "last"]
    assert needed_tokens(["full", "pool"], last_only=True) == ["all", "all", "last"]
    assert needed_tokens(["none", "scatter"], last_only=False) == ["all", "all", "all"]
    assert [positions_of("ends", n) for n in (1, 2, 9)] == [[0], [0, 1], [0, 8]]


@settings(max_examples=60, deadline=None)
@given(exact_networks(bits=3), st.booleans(), st.integers(0, 2**32))
def test_random_networks_answer_the_same_bits(network: Transformer, last_only: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = replace(as_floats(network), layers=as_floats(network).layers[:3])  # small: every sum is exact
    encoded = inputs_for(network, rng, 5)
    if not network.takes_ids:
        encoded = rng.integers(-3, 4, size=encoded.shape).astype(np.float64)
    whole = run_whole(network, encoded, last_only=last_only)
    assert np.array_equal(run_plan(network, encoded, last_only=last_only), whole)


@settings(max_examples=30, deadline=None)
@given(exact_networks(bits=40), st.integers(0, 2**32))
def test_the_exact_evaluator_drops_tokens_and_keeps_values(network: Transformer, seed: int) -> None:
    encoded = inputs_for(network, np.random.default_rng(seed), 3)
    last = Interpreter(network, last_only=True)
    expected = [value for sequence in encoded for value in last.outputs(sequence)]
    assert evaluate(network, encoded, last_only=True).all() == expected


@pytest.mark.parametrize(
    "name", sorted(path.name for path in FIXTURES.glob("*") if (path / "model.json").exists())
)
def test_stored_networks_answer_the_same_bits(name: str) -> None:
    memoriser = bh.load(FIXTURES / name).memoriser
    if memoriser.network.spec.family != "transformer":
        return
    network, rng = memoriser.network, np.random.default_rng(0)
    try:
        module = to_module(network)
    except bh.errors.InexactWeights:
        return  # its words are longer than a float: only the exact evaluator runs it
    encoded = (
        rng.integers(0, network.n_vocab, size=(200, network.seq_len))
        if network.n_vocab is not None
        else rng.integers(0, 16, size=(200, network.seq_len, network.dim)).astype(np.float64)
    )
    for last_only in (True, False):
        scored = any(isinstance(layer, Attention) and layer.kind != "uniform" for layer in network.layers)
        assert (make_plan(module, last_only=last_only) is None) == scored
        if scored:
            continue
        answered = run_plan(network, encoded, last_only=last_only)
        assert np.array_equal(answered, run_whole(network, encoded, last_only=last_only))


def test_a_plan_is_made_for_much_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And either way the bits are the same."""
    made: list[int] = []

    def count_plans(module: TransformerModule, *, last_only: bool) -> AnswerPlan | None:
        made.append(1)
        return make_plan(module, last_only=last_only)

    monkeypatch.setattr(answer_plan, "make_plan", count_plans)
    network = bh.load(FIXTURES / "retrieval-tokens").memoriser.network
    ids = np.random.default_rng(0).integers(0, network.n_vocab, size=(50, network.seq_len))
    few = run_module(network, ids, last_only=True)
    assert not made
    monkeypatch.setattr(transformer_module, "WORTH_A_PLAN", 1)
    assert np.array_equal(run_module(network, ids, last_only=True), few)
    assert made


def _table(rng: np.random.Generator, n_rows: int, n_words: int) -> FeedForward:
    """Unit a is ReLU(Γ·(1 - 2·(row - a)²) + V[a]·φ): channels row, row², 1 output, then φ."""
    a, gate = np.arange(n_rows), 2.0**20
    w1 = np.zeros((n_rows, 3 + n_words))
    w1[:, 0], w1[:, 1], w1[:, 3:] = 4 * gate * a, -2 * gate, rng.integers(0, 2**18, size=(n_rows, n_words))
    w2 = np.zeros((3 + n_words, n_rows))
    w2[2] = rng.integers(0, 2**18, size=n_rows)
    b2 = np.zeros(3 + n_words)
    b2[2] = 5.0
    return FeedForward(w1, gate * (1 - 2 * a * a), w2, b2)


def test_units_that_cannot_fire_are_left_out_and_change_nothing() -> None:
    rng = np.random.default_rng(0)
    table = _table(rng, 100, 8)
    rows = rng.integers(0, 100, size=500).astype(np.float64)
    phi = (rng.random((500, 8)) < 0.25).astype(np.float64)
    inputs = np.concatenate([rows[:, None], rows[:, None] ** 2, np.zeros((500, 1)), phi], axis=1)[:, None]
    network = Transformer(np.eye(11), (table,), np.eye(11)[2:3], 1)
    assert np.array_equal(
        run_plan(network, inputs, last_only=False), run_whole(network, inputs, last_only=False)
    )
    plan = AnswerPlan(to_module(network), last_only=True)
    with torch.no_grad():
        plan(torch.from_numpy(inputs))
    (layer,) = plan._layers
    assert isinstance(layer, WideLayer)
    assert layer._n_strong == 2
    left = layer._units_left(torch.from_numpy(inputs[:, 0].T)[layer._reads], 2)
    assert left is not None
    assert 500 <= len(left[0]) < 1000


def test_units_that_are_remembered_change_no_bit() -> None:
    """Of rows met before and new ones, beside numbers smaller and larger than those met; and of numbers that are no rows."""
    rng = np.random.default_rng(3)
    network = Transformer(np.eye(11), (_table(rng, 100, 8),), np.eye(11)[2:3], 1)
    module = to_module(network).eval()
    plan = AnswerPlan(module, last_only=True)
    for largest, n_rows in ((1, 60), (1, 100), (3, 100), (1, 100), (40, 100), (2, 100), (1, 10**6)):
        rows = rng.integers(0, n_rows, size=500).astype(np.float64)
        phi = rng.integers(0, largest + 1, size=(500, 8)).astype(np.float64)
        inputs = np.concatenate([rows[:, None], rows[:, None] ** 2, np.zeros((500, 1)), phi], axis=1)
        batch = torch.from_numpy(inputs[:, None])
        with torch.no_grad():
            assert torch.equal(plan(batch), module(batch)[:, -1, 0])


def test_a_batch_that_forgets_or_remembers_while_another_runs_changes_no_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Batches run side by side: whenever one looks units up, another begins and ends here, and both answer the module's bits."""
    rng = np.random.default_rng(5)
    network = Transformer(np.eye(11), (_table(rng, 100, 8),), np.eye(11)[2:3], 1)
    module = to_module(network).eval()
    plan = AnswerPlan(module, last_only=True)
    look_up, within = wide_layer._units_of, []

    def batch(largest: int, n_rows: int) -> torch.Tensor:
        rows = rng.integers(0, n_rows, size=500).astype(np.float64)
        phi = rng.integers(0, largest + 1, size=(500, 8)).astype(np.float64)
        return torch.from_numpy(
            np.concatenate([rows[:, None], rows[:, None] ** 2, np.zeros((500, 1)), phi], axis=1)[:, None]
        )

    def look_up_beside_another(
        bounds: torch.Tensor, test: torch.Tensor
    ) -> tuple[np.ndarray, np.ndarray] | None:
        found = look_up(bounds, test)
        if not within:
            within.append(other)
            assert torch.equal(plan(other), module(other)[:, -1, 0])
            within.clear()
        return found

    monkeypatch.setattr(wide_layer, "_units_of", look_up_beside_another)
    sizes = ((1, 60), (40, 100), (1, 100), (64, 100), (3, 100))
    with torch.no_grad():
        for first, second in itertools.product(sizes, sizes):
            other, asked = batch(*second), batch(*first)
            assert torch.equal(plan(asked), module(asked)[:, -1, 0])


def test_a_wide_layer_in_which_many_units_fire_is_computed_whole() -> None:
    rng = np.random.default_rng(1)
    weights = [
        rng.integers(-9, 10, size=shape).astype(np.float64) for shape in ((90, 7), (90,), (7, 90), (7,))
    ]
    network = Transformer(np.eye(7), (FeedForward(*weights),), np.ones((1, 7)), 2)
    inputs = rng.integers(-9, 10, size=(300, 2, 7)).astype(np.float64)
    assert np.array_equal(
        run_plan(network, inputs, last_only=False), run_whole(network, inputs, last_only=False)
    )


def test_numbers_that_are_not_finite_are_left_to_the_module() -> None:
    """An infinite number that no answer reads makes the full pass answer "not a number", and so must the plan."""
    layer = FeedForward(np.array([[1.0, 0.0]]), np.zeros(1), np.array([[1e300], [0.0]]), np.zeros(2))
    network = Transformer(np.eye(2), (layer,), np.array([[0.0, 1.0]]), 1)
    inputs = np.array([[[1e10, 3.0]], [[0.0, 3.0]]])
    whole = run_whole(network, inputs, last_only=True)
    assert np.isnan(whole).tolist() == [True, False]
    found = [run_plan(network, inputs[at : at + 1], last_only=True)[0] for at in (0, 1)]
    assert np.array_equal(found, whole, equal_nan=True)


def test_an_infinite_number_of_a_dropped_token_is_noticed() -> None:
    one = np.array([[0.0, 1.0]])
    grows = FeedForward(np.array([[1.0, 0.0]]), np.zeros(1), np.array([[1e300], [0.0]]), np.zeros(2))
    reads = Attention((Head(one, one.T),), "uniform", "scatter")
    network = Transformer(np.eye(2), (grows, reads), one, 3)
    inputs = np.zeros((2, 3, 2))
    inputs[0, 0, 0] = 1e10
    whole = run_whole(network, inputs, last_only=True)
    assert np.isnan(whole).tolist() == [True, False]
    found = [run_plan(network, inputs[at : at + 1], last_only=True)[0] for at in (0, 1)]
    assert np.array_equal(found, whole, equal_nan=True)
