"""Engine faults put into transformers' own forward pass, and into the reference engine where transformers has no such part.

Each has the kind that a diagnosis should name. Some are faults that the diagnosis knows (`byheart.golden.faults`); others differ
from those in size or form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from byheart.golden.faults import override, to_bits, to_int8
from byheart.golden.reference import ReferenceEngine
from byheart.golden.shape import Shape


@dataclass(frozen=True)
class EngineFault:
    """`change` alters a model of transformers, or the reference engine where `into` says so."""

    name: str
    kinds: tuple[str, ...]
    change: Callable[[Any], None]
    into: str = "transformers"
    ways: tuple[str, ...] = ("one by one", "no cache")
    applies: Callable[[Shape], bool] = lambda shape: True


def _layers(model: Any) -> Any:
    return model.model.layers


def _norms(model: Any) -> list[Any]:
    return [part for part in model.modules() if type(part).__name__.endswith("RMSNorm")]


def _wrap(owner: Any, name: str, function: Callable[..., Any]) -> None:
    """`function(original, ...)` in the place of a method."""
    setattr(owner, name, partial(function, getattr(owner, name)))


def _weights(part: str, change: Callable[[Tensor], Tensor]) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        for name, parameter in model.named_parameters():
            if name.endswith(part):
                parameter.data = change(parameter.data)

    return apply


def _frequencies(change: Callable[[Tensor], Tensor]) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        rotary = model.model.rotary_emb
        rotary.inv_freq = change(rotary.inv_freq)

    return apply


def _base(factor: float) -> Callable[[Any], None]:
    return _frequencies(lambda f: f * factor ** (-torch.arange(len(f)) / len(f)))


def _rotary(change: Callable[..., Any]) -> Callable[[Any], None]:
    return lambda model: _wrap(model.model.rotary_emb, "forward", change)


def _positions_while_decoding(shift: int) -> Callable[[Any], None]:
    def turn(step: Any, x: Tensor, position_ids: Tensor) -> Any:
        return step(x, position_ids + shift * (position_ids.shape[-1] == 1))

    return _rotary(turn)


def _rounded_positions(step: Any, x: Tensor, position_ids: Tensor) -> Any:
    return step(x, to_bits(position_ids.double(), 5).round().long())


def _scaling(change: Callable[[float], float]) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        for layer in _layers(model):
            layer.self_attn.scaling = change(layer.self_attn.scaling)

    return apply


def _epsilon(change: Callable[[float], float]) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        for norm in _norms(model):
            norm.variance_epsilon = change(norm.variance_epsilon)

    return apply


def _activation(function: Callable[[Tensor], Tensor]) -> Callable[[Any], None]:
    class Act(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    def apply(model: Any) -> None:
        for layer in _layers(model):
            layer.mlp.act_fn = Act()

    return apply


def _linear(change: Callable[..., Tensor], part: str = "") -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and part in name:
                _wrap(module, "forward", change)

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
        for layer in _layers(model):
            for part in (layer.self_attn.k_proj, layer.self_attn.v_proj):
                rows = part.weight.data.unflatten(0, (n, -1))
                part.weight.data = rows[order(n, group)].flatten(0, 1)
                if part.bias is not None:
                    part.bias.data = part.bias.data.unflatten(0, (n, -1))[order(n, group)].flatten(0, 1)

    return apply


def _norm_forward(change: Callable[..., Tensor]) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        for norm in _norms(model):
            _wrap(norm, "forward", change)

    return apply


def _swap_halves(part: str, axis: int) -> Callable[[Any], None]:
    return _weights(part, lambda w: torch.cat(w.chunk(2, axis)[::-1], axis))


def _transpose(part: str) -> Callable[[Any], None]:
    return _weights(
        part,
        lambda w: (
            w.T.contiguous() if w.shape[0] == w.shape[1] else w.flatten().view(w.shape[::-1]).T.contiguous()
        ),
    )


def _mask_fault(change: Callable[[Tensor], Tensor]) -> Callable[[Any], None]:
    """Change the additive mask that eager attention gets."""

    def apply(model: Any) -> None:
        for layer in _layers(model):

            def forward(step: Any, *arguments: Any, **options: Any) -> Any:
                mask = options.get("attention_mask")
                if mask is not None:
                    options["attention_mask"] = change(mask)
                return step(*arguments, **options)

            _wrap(layer.self_attn, "forward", forward)

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


def _cache(change: Callable[..., Any]) -> Callable[[Any], None]:
    """Change what transformers' cache stores."""
    from transformers.cache_utils import DynamicLayer

    def apply(model: Any) -> None:
        original = DynamicLayer.update

        def update(
            self: Any, key_states: Tensor, value_states: Tensor, *arguments: Any, **options: Any
        ) -> Any:
            if getattr(model, "fault_is_on", False):
                key_states, value_states = change(self, key_states, value_states)
            return original(self, key_states, value_states, *arguments, **options)

        step = model.forward

        def forward(*arguments: Any, **options: Any) -> Any:
            DynamicLayer.update = update
            model.fault_is_on = True
            try:
                return step(*arguments, **options)
            finally:
                model.fault_is_on = False
                DynamicLayer.update = original

        model.forward = forward

    return apply


