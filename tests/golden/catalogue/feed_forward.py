"""Faults of the activation, the residual stream, the embedding and biases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from byheart.golden.changes import override, to_bits
from byheart.golden.reference import ReferenceEngine
from tests.golden.catalogue.fault import EngineFault, change_tensors, has_architecture, layers, wrap


def _activation(function: Callable[[Tensor], Tensor]) -> Callable[[Any], None]:
    class Act(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    def apply(model: Any) -> None:
        for layer in layers(model):
            layer.mlp.act_fn = Act()

    return apply


def _swap_gate(layer: Any) -> None:
    layer.mlp.gate_proj, layer.mlp.up_proj = layer.mlp.up_proj, layer.mlp.gate_proj


def _parallel_residual(engine: ReferenceEngine) -> None:
    held: list[Tensor] = []

    def add(step: Any, x: Tensor, change: Tensor) -> Tensor:
        return step(x, change)

    def norm(step: Any, x: Tensor, name: str) -> Tensor:
        if name.endswith("input_layernorm"):
            held[:] = [x]
        if name.endswith("post_attention_layernorm"):
            return step(held[0][:, -x.shape[1] :], name)
        return step(x, name)

    override(engine, add=add, norm=norm)


FAULTS = (
    EngineFault("GELU for SiLU", ("activation",), _activation(nn.functional.gelu)),
    EngineFault(
        "tanh GELU for SiLU",
        ("activation",),
        _activation(lambda x: nn.functional.gelu(x, approximate="tanh")),
    ),
    EngineFault("hard swish", ("activation",), _activation(nn.functional.hardswish)),
    EngineFault(
        "exp with 8 bits in SiLU",
        ("activation",),
        _activation(lambda x: x / (1 + to_bits((-x).exp(), 8))),
        in_bfloat16=False,
    ),
    EngineFault(
        "gate and up exchanged",
        ("activation",),
        lambda m: [_swap_gate(layer) for layer in layers(m)] and None,
    ),
    EngineFault(
        "residual of the feed-forward part scaled",
        ("residual", "tensor-parallel shards"),
        change_tensors("down_proj.weight", lambda w: w * 0.98),
    ),
    EngineFault("parallel residual", ("residual",), _parallel_residual, into="reference"),
    EngineFault(
        "embedding scaled as Gemma's",
        ("embedding",),
        lambda m: wrap(
            m.model.embed_tokens, "forward", lambda step, ids: step(ids) * m.config.hidden_size**0.5
        ),
    ),
    EngineFault(
        "biases left out",
        ("biases",),
        change_tensors(".bias", torch.zeros_like),
        applies=has_architecture("qwen2"),
    ),
)
