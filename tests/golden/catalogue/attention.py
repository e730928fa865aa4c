"""Faults of attention: scale, masks, softmax, heads and key-value groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from byheart.golden.changes import to_bits
from byheart.golden.reference import ReferenceEngine
from tests.golden.catalogue.fault import EngineFault, layers, override_steps, wrap


def _scaling(change: Callable[[float], float]) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        for layer in layers(model):
            layer.self_attn.scaling = change(layer.self_attn.scaling)

    return apply


def _head_output(layer: int, head: int, factor: float) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        size = (
            model.config.head_dim
            if hasattr(model.config, "head_dim")
            else model.config.hidden_size // model.config.num_attention_heads
        )
        model.model.layers[layer].self_attn.o_proj.weight.data[:, head * size : (head + 1) * size] *= factor

    return apply


def _groups(order: Callable[[int, int], list[int]]) -> Callable[[Any], None]:
    """Key-value heads in another order: what a wrong map from queries to them comes to."""

    def apply(model: Any) -> None:
        n = model.config.num_key_value_heads
        group = model.config.num_attention_heads // n
        for layer in layers(model):
            for part in (layer.self_attn.k_proj, layer.self_attn.v_proj):
                rows = part.weight.data.unflatten(0, (n, -1))
                part.weight.data = rows[order(n, group)].flatten(0, 1)
                if part.bias is not None:
                    part.bias.data = part.bias.data.unflatten(0, (n, -1))[order(n, group)].flatten(0, 1)

    return apply


def _mask_fault(change: Callable[[Tensor], Tensor]) -> Callable[[Any], None]:
    """Change the additive mask that eager attention gets."""

    def apply(model: Any) -> None:
        for layer in layers(model):

            def forward(step: Any, *arguments: Any, **options: Any) -> Any:
                mask = options.get("attention_mask")
                if mask is not None:
                    options["attention_mask"] = change(mask)
                return step(*arguments, **options)

            wrap(layer.self_attn, "forward", forward)

    return apply


def _hide(mask: Tensor, first: int, end: int) -> Tensor:
    changed = mask.clone()
    if changed.shape[-1] > end:
        changed[..., end:, first:end] = torch.finfo(mask.dtype).min
        if changed.shape[-2] == 1:
            changed[..., first:end] = torch.finfo(mask.dtype).min
    return changed


def _ahead(mask: Tensor) -> Tensor:
    if mask.shape[-2] == 1:
        return mask
    return torch.cat([mask[..., 1:, :], mask[..., -1:, :]], -2)


def _window(change: Callable[[int], int | None]) -> Callable[[Any], None]:
    def apply(engine: ReferenceEngine) -> None:
        assert engine.shape.window is not None
        engine.shape = replace(engine.shape, window=change(engine.shape.window))

    return apply


def _sink(step: Any, scores: Tensor, visible: Tensor) -> Tensor:
    masked = scores.masked_fill(~visible, -1e300)
    return torch.cat([masked, torch.zeros_like(masked[..., :1])], -1).softmax(-1)[..., :-1]


FAULTS = (
    EngineFault("attention scale halved", ("attention scale",), _scaling(lambda s: s / 2)),
    EngineFault("attention scale 0.5% off", ("attention scale",), _scaling(lambda s: s * 1.005)),
    EngineFault(
        "attention scale of twice the head size", ("attention scale",), _scaling(lambda s: s / 2**0.5)
    ),
    EngineFault("first token not seen", ("lost keys",), _mask_fault(lambda mask: _hide(mask, 0, 1))),
    EngineFault("a block of keys not seen", ("lost keys",), _mask_fault(lambda mask: _hide(mask, 2, 4))),
    EngineFault("one token ahead is seen", ("causal mask",), _mask_fault(_ahead), ways=("no cache",)),
    EngineFault(
        "window one too wide",
        ("window",),
        _window(lambda w: w + 1),
        into="reference",
        applies=lambda s: s.window is not None,
    ),
    EngineFault(
        "window two too narrow",
        ("window",),
        _window(lambda w: w - 2),
        into="reference",
        applies=lambda s: s.window is not None,
    ),
    EngineFault(
        "window ignored",
        ("window",),
        _window(lambda w: None),
        into="reference",
        applies=lambda s: s.window is not None,
    ),
    EngineFault(
        "softmax in float16",
        ("softmax", "number type"),
        override_steps(softmax=lambda step, s, v: to_bits(step(to_bits(s, 11), v), 11)),
        into="reference",
        in_bfloat16=False,
    ),
    EngineFault(
        "softmax with a sink of weight one", ("softmax",), override_steps(softmax=_sink), into="reference"
    ),
    EngineFault("head 2 of layer 1 left out", ("head 2 of layer 1",), _head_output(0, 1, 0.0)),
    EngineFault("head 3 of layer 2 half a percent off", ("head 3 of layer 2",), _head_output(1, 2, 1.005)),
    EngineFault("head 1 of layer 1 2% off", ("head 1 of layer 1",), _head_output(0, 0, 1.02)),
    EngineFault(
        "key-value heads by the next group",
        ("key-value groups",),
        _groups(lambda n, g: [(k + 1) % n for k in range(n)]),
        applies=lambda s: s.n_kv_heads > 1,
    ),
    EngineFault(
        "first key-value head for all",
        ("key-value groups",),
        _groups(lambda n, g: [0] * n),
        applies=lambda s: s.n_kv_heads > 1,
    ),
    EngineFault(
        "query heads mapped by turns",
        ("key-value groups",),
        override_steps(kv_heads=lambda step: [h % len(set(step())) for h in range(len(step()))]),
        into="reference",
        applies=lambda s: s.n_kv_heads > 1 and s.group > 1,
    ),
)
