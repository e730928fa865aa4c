"""Faults of norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.golden.catalogue.fault import EngineFault, change_tensors, has_architecture, layers, wrap


def _norms(model: Any) -> list[Any]:
    return [part for part in model.modules() if type(part).__name__.endswith("RMSNorm")]


def _epsilon(change: Callable[[float], float]) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        for norm in _norms(model):
            norm.variance_epsilon = change(norm.variance_epsilon)

    return apply


def _norm_forward(change: Callable[..., Tensor]) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        for norm in _norms(model):
            wrap(norm, "forward", change)

    return apply


def _swap_norms(layer: Any) -> None:
    first, second = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
    first.data, second.data = second.data, first.data


FAULTS = (
    EngineFault(
        "epsilon 1e-6 for 1e-5, 1e-5 for 1e-6", ("epsilon",), _epsilon(lambda e: 1e-5 if e < 5e-6 else 1e-6)
    ),
    EngineFault("epsilon 1e-12", ("epsilon",), _epsilon(lambda e: 1e-12)),
    EngineFault("epsilon twice as large", ("epsilon",), _epsilon(lambda e: 2 * e)),
    EngineFault("norm weights plus one", ("norm",), change_tensors("norm.weight", lambda w: w + 1)),
    EngineFault("norm weights left out", ("norm",), change_tensors("norm.weight", torch.ones_like)),
    EngineFault(
        "LayerNorm for RMSNorm", ("norm",), _norm_forward(lambda step, x: step(x - x.mean(-1, keepdim=True)))
    ),
    EngineFault("last norm left out", ("norm",), lambda m: setattr(m.model, "norm", nn.Identity())),
    EngineFault(
        "queries and keys not normed",
        ("norm",),
        lambda m: (
            [setattr(layer.self_attn, n, nn.Identity()) for layer in layers(m) for n in ("q_norm", "k_norm")]
            and None
        ),
        applies=has_architecture("qwen3"),
    ),
    EngineFault(
        "norms of a layer exchanged",
        ("norm", "weights"),
        lambda m: [_swap_norms(layer) for layer in layers(m)] and None,
    ),
)
