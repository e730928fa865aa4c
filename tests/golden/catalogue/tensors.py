"""Faults of shards, of stored tensors and of the tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from byheart.golden.changes import override
from byheart.golden.reference import ReferenceEngine
from tests.golden.catalogue.fault import EngineFault, change_tensors, layers, override_steps, wrap


def _swap_halves(part: str, axis: int) -> Callable[[Any], None]:
    return change_tensors(part, lambda w: torch.cat(w.chunk(2, axis)[::-1], axis))


def _transpose(part: str) -> Callable[[Any], None]:
    return change_tensors(
        part,
        lambda w: (
            w.T.contiguous() if w.shape[0] == w.shape[1] else w.flatten().view(w.shape[::-1]).T.contiguous()
        ),
    )


def _flip_bit(name: str, at: int, place: int) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        flat = dict(model.named_parameters())[name].data.view(-1)
        integers = torch.int32 if flat.dtype == torch.float32 else torch.int16
        flat.view(integers)[at] ^= 1 << (integers.itemsize * 8 - 1 - place)

    return apply


def _swap_kv(layer: Any) -> None:
    layer.self_attn.k_proj, layer.self_attn.v_proj = layer.self_attn.v_proj, layer.self_attn.k_proj


def _fresh_head(model: Any) -> nn.Module:
    """What a loader leaves behind that expects a tensor of its own for the head."""
    head = nn.Linear(model.config.hidden_size, model.config.vocab_size, bias=False)
    nn.init.normal_(head.weight, std=0.02, generator=torch.Generator().manual_seed(0))
    return head.to(model.dtype)


def _swap_layers(engine: ReferenceEngine) -> None:
    last = engine.shape.n_layers - 1

    def other(name: str) -> str:
        if "layers.0." in name:
            return name.replace("layers.0.", f"layers.{last}.")
        return name.replace(f"layers.{last}.", "layers.0.")

    override(engine, weight=lambda step, name: step(other(name)))


FAULTS = (
    EngineFault("output shards exchanged", ("tensor-parallel shards",), _swap_halves("o_proj.weight", 1)),
    EngineFault(
        "feed-forward shards exchanged", ("tensor-parallel shards",), _swap_halves("down_proj.weight", 1)
    ),
    EngineFault(
        "attention reduced twice",
        ("tensor-parallel shards",),
        change_tensors("o_proj.weight", lambda w: w * 2),
    ),
    EngineFault(
        "vocabulary shards exchanged",
        ("tensor-parallel shards", "tokenizer", "tied head"),
        lambda m: wrap(m.lm_head, "forward", lambda step, x: torch.cat(step(x).chunk(2, -1)[::-1], -1)),
    ),
    EngineFault(
        "head not tied",
        ("tied head",),
        lambda m: setattr(m, "lm_head", _fresh_head(m)),
        applies=lambda s: s.is_tied,
    ),
    EngineFault(
        "keys and values exchanged",
        ("weights",),
        lambda m: [_swap_kv(layer) for layer in layers(m)] and None,
    ),
    EngineFault(
        "layers exchanged", ("weights",), _swap_layers, into="reference", applies=lambda s: s.n_layers > 1
    ),
    EngineFault("a tensor transposed", ("weights",), _transpose("layers.0.mlp.up_proj.weight")),
    EngineFault(
        "one exponent bit flipped", ("weights",), _flip_bit("model.layers.0.mlp.up_proj.weight", 77, 6)
    ),
    EngineFault(
        "one mantissa bit flipped", ("weights",), _flip_bit("model.layers.1.self_attn.v_proj.weight", 99, 11)
    ),
    EngineFault(
        "token ids off by one",
        ("tokenizer",),
        lambda m: wrap(
            m.model.embed_tokens, "forward", lambda step, ids: step((ids + 1) % m.config.vocab_size)
        ),
    ),
    EngineFault(
        "no beginning of text",
        ("tokenizer",),
        override_steps(generate_block=lambda step, prompts, n, way: step([p[1:] for p in prompts], n, way)),
        into="reference",
    ),
)
