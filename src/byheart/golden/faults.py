"""Known faults of engines, each written as a change of the reference engine. The wrong answers of a failing engine are compared
with those of each fault.

A fault has a kind (such as "causal mask") and a detail (such as "one token ahead"). `override` replaces a step of the engine by a
function, whose first argument is the original step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from byheart.golden.reference import BEAM_SEARCH, Cache, ReferenceEngine
from byheart.golden.shape import EMBEDDING, FINAL_NORM, HEAD, Shape

Change = Callable[[ReferenceEngine], None]


@dataclass(frozen=True)
class Fault:
    """A known fault of engines.

    It can occur only in checkpoints that `applies` accepts. The wrong answers that it causes are computed for the ways of running
    that `ways` lists. If `needs_cache` is true, it has no effect on an engine that runs without a cache.
    """

    kind: str
    detail: str
    change: Change
    ways: tuple[str, ...] = ("one by one",)
    applies: Callable[[Shape], bool] = lambda shape: True
    needs_cache: bool = False

    @property
    def name(self) -> str:
        return f"{self.kind}: {self.detail}"

    def engine(self, shape: Shape, weights: dict[str, Tensor]) -> ReferenceEngine:
        """Return the reference engine with this fault."""
        engine = ReferenceEngine(shape, weights)
        self.change(engine)
        return engine


def override(engine: ReferenceEngine, **steps: Callable[..., Any]) -> None:
    """Replace each named step of the engine by `function(step, *arguments)`, where `step` is the original step."""
    for name, function in steps.items():
        setattr(engine, name, partial(function, getattr(engine, name)))


def _with(**steps: Callable[..., Any]) -> Change:
    return lambda engine: override(engine, **steps)


def scale_head(layer: int, head: int, factor: float) -> Change:
    """Return a fault that multiplies the output of one head by `factor`."""

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
    """Return a fault that calls `change` on a copy of the weights."""

    def apply(engine: ReferenceEngine) -> None:
        engine.weights = {name: value.clone() for name, value in engine.weights.items()}
        change(engine.weights, engine.shape)

    return apply


def _interleave(step: Any, x: Tensor, angles: Tensor) -> Tensor:
    order = torch.arange(x.shape[-1]).view(-1, 2).T.flatten()
    turned: Tensor = step(x[..., order], angles)
    return turned[..., order.argsort()]


def _partial(step: Any, x: Tensor, angles: Tensor) -> Tensor:
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


def _decoding_positions(shift: int) -> Change:
    def change(engine: ReferenceEngine) -> None:
        override(engine, positions=lambda step, *a: step(*a) + (shift if engine.is_decoding else 0))

    return change


def _store_decoded(function: Callable[[Tensor, Tensor], Tensor]) -> Change:
    def change(engine: ReferenceEngine) -> None:
        override(
            engine,
            store=lambda step, old, new, *a: (
                function(old, new) if engine.is_decoding and old.shape[2] > 1 else step(old, new, *a)
            ),
        )

    return change


def _overwrite(old: Tensor, new: Tensor) -> Tensor:
    return torch.cat([old[:, :, :-1], new, new], 2)


def _swap_pages(step: Any, old: Tensor, new: Tensor, layer: int, kind: str) -> Tensor:
    stored: Tensor = step(old, new, layer, kind)
    if kind == "values" and stored.shape[2] >= 8:
        stored = torch.cat([stored[:, :, 4:8], stored[:, :, :4], stored[:, :, 8:]], 2)
    return stored


def _drop_keys(first: int, end: int) -> Change:
    def visible(step: Any, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
        seen: Tensor = step(queries, keys, valid)
        at = keys[:, None, None, :]
        return seen & ~((at >= first) & (at < end) & (queries[:, None, :, None] >= end))

    return _with(visible=visible)


def _mask(condition: Callable[[Tensor, Shape], Tensor]) -> Change:
    """Return a fault that replaces the attention mask: a token sees another one (but never padding) if `condition` holds for the
    distance between the two.
    """

    def change(engine: ReferenceEngine) -> None:
        def visible(step: Any, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
            distance = queries[:, :, None] - keys[:, None, :]
            seen = condition(distance, engine.shape) & valid[:, None, :]
            return seen[:, None]

        override(engine, visible=visible)

    return change


def _layer_norm(step: Any, x: Tensor, name: str) -> Tensor:
    return step(x - x.mean(-1, keepdim=True), name)  # type: ignore[no-any-return] # the overridden step


def _weightless(engine: ReferenceEngine, plus_one: bool) -> None:
    def weight(step: Any, name: str) -> Tensor:
        found: Tensor = step(name)
        is_norm = name.endswith("norm.weight")
        return found + 1 if is_norm and plus_one else torch.ones_like(found) if is_norm else found

    override(engine, weight=weight)


def _skip_norm(suffix: str) -> Change:
    return _with(norm=lambda step, x, name: x if name.endswith(suffix) else step(x, name))


def _parallel(engine: ReferenceEngine) -> None:
    """Let the feed-forward part read the same input as attention, instead of the stream after attention."""
    held: dict[str, Tensor] = {}

    def norm(step: Any, x: Tensor, name: str) -> Tensor:
        if name.endswith("input_layernorm"):
            held["x"] = x
        elif name.endswith("post_attention_layernorm"):
            x = held["x"][:, -x.shape[1] :]
        return step(x, name)  # type: ignore[no-any-return] # the overridden step

    override(engine, norm=norm)


def _rows_mixed(engine: ReferenceEngine) -> None:
    """While decoding, let each row of a batch read the values of the neighbouring row."""

    def attention(step: Any, queries: Tensor, keys: Tensor, values: Tensor, *rest: Any) -> Tensor:
        mixed = values.roll(1, 0) if engine.is_decoding else values
        return step(queries, keys, mixed, *rest)  # type: ignore[no-any-return] # the step

    override(engine, attention=attention)


def _swap_shards(names: tuple[str, ...], axis: int) -> Change:
    def change(weights: dict[str, Tensor], shape: Shape) -> None:
        for name in [n for n in weights if n.endswith(tuple(f"{each}.weight" for each in names))]:
            first, second = weights[name].chunk(2, axis)
            weights[name] = torch.cat([second, first], axis)

    return change_weights(change)


def _rename(change: Callable[[str], str]) -> Change:
    return _with(weight=lambda step, name: step(change(name)))


def _restart_positions(engine: ReferenceEngine) -> None:
    """If a prompt is processed in pieces, start every piece at position 0."""

    def positions(step: Any, valid: Tensor, cache: Cache) -> Tensor:
        found: Tensor = step(valid, cache)
        return found if engine.is_decoding or valid.shape[1] == 1 else found - found[:, :1]

    override(engine, positions=positions)


def _forget_earlier(engine: ReferenceEngine) -> None:
    """If a prompt is processed in pieces, hide earlier pieces from later ones."""

    def visible(step: Any, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
        seen: Tensor = step(queries, keys, valid)
        n_new, n_slots = queries.shape[1], keys.shape[1]
        if 1 < n_new < n_slots and not engine.is_decoding:
            seen = seen & (torch.arange(n_slots) >= n_slots - n_new)
        return seen

    override(engine, visible=visible)


def _round_linear(n_bits: int) -> Change:
    return _with(linear=lambda step, x, name: step(to_bits(x, n_bits), name))


def _round_weights(function: Callable[[Tensor], Tensor]) -> Change:
    return change_weights(
        lambda weights, _: weights.update({n: function(v) if v.dim() == 2 else v for n, v in weights.items()})
    )


def _stored_bfloat16(engine: ReferenceEngine) -> None:
    override(
        engine,
        linear=lambda step, x, name: to_bits(step(x, name), 8),
        norm=lambda step, x, name: to_bits(step(x, name), 8),
        add=lambda step, x, change: to_bits(step(x, change), 8),
    )


def _shift_prefix(step: Any, prompts: Any, ids: Tensor, way: Any) -> tuple[Cache, int]:
    """When the cache of an earlier request is reused, shift its slots by one place."""
    cache, n_reused = step(prompts, ids, way)
    if n_reused > 1:
        for each in (cache.keys, cache.values):
            for layer, tensor in enumerate(each):
                each[layer] = torch.cat([tensor[:, :, 1:], tensor[:, :, :1]], 2)
    return cache, n_reused


def _wrong_last(engine: ReferenceEngine) -> None:
    """Read the answer of each prompt from the last column of the batch. If padding is on the right, this column is padding for
    shorter prompts.
    """

    def forward(step: Any, *arguments: Any) -> Tensor:
        logits: Tensor = step(*arguments)
        return logits[:, -1:].expand_as(logits)

    override(engine, forward=forward)


def _visible_padding(step: Any, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
    n_new, n_slots = queries.shape[1], keys.shape[1]
    order = torch.arange(n_slots)[None, None, :] <= torch.arange(n_slots - n_new, n_slots)[None, :, None]
    seen: Tensor = step(queries, keys, torch.ones_like(valid))
    return seen & order[:, None]


def _has(attribute: str) -> Callable[[Shape], bool]:
    return lambda shape: bool(getattr(shape, attribute))


def _windowed(change: int) -> Change:
    return _mask(lambda distance, shape: (distance >= 0) & (distance < (shape.window or 10**9) + change))


_PADDED = ("one by one", "left padding")
_silu_fast = _with(activation=lambda step, x: x * (x / 6 + 0.5).clamp(0, 1))


def _general() -> Iterator[Fault]:
    yield Fault("positions while decoding", "one too many", _decoding_positions(1), needs_cache=True)
    yield Fault("positions while decoding", "one too few", _decoding_positions(-1), needs_cache=True)
    for factor in (1.001, 0.999, 1.05, 50.0):
        yield Fault(
            "RoPE base",
            f"times {factor:g}",
            _with(
                frequencies=lambda step, factor=factor: (
                    step() * factor ** (-torch.arange(len(step()), dtype=torch.float64) / len(step()))
                )
            ),
        )
    yield Fault("RoPE scaling", "ignored", _no_scaling, applies=_has("rope_scaling"))
    yield Fault("RoPE scaling", "all pairs slower", _with(frequencies=lambda step: step() / 2))
    yield Fault("RoPE layout", "neighbours instead of halves", _with(rotate=_interleave))
    yield Fault("RoPE layout", "half of the pairs", _with(rotate=_partial))
    yield Fault("RoPE layout", "turned backwards", _with(angles=lambda step, at: -step(at)))
    yield Fault("attention scale", "halved", _with(scale=lambda step, at: step(at) / 2))
    yield Fault("attention scale", "1% off", _with(scale=lambda step, at: step(at) * 1.01))
    yield Fault("attention scale", "left out", _with(scale=lambda step, at: 1.0))
    yield Fault("causal mask", "one token ahead", _mask(lambda distance, _: distance >= -1))
    yield Fault(
        "causal mask",
        "a token does not see itself",
        _mask(lambda d, _: (d > 0) | ((d == 0) & (d.cumsum(-1) == d))),
    )
    yield Fault("causal mask", "none", _mask(lambda distance, _: distance == distance))
    yield Fault("window", "one too wide", _windowed(1), applies=_has("window"))
    yield Fault("window", "one too narrow", _windowed(-1), applies=_has("window"))
    yield Fault("window", "ignored", _windowed(10**8), applies=_has("window"))
    yield Fault("softmax", "1 added to the sum of exponentials", _with(softmax=_softmax_plus_one))
    yield Fault("softmax", "11 significant bits", _with(softmax=lambda step, *a: to_bits(step(*a), 11)))
    yield Fault("lost keys", "the first token", _drop_keys(0, 1))
    yield Fault("lost keys", "a block of four", _drop_keys(4, 8))
    yield Fault("epsilon", "1e-6 more", _with(epsilon=lambda step, name: step(name) + 1e-6))
    yield Fault("epsilon", "ten times", _with(epsilon=lambda step, name: step(name) * 10))
    yield Fault("epsilon", "a tenth", _with(epsilon=lambda step, name: step(name) / 10))
    yield Fault("epsilon", "left out", _with(epsilon=lambda step, name: 0.0))
    yield Fault("norm", "1 added to the weights", lambda engine: _weightless(engine, True))
    yield Fault("norm", "weights left out", lambda engine: _weightless(engine, False))
    yield Fault("norm", "the mean subtracted", _with(norm=_layer_norm))
    yield Fault("norm", "final norm left out", _skip_norm(FINAL_NORM))
    yield Fault("norm", "queries not normed", _skip_norm("q_norm"), applies=_has("has_qk_norm"))
    yield Fault(
        "activation",
        "tanh GELU",
        _with(activation=lambda step, x: torch.nn.functional.gelu(x, approximate="tanh")),
    )
    yield Fault(
        "activation", "sigmoid(1.702 x)", _with(activation=lambda step, x: x * torch.sigmoid(1.702 * x))
    )
    yield Fault("activation", "fast SiLU", _silu_fast)
    yield Fault("activation", "ReLU", _with(activation=lambda step, x: x.relu()))
    yield Fault("activation", "gate and up exchanged", _with(gate=lambda step, x, up: step(up, x)))
    yield Fault("residual", "the feed-forward part reads the stream before attention", _parallel)
    yield Fault(
        "embedding",
        "multiplied by about the root of the width",
        _with(embed=lambda step, ids: step(ids) * 7.0),
    )
    yield Fault("biases", "left out", change_weights(_drop_biases), applies=_has("has_bias"))
    yield Fault("cache", "last slot overwritten", _store_decoded(_overwrite), needs_cache=True)
    yield Fault(
        "cache",
        "new values not stored",
        _store_decoded(lambda old, new: torch.cat([old, old[:, :, -1:]], 2)),
        needs_cache=True,
    )
    yield Fault("cache", "pages exchanged", _with(store=_swap_pages))
    yield Fault(
        "number type", "cache in int8", _with(store=lambda step, old, new, *a: step(old, to_int8(new), *a))
    )
    yield Fault("number type", "TF32", _round_linear(11))
    yield Fault("number type", "bfloat16 inputs", _round_linear(8))
    yield Fault("number type", "bfloat16 between steps", _stored_bfloat16)
    yield Fault(
        "number type",
        "weights in bfloat16",
        _round_weights(lambda w: to_bits(w, 8)),
        applies=lambda s: s.dtype == "float32",
    )
    yield Fault("number type", "weights in int8", _round_weights(to_int8))
    yield Fault("tensor-parallel shards", "output exchanged", _swap_shards(("o_proj",), 1))
    yield Fault("tensor-parallel shards", "feed-forward exchanged", _swap_shards(("down_proj",), 1))
    yield Fault("tensor-parallel shards", "attention added twice", change_weights(_twice("o_proj")))
    yield Fault("tensor-parallel shards", "feed-forward added twice", change_weights(_twice("down_proj")))
    yield Fault("tied head", "another matrix than the embedding", _other_head, applies=_has("is_tied"))
    yield Fault("weights", "keys and values exchanged", _exchange("k_proj", "v_proj"))
    yield Fault("weights", "layers exchanged", _layers_exchanged, applies=lambda shape: shape.n_layers > 1)
    yield Fault(
        "tokenizer",
        "ids off by one",
        _with(embed=lambda step, ids: step((ids + (ids > 1)).clamp(max=10**9) % _vocab(step))),
    )
    yield Fault(
        "tokenizer",
        "beginning-of-text token left out",
        _with(generate_block=lambda step, prompts, n, way: step([p[1:] for p in prompts], n, way)),
    )
    yield Fault(
        "tokenizer",
        "two beginning-of-text tokens",
        _with(generate_block=lambda step, prompts, n, way: step([[0, *p] for p in prompts], n, way)),
    )
    yield Fault("padding mask", "padding is seen", _with(visible=_visible_padding), ways=_PADDED)
    yield Fault(
        "padding mask",
        "answer read after the end of the text",
        _wrong_last,
        ways=("one by one", "right padding"),
    )
    yield Fault("batching", "rows mixed", _rows_mixed, ways=_PADDED, needs_cache=True)
    yield Fault(
        "chunked prefill", "positions start again", _restart_positions, ways=("one by one", "chunked prefill")
    )
    yield Fault(
        "chunked prefill", "earlier chunks not seen", _forget_earlier, ways=("one by one", "chunked prefill")
    )
    yield Fault(
        "prefix reuse", "slots shifted", _with(prefill=_shift_prefix), ways=("one by one", "prefix reuse")
    )
    yield Fault(
        "speculative decoding",
        "all accepted",
        _with(accept=lambda step, d, p: len(d)),
        ways=("one by one", "speculative"),
    )
    yield Fault(
        "speculative decoding",
        "one too many",
        _with(accept=lambda step, d, p: min(len(d), step(d, p) + 1)),
        ways=("one by one", "speculative"),
    )

    yield Fault(
        BEAM_SEARCH,
        "the cache does not follow the beams",
        _with(follow_beams=lambda step, cache, rows: step(cache, torch.arange(len(rows)) % _n_rows(cache))),
        ways=("one by one", BEAM_SEARCH),
    )
    yield Fault(
        BEAM_SEARCH,
        "logits for likelihoods",
        _with(log_likelihoods=lambda step, logits: logits),
        ways=("one by one", BEAM_SEARCH),
    )


def _n_rows(cache: Cache) -> int:
    return len(cache.positions)


def _vocab(step: Any) -> int:
    return int(step.__self__.shape.vocab) if hasattr(step, "__self__") else 256


def _softmax_plus_one(step: Any, scores: Tensor, visible: Tensor) -> Tensor:
    shares: Tensor = step(scores, visible)
    top = scores.masked_fill(~visible, -1e300)
    total = top.logsumexp(-1, keepdim=True)
    return shares * torch.sigmoid(total)


def _no_scaling(engine: ReferenceEngine) -> None:
    from dataclasses import replace

    plain = replace(engine.shape, rope_scaling={})
    override(engine, frequencies=lambda step: plain.frequencies())


def _drop_biases(weights: dict[str, Tensor], shape: Shape) -> None:
    for name in [name for name in weights if name.endswith(".bias")]:
        weights[name] = torch.zeros_like(weights[name])


def _twice(part: str) -> Callable[[dict[str, Tensor], Shape], None]:
    def change(weights: dict[str, Tensor], shape: Shape) -> None:
        for name in [name for name in weights if name.endswith(f"{part}.weight")]:
            weights[name] = weights[name] * 2

    return change


def _other_head(engine: ReferenceEngine) -> None:
    table = engine.weights[f"{EMBEDDING}.weight"]
    engine.weights[f"{HEAD}.weight"] = table.roll(1, 1)
    override(engine, linear=lambda step, x, name: step(x, HEAD if name == EMBEDDING else name))


def _exchange(first: str, second: str) -> Change:
    def other(name: str) -> str:
        return name.replace(first, second) if first in name else name.replace(second, first)

    return _rename(other)


def _layers_exchanged(engine: ReferenceEngine) -> None:
    def other(name: str) -> str:
        for a, b in ((".0.", ".1."), (".1.", ".0.")):
            if f"layers{a}" in name:
                return name.replace(f"layers{a}", f"layers{b}")
        return name

    override(engine, weight=lambda step, name: step(other(name)))


def _kv_groups(shape: Shape) -> Iterator[Fault]:
    n = shape.n_kv_heads
    if n > 1:
        yield Fault(
            "key-value groups",
            "assigned by turns",
            _with(kv_heads=lambda step: [h % n for h in range(shape.n_heads)]),
        )
        yield Fault(
            "key-value groups",
            "all query heads use the first",
            _with(kv_heads=lambda step: [0] * shape.n_heads),
        )
        yield Fault(
            "key-value groups",
            "each query head uses the next",
            _with(kv_heads=lambda step: [(k + 1) % n for k in step()]),
        )


def faults_of(shape: Shape) -> list[Fault]:
    """Return every known fault that an engine can have with this checkpoint."""
    heads = [
        Fault(f"head {head + 1} of layer {layer + 1}", detail, scale_head(layer, head, factor))
        for layer in range(shape.n_layers)
        for head in range(shape.n_heads)
        for detail, factor in (("left out", 0.0), ("1% off", 1.01))
    ]
    return [fault for fault in (*_general(), *_kv_groups(shape), *heads) if fault.applies(shape)]