def _not_while_decoding(change: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    def apply(cache: Any, keys: Tensor, values: Tensor) -> Any:
        return (change(keys), change(values)) if keys.shape[2] == 1 else (keys, values)

    return apply


def _steps(**steps: Callable[..., Any]) -> Callable[[Any], None]:
    return lambda engine: override(engine, **steps)


def _flip_bit(name: str, at: int, bit: int) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        flat = dict(model.named_parameters())[name].data.view(-1)
        flat.view(torch.int32)[at] ^= 1 << bit

    return apply


def _bf16_sums(step: Any, x: Tensor) -> Tensor:
    module = step.__self__
    total = torch.zeros(*x.shape[:-1], module.weight.shape[0], dtype=torch.bfloat16)
    for first in range(0, x.shape[-1], 8):
        piece = x[..., first : first + 8] @ module.weight.data[:, first : first + 8].T
        total = (total.float() + piece.float()).bfloat16()
    total = total.to(x.dtype)
    return total if module.bias is None else total + module.bias


def _is(*names: str) -> Callable[[Shape], bool]:
    return lambda shape: shape.architecture in names


T = EngineFault


def _swap_norms(layer: Any) -> None:
    first, second = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
    first.data, second.data = second.data, first.data


def _swap_gate(layer: Any) -> None:
    layer.mlp.gate_proj, layer.mlp.up_proj = layer.mlp.up_proj, layer.mlp.gate_proj


def _swap_kv(layer: Any) -> None:
    layer.self_attn.k_proj, layer.self_attn.v_proj = layer.self_attn.v_proj, layer.self_attn.k_proj


def _fresh_head(model: Any) -> nn.Module:
    """What a loader leaves behind that expects a tensor of its own for the head."""
    head = nn.Linear(model.config.hidden_size, model.config.vocab_size, bias=False)
    nn.init.normal_(head.weight, std=0.02, generator=torch.Generator().manual_seed(0))
    return head


def _other_shape(**fields: Any) -> Callable[[Any], None]:
    """The reference engine with another configuration."""

    def apply(engine: ReferenceEngine) -> None:
        engine.shape = replace(engine.shape, **fields)

    return apply


def _window(change: Callable[[int], int | None]) -> Callable[[Any], None]:
    def apply(engine: ReferenceEngine) -> None:
        assert engine.shape.window is not None
        engine.shape = replace(engine.shape, window=change(engine.shape.window))

    return apply


def _neighbours(step: Any, x: Tensor, angles: Tensor) -> Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(-2)


def _sink(step: Any, scores: Tensor, visible: Tensor) -> Tensor:
    masked = scores.masked_fill(~visible, -1e300)
    return torch.cat([masked, torch.zeros_like(masked[..., :1])], -1).softmax(-1)[..., :-1]


def _overwritten(engine: ReferenceEngine) -> None:
    def store(step: Any, old: Tensor, new: Tensor, layer: int, kind: str) -> Tensor:
        stored: Tensor = step(old, new, layer, kind)
        if engine.is_decoding and stored.shape[2] > 3:
            stored = stored.clone()
            stored[:, :, -3] = stored[:, :, -1]
        return stored

    override(engine, store=store)


def _other_page(step: Any, old: Tensor, new: Tensor, layer: int, kind: str) -> Tensor:
    stored: Tensor = step(old, new, layer, kind)
    if stored.shape[2] >= 8:
        stored = torch.cat([stored[:, :, 2:4], stored[:, :, :2], stored[:, :, 4:]], 2)
    return stored


def _stale(step: Any, prompts: Any, ids: Tensor, way: Any) -> Any:
    cache, n_reused = step(prompts, ids, way)
    if n_reused:
        cache.values = [torch.cat([v[:, :, :-1], v[:, :, :1]], 2) for v in cache.values]
    return cache, n_reused


def _count_padding(engine: ReferenceEngine) -> None:
    """While decoding, positions are counted from the first column, padding and all."""

    def positions(step: Any, valid: Tensor, cache: Any) -> Tensor:
        found: Tensor = step(valid, cache)
        return torch.full_like(found, cache.n_slots) if engine.is_decoding else found

    override(engine, positions=positions)


def _seen_padding(step: Any, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
    seen: Tensor = step(queries, keys, valid)
    return seen | ~valid[:, None, None, :]


def _last_column(engine: ReferenceEngine) -> None:
    override(
        engine,
        pad=lambda step, prompts, side: (
            (step(prompts, side)[0], torch.ones_like(step(prompts, side)[1]))
            if side == "right"
            else step(prompts, side)
        ),
    )


def _mixed_rows(engine: ReferenceEngine) -> None:
    def attention(step: Any, queries: Tensor, keys: Tensor, values: Tensor, *rest: Any) -> Tensor:
        order = torch.arange(len(keys)).flip(0) if engine.is_decoding else torch.arange(len(keys))
        return step(queries, keys[order], values[order], *rest)

    override(engine, attention=attention)


def _chunk_from_zero(engine: ReferenceEngine) -> None:
    def positions(step: Any, valid: Tensor, cache: Any) -> Tensor:
        found: Tensor = step(valid, cache)
        return torch.arange(valid.shape[1])[None].expand_as(found) if valid.shape[1] > 1 else found

    override(engine, positions=positions)


def _chunk_alone(step: Any, queries: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
    seen: Tensor = step(queries, keys, valid)
    n_new, n_slots = queries.shape[1], keys.shape[1]
    return seen if n_new in (1, n_slots) else seen & (torch.arange(n_slots) >= n_slots - n_new)


def _keep_drafts(engine: ReferenceEngine) -> None:
    """A rejected token stays in its slot, and later ones come behind it."""
    override(engine, accept=lambda step, drafted, picked: max(step(drafted, picked), min(1, len(drafted))))


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


def _swap_layers(engine: ReferenceEngine) -> None:
    last = engine.shape.n_layers - 1

    def other(name: str) -> str:
        if "layers.0." in name:
            return name.replace("layers.0.", f"layers.{last}.")
        return name.replace(f"layers.{last}.", "layers.0.")

    override(engine, weight=lambda step, name: step(other(name)))


CATALOGUE: tuple[EngineFault, ...] = (
    # positions and RoPE
    T("positions two too many while decoding", ("positions while decoding",), _positions_while_decoding(2)),
    T("positions one too few while decoding", ("positions while decoding",), _positions_while_decoding(-1)),
    T("positions rounded to 5 bits", ("positions", "RoPE scaling", "RoPE base"), _rotary(_rounded_positions)),
    T("RoPE base 0.1% off", ("RoPE base",), _base(1.001)),
    T("RoPE base 2% off", ("RoPE base",), _base(1.02)),
    T("RoPE base of another model", ("RoPE base",), _base(100.0)),
    T("RoPE frequencies 0.1% off", ("RoPE base", "RoPE scaling"), _frequencies(lambda f: f * 1.001)),
    T(
        "RoPE scaling ignored",
        ("RoPE scaling",),
        _other_shape(rope_scaling={}),
        into="reference",
        applies=lambda s: bool(s.rope_scaling),
    ),
    T("RoPE linear scaling by 4", ("RoPE scaling",), _frequencies(lambda f: f / 4)),
    T("RoPE of neighbours instead of halves", ("RoPE layout",), _steps(rotate=_neighbours), into="reference"),
    T(
        "RoPE on three quarters of a head",
        ("RoPE layout",),
        _frequencies(lambda f: f * (torch.arange(len(f)) < 3 * len(f) // 4)),
    ),
    T("RoPE turned backwards", ("RoPE layout",), _frequencies(lambda f: -f)),
    T(
        "cos and sin in bfloat16",
        ("number type", "RoPE base", "RoPE scaling"),
        _rotary(lambda step, x, position_ids: tuple(t.bfloat16().to(t.dtype) for t in step(x, position_ids))),
    ),
    # attention
    T("attention scale halved", ("attention scale",), _scaling(lambda s: s / 2)),
    T("attention scale 0.5% off", ("attention scale",), _scaling(lambda s: s * 1.005)),
    T("attention scale of twice the head size", ("attention scale",), _scaling(lambda s: s / 2**0.5)),
    T("first token not seen", ("lost keys",), _mask_fault(lambda mask: _hide(mask, 0, 1))),
    T("a block of keys not seen", ("lost keys",), _mask_fault(lambda mask: _hide(mask, 2, 4))),
    T("one token ahead is seen", ("causal mask",), _mask_fault(_ahead), ways=("no cache",)),
    T(
        "window one too wide",
        ("window",),
        _window(lambda w: w + 1),
        into="reference",
        applies=lambda s: s.window is not None,
    ),
    T(
        "window two too narrow",
        ("window",),
        _window(lambda w: w - 2),
        into="reference",
        applies=lambda s: s.window is not None,
    ),
    T(
        "window ignored",
        ("window",),
        _window(lambda w: None),
        into="reference",
        applies=lambda s: s.window is not None,
    ),
    T(
        "softmax in float16",
        ("softmax", "number type"),
        _steps(softmax=lambda step, s, v: to_bits(step(to_bits(s, 11), v), 11)),
        into="reference",
    ),
    T("softmax with a sink of weight one", ("softmax",), _steps(softmax=_sink), into="reference"),
    T("head 2 of layer 1 left out", ("head 2 of layer 1",), _head_output(0, 1, 0.0)),
    T("head 3 of layer 2 half a percent off", ("head 3 of layer 2",), _head_output(1, 2, 1.005)),
    T("head 1 of layer 1 2% off", ("head 1 of layer 1",), _head_output(0, 0, 1.02)),
    T(
        "key-value heads by the next group",
        ("key-value groups",),
        _groups(lambda n, g: [(k + 1) % n for k in range(n)]),
        applies=lambda s: s.n_kv_heads > 1,
    ),
    T(
        "first key-value head for all",
        ("key-value groups",),
        _groups(lambda n, g: [0] * n),
        applies=lambda s: s.n_kv_heads > 1,
    ),
    T(
        "query heads mapped by turns",
        ("key-value groups",),
        _steps(kv_heads=lambda step: [h % len(set(step())) for h in range(len(step()))]),
        into="reference",
        applies=lambda s: s.n_kv_heads > 1 and s.group > 1,
    ),
    # norms
    T("epsilon 1e-6 for 1e-5, 1e-5 for 1e-6", ("epsilon",), _epsilon(lambda e: 1e-5 if e < 5e-6 else 1e-6)),
    T("epsilon 1e-12", ("epsilon",), _epsilon(lambda e: 1e-12)),
    T("epsilon twice as large", ("epsilon",), _epsilon(lambda e: 2 * e)),
    T("norm weights plus one", ("norm",), _weights("norm.weight", lambda w: w + 1)),
    T("norm weights left out", ("norm",), _weights("norm.weight", torch.ones_like)),
    T("LayerNorm for RMSNorm", ("norm",), _norm_forward(lambda step, x: step(x - x.mean(-1, keepdim=True)))),
    T("last norm left out", ("norm",), lambda m: setattr(m.model, "norm", nn.Identity())),
    T(
        "queries and keys not normed",
        ("norm",),
        lambda m: (
            [setattr(layer.self_attn, n, nn.Identity()) for layer in _layers(m) for n in ("q_norm", "k_norm")]
            and None
        ),
        applies=_is("qwen3"),
    ),
    T(
        "norms of a layer exchanged",
        ("norm", "weights"),
        lambda m: [_swap_norms(layer) for layer in _layers(m)] and None,
    ),
    # activation, residual, embedding
    T("GELU for SiLU", ("activation",), _activation(nn.functional.gelu)),
    T(
        "tanh GELU for SiLU",
        ("activation",),
        _activation(lambda x: nn.functional.gelu(x, approximate="tanh")),
    ),
    T("hard swish", ("activation",), _activation(nn.functional.hardswish)),
    T("exp with 8 bits in SiLU", ("activation",), _activation(lambda x: x / (1 + to_bits((-x).exp(), 8)))),
    T(
        "gate and up exchanged",
        ("activation",),
        lambda m: [_swap_gate(layer) for layer in _layers(m)] and None,
    ),
    T(
        "residual of the feed-forward part scaled",
        ("residual", "tensor-parallel shards"),
        _weights("down_proj.weight", lambda w: w * 0.98),
    ),
    T("parallel residual", ("residual",), _parallel_residual, into="reference"),
    T(
        "embedding scaled as Gemma's",
        ("embedding",),
        lambda m: _wrap(
            m.model.embed_tokens, "forward", lambda step, ids: step(ids) * m.config.hidden_size**0.5
        ),
    ),
    T("biases left out", ("biases",), _weights(".bias", torch.zeros_like), applies=_is("qwen2")),
    # cache
    T("cache slot overwritten", ("cache",), _overwritten, into="reference"),
    T("keys not stored while decoding", ("cache",), _cache(_not_while_decoding(torch.zeros_like))),
    T("cache in int8", ("number type",), _cache(lambda cache, k, v: (to_int8(k), to_int8(v)))),
    T(
        "cache in 4 bits of mantissa",
        ("number type",),
        _cache(lambda cache, k, v: (to_bits(k, 4), to_bits(v, 4))),
    ),
    T("cache rows of another page", ("cache",), _steps(store=_other_page), into="reference"),
    T(
        "stale prefix",
        ("prefix reuse",),
        _steps(prefill=_stale),
        into="reference",
        ways=("one by one", "prefix reuse"),
    ),
    # batches
    T(
        "padding seen",
        ("padding mask",),
        _steps(visible=_seen_padding),
        into="reference",
        ways=("one by one", "left padding"),
    ),
    T(
        "positions of padded rows counted while decoding",
        ("padding mask", "batching", "positions while decoding"),
        _count_padding,
        into="reference",
        ways=("one by one", "left padding"),
    ),
    T(
        "answer read behind the text",
        ("padding mask",),
        _last_column,
        into="reference",
        ways=("one by one", "right padding"),
    ),
    T(
        "rows of a batch mixed",
        ("batching",),
        _mixed_rows,
        into="reference",
        ways=("one by one", "left padding"),
    ),
    T(
        "chunk starts at position 0",
        ("chunked prefill",),
        _chunk_from_zero,
        into="reference",
        ways=("one by one", "chunked prefill"),
    ),
    T(
        "chunk sees only itself",
        ("chunked prefill",),
        _steps(visible=_chunk_alone),
        into="reference",
        ways=("one by one", "chunked prefill"),
    ),
    T(
        "all drafts accepted",
        ("speculative decoding",),
        _steps(accept=lambda step, drafted, picked: len(drafted)),
        into="reference",
        ways=("one by one", "speculative"),
    ),
    T(
        "turned-down drafts stay in the cache",
        ("speculative decoding",),
        _keep_drafts,
        into="reference",
        ways=("one by one", "speculative"),
    ),
    # number types
    T("bfloat16 model", ("number type",), lambda m: m.to(torch.bfloat16) and None),
    T("TF32 products", ("number type",), _linear(lambda step, x: step(to_bits(x.double(), 11).float()))),
    T("sums in bfloat16", ("number type",), _linear(_bf16_sums)),
    T(
        "float16 feed-forward part",
        ("number type",),
        _linear(lambda step, x: step(x.half().float()).half().float(), "mlp"),
    ),
    T(
        "weights in bfloat16",
        ("number type",),
        _weights("weight", lambda w: w.bfloat16().to(w.dtype)),
        applies=lambda s: s.dtype == "float32",
    ),
    T("weights in int8", ("number type",), _weights("proj.weight", to_int8)),
    # shards and weights
    T("output shards exchanged", ("tensor-parallel shards",), _swap_halves("o_proj.weight", 1)),
    T("feed-forward shards exchanged", ("tensor-parallel shards",), _swap_halves("down_proj.weight", 1)),
    T("attention reduced twice", ("tensor-parallel shards",), _weights("o_proj.weight", lambda w: w * 2)),
    T(
        "vocabulary shards exchanged",
        ("tensor-parallel shards", "tokenizer", "tied head"),
        lambda m: _wrap(m.lm_head, "forward", lambda step, x: torch.cat(step(x).chunk(2, -1)[::-1], -1)),
    ),
    T(
        "head not tied",
        ("tied head",),
        lambda m: setattr(m, "lm_head", _fresh_head(m)),
        applies=lambda s: s.is_tied,
    ),
    T(
        "keys and values exchanged",
        ("weights",),
        lambda m: [_swap_kv(layer) for layer in _layers(m)] and None,
    ),
    T("layers exchanged", ("weights",), _swap_layers, into="reference", applies=lambda s: s.n_layers > 1),
    T("a tensor transposed", ("weights",), _transpose("layers.0.mlp.up_proj.weight")),
    T("one exponent bit flipped", ("weights",), _flip_bit("model.layers.0.mlp.up_proj.weight", 77, 25)),
    T("one mantissa bit flipped", ("weights",), _flip_bit("model.layers.1.self_attn.v_proj.weight", 99, 20)),
    # tokenizer
    T(
        "token ids off by one",
        ("tokenizer",),
        lambda m: _wrap(
            m.model.embed_tokens, "forward", lambda step, ids: step((ids + 1) % m.config.vocab_size)
        ),
    ),
    T(
        "no beginning of text",
        ("tokenizer",),
        _steps(generate_block=lambda step, prompts, n, way: step([p[1:] for p in prompts], n, way)),
        into="reference",
    ),
)
