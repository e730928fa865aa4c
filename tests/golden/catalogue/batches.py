"""Faults of padding, batches, chunks, speculative decoding and beam search."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from byheart.golden.changes import override
from byheart.golden.reference import ReferenceEngine
from tests.golden.catalogue.fault import EngineFault, override_steps


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


FAULTS = (
    EngineFault(
        "padding seen",
        ("padding mask",),
        override_steps(visible=_seen_padding),
        into="reference",
        ways=("one by one", "left padding"),
    ),
    EngineFault(
        "positions of padded rows counted while decoding",
        ("padding mask", "batching", "positions while decoding"),
        _count_padding,
        into="reference",
        ways=("one by one", "left padding"),
    ),
    EngineFault(
        "answer read behind the text",
        ("padding mask",),
        _last_column,
        into="reference",
        ways=("one by one", "right padding"),
    ),
    EngineFault(
        "rows of a batch mixed",
        ("batching",),
        _mixed_rows,
        into="reference",
        ways=("one by one", "left padding"),
    ),
    EngineFault(
        "chunk starts at position 0",
        ("chunked prefill",),
        _chunk_from_zero,
        into="reference",
        ways=("one by one", "chunked prefill"),
    ),
    EngineFault(
        "chunk sees only itself",
        ("chunked prefill",),
        override_steps(visible=_chunk_alone),
        into="reference",
        ways=("one by one", "chunked prefill"),
    ),
    EngineFault(
        "all drafts accepted",
        ("speculative decoding",),
        override_steps(accept=lambda step, drafted, picked: len(drafted)),
        into="reference",
        ways=("one by one", "speculative"),
    ),
    EngineFault(
        "turned-down drafts stay in the cache",
        ("speculative decoding",),
        _keep_drafts,
        into="reference",
        ways=("one by one", "speculative"),
    ),
    EngineFault(
        "beams continue each other's cache",
        ("beam search",),
        override_steps(follow_beams=lambda step, cache, rows: step(cache, rows.roll(1))),
        into="reference",
        ways=("one by one", "beam search"),
    ),
    EngineFault(
        "beams compared with a temperature of two",
        ("beam search",),
        override_steps(log_likelihoods=lambda step, logits: step(logits / 2)),
        into="reference",
        ways=("one by one", "beam search"),
    ),
)
