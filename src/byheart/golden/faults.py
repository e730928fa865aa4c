"""Known faults of engines, each with the change of the reference engine that causes it. The wrong answers of a failing engine are
compared with those of each fault.

A fault has a kind (such as "causal mask") and a detail (such as "one token ahead").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from byheart.golden import changes
from byheart.golden.changes import Change, with_steps
from byheart.golden.reference import BEAM_SEARCH, Cache, ReferenceEngine
from byheart.golden.shape import FINAL_NORM, Shape


@dataclass(frozen=True)
class Fault:
    """A known fault of engines.

    kind, detail  together, the name of the fault
    change        puts the fault into an engine
    ways          the ways of running an engine, such as "left padding", for which the wrong answers of the fault are computed
    applies       whether the fault can occur in a checkpoint of this shape
    needs_cache   whether the fault has no effect on an engine that runs without a cache
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


def _has(attribute: str) -> Callable[[Shape], bool]:
    return lambda shape: bool(getattr(shape, attribute))


_PADDED = ("one by one", "left padding")
_silu_fast = with_steps(activation=lambda step, x: x * (x / 6 + 0.5).clamp(0, 1))


def _general() -> Iterator[Fault]:
    yield Fault(
        "positions while decoding", "one too many", changes.shift_decoding_positions(1), needs_cache=True
    )
    yield Fault(
        "positions while decoding", "one too few", changes.shift_decoding_positions(-1), needs_cache=True
    )
    for factor in (1.001, 0.999, 1.05, 50.0):
        yield Fault(
            "RoPE base",
            f"times {factor:g}",
            with_steps(
                frequencies=lambda step, factor=factor: (
                    step() * factor ** (-torch.arange(len(step()), dtype=torch.float64) / len(step()))
                )
            ),
        )
    yield Fault("RoPE scaling", "ignored", changes.ignore_scaling, applies=_has("rope_scaling"))
    yield Fault("RoPE scaling", "all pairs slower", with_steps(frequencies=lambda step: step() / 2))
    yield Fault("RoPE layout", "neighbours instead of halves", with_steps(rotate=changes.interleave))
    yield Fault("RoPE layout", "half of the pairs", with_steps(rotate=changes.rotate_half_of_pairs))
    yield Fault("RoPE layout", "turned backwards", with_steps(angles=lambda step, at: -step(at)))
    yield Fault("attention scale", "halved", with_steps(scale=lambda step, at: step(at) / 2))
    yield Fault("attention scale", "1% off", with_steps(scale=lambda step, at: step(at) * 1.01))
    yield Fault("attention scale", "left out", with_steps(scale=lambda step, at: 1.0))
    yield Fault("causal mask", "one token ahead", changes.replace_mask(lambda distance, _: distance >= -1))
    yield Fault(
        "causal mask",
        "a token does not see itself",
        changes.replace_mask(lambda d, _: (d > 0) | ((d == 0) & (d.cumsum(-1) == d))),
    )
    yield Fault("causal mask", "none", changes.replace_mask(lambda distance, _: distance == distance))
    yield Fault("window", "one too wide", changes.change_window(1), applies=_has("window"))
    yield Fault("window", "one too narrow", changes.change_window(-1), applies=_has("window"))
    yield Fault("window", "ignored", changes.change_window(10**8), applies=_has("window"))
    yield Fault(
        "softmax", "1 added to the sum of exponentials", with_steps(softmax=changes.add_one_to_softmax)
    )
    yield Fault(
        "softmax", "11 significant bits", with_steps(softmax=lambda step, *a: changes.to_bits(step(*a), 11))
    )
    yield Fault("lost keys", "the first token", changes.drop_keys(0, 1))
    yield Fault("lost keys", "a block of four", changes.drop_keys(4, 8))
    yield Fault("epsilon", "1e-6 more", with_steps(epsilon=lambda step, name: step(name) + 1e-6))
    yield Fault("epsilon", "ten times", with_steps(epsilon=lambda step, name: step(name) * 10))
    yield Fault("epsilon", "a tenth", with_steps(epsilon=lambda step, name: step(name) / 10))
    yield Fault("epsilon", "left out", with_steps(epsilon=lambda step, name: 0.0))
    yield Fault("norm", "1 added to the weights", lambda engine: changes.change_norm_weights(engine, True))
    yield Fault("norm", "weights left out", lambda engine: changes.change_norm_weights(engine, False))
    yield Fault("norm", "the mean subtracted", with_steps(norm=changes.subtract_mean))
    yield Fault("norm", "final norm left out", changes.skip_norm(FINAL_NORM))
    yield Fault("norm", "queries not normed", changes.skip_norm("q_norm"), applies=_has("has_qk_norm"))
    yield Fault(
        "activation",
        "tanh GELU",
        with_steps(activation=lambda step, x: torch.nn.functional.gelu(x, approximate="tanh")),
    )
    yield Fault(
        "activation", "sigmoid(1.702 x)", with_steps(activation=lambda step, x: x * torch.sigmoid(1.702 * x))
    )
    yield Fault("activation", "fast SiLU", _silu_fast)
    yield Fault("activation", "ReLU", with_steps(activation=lambda step, x: x.relu()))
    yield Fault("activation", "gate and up exchanged", with_steps(gate=lambda step, x, up: step(up, x)))
    yield Fault(
        "residual", "the feed-forward part reads the stream before attention", changes.read_before_attention
    )
    yield Fault(
        "embedding",
        "multiplied by about the root of the width",
        with_steps(embed=lambda step, ids: step(ids) * 7.0),
    )
    yield Fault("biases", "left out", changes.change_weights(changes.drop_biases), applies=_has("has_bias"))
    yield Fault(
        "cache", "last slot overwritten", changes.store_decoded(changes.overwrite_last), needs_cache=True
    )
    yield Fault(
        "cache",
        "new values not stored",
        changes.store_decoded(lambda old, new: torch.cat([old, old[:, :, -1:]], 2)),
        needs_cache=True,
    )
    yield Fault("cache", "pages exchanged", with_steps(store=changes.swap_pages))
    yield Fault(
        "number type",
        "cache in int8",
        with_steps(store=lambda step, old, new, *a: step(old, changes.to_int8(new), *a)),
    )
    yield Fault("number type", "TF32", changes.round_linear(11))
    yield Fault("number type", "bfloat16 inputs", changes.round_linear(8))
    yield Fault("number type", "bfloat16 between steps", changes.store_bfloat16)
    yield Fault(
        "number type",
        "weights in bfloat16",
        changes.round_weights(lambda w: changes.to_bits(w, 8)),
        applies=lambda s: s.dtype == "float32",
    )
    yield Fault("number type", "weights in int8", changes.round_weights(changes.to_int8))
    yield Fault("tensor-parallel shards", "output exchanged", changes.swap_shards(("o_proj",), 1))
    yield Fault("tensor-parallel shards", "feed-forward exchanged", changes.swap_shards(("down_proj",), 1))
    yield Fault(
        "tensor-parallel shards", "attention added twice", changes.change_weights(changes.double("o_proj"))
    )
    yield Fault(
        "tensor-parallel shards",
        "feed-forward added twice",
        changes.change_weights(changes.double("down_proj")),
    )
    yield Fault(
        "tied head", "another matrix than the embedding", changes.use_other_head, applies=_has("is_tied")
    )
    yield Fault("weights", "keys and values exchanged", changes.exchange_weights("k_proj", "v_proj"))
    yield Fault(
        "weights", "layers exchanged", changes.exchange_layers, applies=lambda shape: shape.n_layers > 1
    )
    yield Fault(
        "tokenizer",
        "ids off by one",
        with_steps(embed=lambda step, ids: step((ids + (ids > 1)).clamp(max=10**9) % _vocab(step))),
    )
    yield Fault(
        "tokenizer",
        "beginning-of-text token left out",
        with_steps(generate_block=lambda step, prompts, n, way: step([p[1:] for p in prompts], n, way)),
    )
    yield Fault(
        "tokenizer",
        "two beginning-of-text tokens",
        with_steps(generate_block=lambda step, prompts, n, way: step([[0, *p] for p in prompts], n, way)),
    )
    yield Fault("padding mask", "padding is seen", with_steps(visible=changes.see_padding), ways=_PADDED)
    yield Fault(
        "padding mask",
        "answer read after the end of the text",
        changes.read_last_column,
        ways=("one by one", "right padding"),
    )
    yield Fault("batching", "rows mixed", changes.mix_rows, ways=_PADDED, needs_cache=True)
    yield Fault(
        "chunked prefill",
        "positions start again",
        changes.restart_positions,
        ways=("one by one", "chunked prefill"),
    )
    yield Fault(
        "chunked prefill",
        "earlier chunks not seen",
        changes.forget_earlier,
        ways=("one by one", "chunked prefill"),
    )
    yield Fault(
        "prefix reuse",
        "slots shifted",
        with_steps(prefill=changes.shift_prefix),
        ways=("one by one", "prefix reuse"),
    )
    yield Fault(
        "speculative decoding",
        "all accepted",
        with_steps(accept=lambda step, d, p: len(d)),
        ways=("one by one", "speculative"),
    )
    yield Fault(
        "speculative decoding",
        "one too many",
        with_steps(accept=lambda step, d, p: min(len(d), step(d, p) + 1)),
        ways=("one by one", "speculative"),
    )

    yield Fault(
        BEAM_SEARCH,
        "the cache does not follow the beams",
        with_steps(
            follow_beams=lambda step, cache, rows: step(cache, torch.arange(len(rows)) % _n_rows(cache))
        ),
        ways=("one by one", BEAM_SEARCH),
    )
    yield Fault(
        BEAM_SEARCH,
        "logits for likelihoods",
        with_steps(log_likelihoods=lambda step, logits: logits),
        ways=("one by one", BEAM_SEARCH),
    )


