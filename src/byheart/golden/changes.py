"""Change the reference engine or its weights so that the engine has a fault. The module `faults` names the faults.

`override` replaces a step of the engine by a function, whose first argument is the original step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from byheart.golden.reference import Cache, ReferenceEngine
from byheart.golden.shape import EMBEDDING, HEAD, Shape

Change = Callable[[ReferenceEngine], None]


def override(engine: ReferenceEngine, **steps: Callable[..., Any]) -> None:
    """Replace each named step of the engine by `function(step, *arguments)`, where `step` is the original step."""
    for name, function in steps.items():
        setattr(engine, name, partial(function, getattr(engine, name)))


def with_steps(**steps: Callable[..., Any]) -> Change:
    """Return a change that replaces steps of the engine, as `override` does."""
    return lambda engine: override(engine, **steps)


def scale_head(layer: int, head: int, factor: float) -> Change:
    """Return a change that multiplies the output of one head by `factor`."""

    def change(engine: ReferenceEngine) -> None:
        size = engine.shape.head_dim

        def attention(step: Any, *arguments: Any) -> Tensor:
            mixed: Tensor = step(*arguments)
            if arguments[-1] == layer:
                mixed = mixed.clone()
                mixed[..., head * size : (head + 1) * size] *= factor
            return mixed

        override(engine, attention=attention)

    return change


def change_weights(change: Callable[[dict[str, Tensor], Shape], None]) -> Change:
    """Return a change that calls `change` on a copy of the weights."""

    def apply(engine: ReferenceEngine) -> None:
        engine.weights = {name: value.clone() for name, value in engine.weights.items()}
        change(engine.weights, engine.shape)

    return apply


def interleave(step: Any, x: Tensor, angles: Tensor) -> Tensor:
    order = torch.arange(x.shape[-1]).view(-1, 2).T.flatten()
    turned: Tensor = step(x[..., order], angles)
    return turned[..., order.argsort()]


def rotate_half_of_pairs(step: Any, x: Tensor, angles: Tensor) -> Tensor:
    angles = angles.clone()
    angles[..., angles.shape[-1] // 2 :] = 0
    return step(x, angles)  # type: ignore[no-any-return] # the overridden step


def to_bits(x: Tensor, n_bits: int) -> Tensor:
    """Round to `n_bits` significant bits."""
    mantissa, exponent = torch.frexp(x if x.dtype == torch.float64 else x.float())
    return torch.ldexp((mantissa * 2.0**n_bits).round() / 2.0**n_bits, exponent).to(x.dtype)


def to_int8(x: Tensor) -> Tensor:
    """Round each vector to 8-bit integers times a scale of its own."""
    wide = x if x.dtype == torch.float64 else x.float()
    scale = wide.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return ((wide / scale).round() * scale).to(x.dtype)


def shift_decoding_positions(shift: int) -> Change:
    def change(engine: ReferenceEngine) -> None:
        override(engine, positions=lambda step, *a: step(*a) + (shift if engine.is_decoding else 0))

    return change


def store_decoded(function: Callable[[Tensor, Tensor], Tensor]) -> Change:
    def change(engine: ReferenceEngine) -> None:
        override(
            engine,
            store=lambda step, old, new, *a: (
                function(old, new) if engine.is_decoding and old.shape[2] > 1 else step(old, new, *a)
            ),
        )

    return change


def overwrite_last(old: Tensor, new: Tensor) -> Tensor:
    return torch.cat([old[:, :, :-1], new, new], 2)


def swap_pages(step: Any, old: Tensor, new: Tensor, layer: int, kind: str) -> Tensor:
    stored: Tensor = step(old, new, layer, kind)
    if kind == "values" and stored.shape[2] >= 8:
        stored = torch.cat([stored[:, :, 4:8], stored[:, :, :4], stored[:, :, 8:]], 2)
    return stored


def drop_keys(first: int, end: int) -> Change:
    def visible(step: Any, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
        seen: Tensor = step(queries, keys, valid)
        at = keys[:, None, None, :]
        return seen & ~((at >= first) & (at < end) & (queries[:, None, :, None] >= end))

    return with_steps(visible=visible)


def replace_mask(condition: Callable[[Tensor, Shape], Tensor]) -> Change:
    """Return a change that replaces the attention mask: a token sees another one (but never padding) if `condition` holds for the
    distance between the two.
    """

    def change(engine: ReferenceEngine) -> None:
        def visible(step: Any, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
            distance = queries[:, :, None] - keys[:, None, :]
            seen = condition(distance, engine.shape) & valid[:, None, :]
            return seen[:, None]

        override(engine, visible=visible)

    return change


def subtract_mean(step: Any, x: Tensor, name: str) -> Tensor:
    return step(x - x.mean(-1, keepdim=True), name)  # type: ignore[no-any-return] # the overridden step


def change_norm_weights(engine: ReferenceEngine, plus_one: bool) -> None:
    def weight(step: Any, name: str) -> Tensor:
        found: Tensor = step(name)
        is_norm = name.endswith("norm.weight")
        return found + 1 if is_norm and plus_one else torch.ones_like(found) if is_norm else found

    override(engine, weight=weight)


def skip_norm(suffix: str) -> Change:
    return with_steps(norm=lambda step, x, name: x if name.endswith(suffix) else step(x, name))


def read_before_attention(engine: ReferenceEngine) -> None:
    """Let the feed-forward part read the same input as attention, instead of the stream after attention."""
    held: dict[str, Tensor] = {}

    def norm(step: Any, x: Tensor, name: str) -> Tensor:
        if name.endswith("input_layernorm"):
            held["x"] = x
        elif name.endswith("post_attention_layernorm"):
            x = held["x"][:, -x.shape[1] :]
        return step(x, name)  # type: ignore[no-any-return] # the overridden step

    override(engine, norm=norm)


def mix_rows(engine: ReferenceEngine) -> None:
    """While decoding, let each row of a batch use the attention values of the neighbouring row."""

    def attention(step: Any, queries: Tensor, keys: Tensor, values: Tensor, *rest: Any) -> Tensor:
        mixed = values.roll(1, 0) if engine.is_decoding else values
        return step(queries, keys, mixed, *rest)  # type: ignore[no-any-return] # the step

    override(engine, attention=attention)


def swap_shards(names: tuple[str, ...], axis: int) -> Change:
    def change(weights: dict[str, Tensor], shape: Shape) -> None:
        for name in [n for n in weights if n.endswith(tuple(f"{each}.weight" for each in names))]:
            first, second = weights[name].chunk(2, axis)
            weights[name] = torch.cat([second, first], axis)

    return change_weights(change)


def _rename(change: Callable[[str], str]) -> Change:
    return with_steps(weight=lambda step, name: step(change(name)))


def restart_positions(engine: ReferenceEngine) -> None:
    """If a prompt is processed in pieces, start every piece at position 0."""

    def positions(step: Any, valid: Tensor, cache: Cache) -> Tensor:
        found: Tensor = step(valid, cache)
        return found if engine.is_decoding or valid.shape[1] == 1 else found - found[:, :1]

    override(engine, positions=positions)


def forget_earlier(engine: ReferenceEngine) -> None:
    """If a prompt is processed in pieces, hide earlier pieces from later ones."""

    def visible(step: Any, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
        seen: Tensor = step(queries, keys, valid)
        n_new, n_slots = queries.shape[1], keys.shape[1]
        if 1 < n_new < n_slots and not engine.is_decoding:
            seen = seen & (torch.arange(n_slots) >= n_slots - n_new)
        return seen

    override(engine, visible=visible)


def round_linear(n_bits: int) -> Change:
    return with_steps(linear=lambda step, x, name: step(to_bits(x, n_bits), name))


def round_weights(function: Callable[[Tensor], Tensor]) -> Change:
    return change_weights(
        lambda weights, _: weights.update({n: function(v) if v.dim() == 2 else v for n, v in weights.items()})
    )


def store_bfloat16(engine: ReferenceEngine) -> None:
    override(
        engine,
        linear=lambda step, x, name: to_bits(step(x, name), 8),
        norm=lambda step, x, name: to_bits(step(x, name), 8),
        add=lambda step, x, change: to_bits(step(x, change), 8),
    )


def shift_prefix(step: Any, prompts: Any, ids: Tensor, way: Any) -> tuple[Cache, int]:
    """Imitate a faulty engine: when the cache of an earlier request is reused, its slots are shifted by one place."""
    cache, n_reused = step(prompts, ids, way)
    if n_reused > 1:
        for each in (cache.keys, cache.values):
            for layer, tensor in enumerate(each):
                each[layer] = torch.cat([tensor[:, :, 1:], tensor[:, :, :1]], 2)
    return cache, n_reused


def read_last_column(engine: ReferenceEngine) -> None:
    """Read the answer of each prompt from the last column of the batch. If padding is on the right, this column is padding for
    shorter prompts.
    """

    def forward(step: Any, *arguments: Any) -> Tensor:
        logits: Tensor = step(*arguments)
        return logits[:, -1:].expand_as(logits)

    override(engine, forward=forward)


def see_padding(step: Any, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
    n_new, n_slots = queries.shape[1], keys.shape[1]
    order = torch.arange(n_slots)[None, None, :] <= torch.arange(n_slots - n_new, n_slots)[None, :, None]
    seen: Tensor = step(queries, keys, torch.ones_like(valid))
    return seen & order[:, None]


def change_window(change: int) -> Change:
    return replace_mask(
        lambda distance, shape: (distance >= 0) & (distance < (shape.window or 10**9) + change)
    )


def add_one_to_softmax(step: Any, scores: Tensor, visible: Tensor) -> Tensor:
    shares: Tensor = step(scores, visible)
    top = scores.masked_fill(~visible, -1e300)
    total = top.logsumexp(-1, keepdim=True)
    return shares * torch.sigmoid(total)


def ignore_scaling(engine: ReferenceEngine) -> None:
    plain = replace(engine.shape, rope_scaling={})
    override(engine, frequencies=lambda step: plain.frequencies())


def drop_biases(weights: dict[str, Tensor], shape: Shape) -> None:
    for name in [name for name in weights if name.endswith(".bias")]:
        weights[name] = torch.zeros_like(weights[name])


def double(part: str) -> Callable[[dict[str, Tensor], Shape], None]:
    def change(weights: dict[str, Tensor], shape: Shape) -> None:
        for name in [name for name in weights if name.endswith(f"{part}.weight")]:
            weights[name] = weights[name] * 2

    return change


def use_other_head(engine: ReferenceEngine) -> None:
    table = engine.weights[f"{EMBEDDING}.weight"]
    engine.weights[f"{HEAD}.weight"] = table.roll(1, 1)
    override(engine, linear=lambda step, x, name: step(x, HEAD if name == EMBEDDING else name))


def exchange_weights(first: str, second: str) -> Change:
    def other(name: str) -> str:
        return name.replace(first, second) if first in name else name.replace(second, first)

    return _rename(other)


def exchange_layers(engine: ReferenceEngine) -> None:
    def other(name: str) -> str:
        for a, b in ((".0.", ".1."), (".1.", ".0.")):
            if f"layers{a}" in name:
                return name.replace(f"layers{a}", f"layers{b}")
        return name

    override(engine, weight=lambda step, name: step(other(name)))
