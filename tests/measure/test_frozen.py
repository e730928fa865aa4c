"""Frozen weights are out of the optimiser's reach: no gradient, no moments, no decay."""

from __future__ import annotations

import torch

from byheart.measure.families import ModelConfig
from byheart.measure.recipe import Training
from byheart.measure.sources import training_set_of
from byheart.measure.stack import make_stack
from byheart.measure.trainer import take, train

DATA = {
    "kind": "random-tokens",
    "n_samples": 20,
    "n_vocab": 9,
    "seq_len": 3,
    "n_classes": 2,
    "read": "first",
    "seed": 0,
}
DECAYING = Training(steps=20, learning_rate=0.1, optimiser="adamw", weight_decay=0.5)


def models(embedding: str) -> list[ModelConfig]:
    return [
        ModelConfig("uniform-attention", {"n_blocks": 1, "dim": dim}, {"embedding": embedding})
        for dim in (5, 7)
    ]


def test_a_frozen_table_is_neither_counted_nor_moved() -> None:
    training_set = training_set_of(DATA)
    stack = make_stack(models("frozen"), [training_set, training_set], [0, 1], dtype=torch.float64)
    before = stack.fixed["embedding"].clone()
    assert before.shape == (2, 7, 9)
    assert not before[0, 5:].any()  # padding
    assert stack.n_parameters(1) - stack.n_parameters(0) == 2 * 2  # E_in alone grows with the table
    found = train(stack, [DECAYING, DECAYING], keep_weights=True)
    assert torch.equal(stack.fixed["embedding"], before)
    assert found[0].weights is not None
    assert "embedding" not in found[0].weights


def test_models_taken_out_keep_their_own_table() -> None:
    training_set = training_set_of(DATA)
    stack = make_stack(models("frozen"), [training_set, training_set], [0, 1], dtype=torch.float64)
    assert torch.equal(take(stack, [1]).fixed["embedding"], stack.fixed["embedding"][1:])


def test_a_learned_table_does_move() -> None:
    training_set = training_set_of(DATA)
    stack = make_stack(models("learned"), [training_set, training_set], [0, 1], dtype=torch.float64)
    assert not stack.fixed
    start = stack.layout.unpack(stack.initial(), 0)["embedding"]
    found = train(stack, [DECAYING, DECAYING], keep_weights=True)[0].weights
    assert found is not None
    assert not torch.equal(found["embedding"], start)


def test_without_a_table_nothing_is_frozen() -> None:
    """Vectors need no table."""
    data = {"kind": "rademacher-vectors", "n_samples": 5, "seq_len": 3, "dim": 2, "read": "first", "seed": 0}
    stack = make_stack(models("frozen")[:1], [training_set_of(data)], [0])
    assert not stack.fixed