def _n_rows(cache: Cache) -> int:
    return len(cache.positions)


def _vocab(step: Any) -> int:
    return int(step.__self__.shape.vocab) if hasattr(step, "__self__") else 256


def _kv_groups(shape: Shape) -> Iterator[Fault]:
    n = shape.n_kv_heads
    if n > 1:
        yield Fault(
            "key-value groups",
            "assigned by turns",
            with_steps(kv_heads=lambda step: [h % n for h in range(shape.n_heads)]),
        )
        yield Fault(
            "key-value groups",
            "all query heads use the first",
            with_steps(kv_heads=lambda step: [0] * shape.n_heads),
        )
        yield Fault(
            "key-value groups",
            "each query head uses the next",
            with_steps(kv_heads=lambda step: [(k + 1) % n for k in step()]),
        )


def faults_of(shape: Shape) -> list[Fault]:
    """Return every known fault that an engine can have with this checkpoint."""
    heads = [
        Fault(f"head {head + 1} of layer {layer + 1}", detail, changes.scale_head(layer, head, factor))
        for layer in range(shape.n_layers)
        for head in range(shape.n_heads)
        for detail, factor in (("left out", 0.0), ("1% off", 1.01))
    ]
    return [fault for fault in (*_general(), *_kv_groups(shape), *heads) if fault.applies(shape)]
