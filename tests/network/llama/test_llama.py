"""A stock Llama: three ways to run it agree, and whatever breaks exactness is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from byheart.errors import DoesNotHold
from byheart.network.llama import generation
from byheart.network.llama.architecture import Llama
from byheart.network.llama.evaluator import SILU_SLOPE, evaluate
from byheart.network.llama.module import LlamaModule
from byheart.network.llama.spec import EMBEDDING, weight_name
from byheart.network.llama.stock import transformers_model
from byheart.network.protocol import Backend
from byheart.process.memory_limit import OverMemoryLimit
from tests.construct.llama.token_texts import compiled_windows, last_of
from tests.refusal import refused

TEXTS, COMPILED = compiled_windows(120)
IDS = torch.from_numpy(last_of(TEXTS))


def changed(name: str, at: tuple[int, ...], value: float) -> Llama:
    weights = dict(COMPILED.llama.weights)
    weights[name] = weights[name].copy()
    weights[name][at] = value
    return Llama(COMPILED.llama.spec, weights)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_transformers_and_torch_give_equal_logits(attention: str) -> None:
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    model = transformers_model(COMPILED.llama, attention)
    with torch.no_grad():
        theirs, ours = model(IDS).logits, LlamaModule(COMPILED.llama)(IDS)
    assert torch.equal(theirs, ours)
    assert torch.equal(ours[:, -1].argmax(-1), torch.from_numpy(TEXTS.following))


def test_the_attention_is_a_setting_of_transformers_alone() -> None:
    assert [set(COMPILED.llama.settings(backend)) for backend in Llama.backends] == [
        {"attention"},
        set(),
        set(),
    ]


@pytest.mark.parametrize("backend", ["transformers", "module", "exact"])
def test_batches_run_side_by_side_on_one_thread_each(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    monkeypatch.setattr(generation, "BATCH", 16)
    before = torch.get_num_threads()
    prompts = [row.tolist() for row in IDS[:50]]
    wanted = [[token] for token in TEXTS.following[:50].tolist()]
    told: list[tuple[int, int]] = []
    torch.set_num_threads(2)
    try:
        found = generation.generate(
            COMPILED.llama, prompts, backend, progress=lambda *at: told.append(at), n_most=1
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert found == [[] if token == [COMPILED.llama.spec.eos] else token for token in wanted]
    assert told == [(16, 50), (32, 50), (48, 50), (50, 50)]


def test_the_torch_module_answers_at_the_asked_place() -> None:
    module = LlamaModule(COMPILED.llama)
    asked = torch.zeros(IDS.shape, dtype=torch.bool)
    asked[:, 6] = True
    with torch.no_grad():
        whole, last = module(IDS), module(IDS, asked=asked)
    assert torch.equal(whole[:, 6], last)


def test_a_changed_word_is_a_wrong_token() -> None:
    layout = COMPILED.layout
    name = weight_name(layout.table_layers.start, "mlp.up_proj")
    words = COMPILED.llama.weights[name].copy()
    words[:, [layout.columns[register] for register in layout.hots]] += 1 / SILU_SLOPE
    broken = Llama(COMPILED.llama.spec, {**COMPILED.llama.weights, name: words})
    found = evaluate(broken, TEXTS)
    assert (found.tokens != TEXTS.following).any()


@pytest.mark.parametrize(
    ("name", "at", "value", "problem"),
    [
        (weight_name(0, "mlp.gate_proj"), (0, 3), 100.5, "not 128 times a whole number"),
        (weight_name(0, "self_attn.v_proj"), (0, 3), 4.0, "float16 cache"),
        (weight_name(0, "self_attn.q_proj"), (0, 0), 0.0, "select a single token"),
        (weight_name(0, "mlp.down_proj"), (4, 0), 2.0**24 + 2, "24 bits"),
        (EMBEDDING, (5, 4), 2.0**31, "too large for its pinned"),
    ],
)
def test_what_would_round_is_named(name: str, at: tuple[int, ...], value: float, problem: str) -> None:
    found = evaluate(changed(name, at, value), TEXTS)
    assert any(problem in each for each in found.conditions.problems), found.conditions.problems


def test_weights_of_constant_columns_that_cancel_are_named() -> None:
    name, embedding = weight_name(0, "mlp.gate_proj"), COMPILED.llama.weights[EMBEDDING]
    first, second, *_ = np.flatnonzero((embedding == np.abs(embedding).max()).all(0))
    weights = COMPILED.llama.weights[name].copy()
    weights[0, [first, second]] += np.array([2.0**40, -(2.0**40)], dtype=weights.dtype)
    found = evaluate(Llama(COMPILED.llama.spec, {**COMPILED.llama.weights, name: weights}), TEXTS)
    assert any("cancel" in each for each in found.conditions.problems), found.conditions.problems


@pytest.mark.parametrize("layer", [1, 2])
def test_keys_that_read_another_column_are_named(layer: int) -> None:
    """The column that marks the first token is 11. In another column, all tokens may look like the first one."""
    name = weight_name(layer, "self_attn.k_proj")
    swapped = COMPILED.llama.weights[name].copy()
    swapped[:, [11, 12]] = swapped[:, [12, 11]]
    found = evaluate(Llama(COMPILED.llama.spec, {**COMPILED.llama.weights, name: swapped}), TEXTS)
    assert any("whether a token is the first one" in each for each in found.conditions.problems)


def test_norms_that_are_not_pinned_are_refused() -> None:
    with pytest.raises(DoesNotHold):
        evaluate(changed(EMBEDDING, (3, 0), 1.0), TEXTS)


def test_another_rope_theta_is_another_network() -> None:
    other = Llama(replace(COMPILED.llama.spec, rope_theta=10_000.0), COMPILED.llama.weights)
    assert not evaluate(other, TEXTS).conditions.holds


def test_more_positions_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", "1K")
    with refused(OverMemoryLimit, n_bytes=12288, limit=1024):
        evaluate(COMPILED.llama, TEXTS)
