"""Faults of the cache, and of prefixes that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from byheart.golden.changes import override, to_bits, to_int8
from byheart.golden.reference import ReferenceEngine
from tests.golden.catalogue.fault import EngineFault, override_steps


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


FAULTS = (
    EngineFault("cache slot overwritten", ("cache",), _overwritten, into="reference"),
    EngineFault("keys not stored while decoding", ("cache",), _cache(_not_while_decoding(torch.zeros_like))),
    EngineFault("cache in int8", ("number type",), _cache(lambda cache, k, v: (to_int8(k), to_int8(v)))),
    EngineFault(
        "cache in 4 bits of mantissa",
        ("number type",),
        _cache(lambda cache, k, v: (to_bits(k, 4), to_bits(v, 4))),
    ),
    EngineFault(
        "cache rows of another page", ("cache",), override_steps(store=_other_page), into="reference"
    ),
    EngineFault(
        "stale prefix",
        ("prefix reuse",),
        override_steps(prefill=_stale),
        into="reference",
        ways=("one by one", "prefix reuse"),
    ),
)
