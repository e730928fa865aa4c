"""Faults of positions and of RoPE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from byheart.golden.changes import to_bits
from byheart.golden.reference import ReferenceEngine
from tests.golden.catalogue.fault import EngineFault, override_steps, wrap


def _frequencies(change: Callable[[Tensor], Tensor]) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        rotary = model.model.rotary_emb
        rotary.inv_freq = change(rotary.inv_freq)

    return apply


def _base(factor: float) -> Callable[[Any], None]:
    return _frequencies(lambda f: f * factor ** (-torch.arange(len(f)) / len(f)))


def _rotary(change: Callable[..., Any]) -> Callable[[Any], None]:
    return lambda model: wrap(model.model.rotary_emb, "forward", change)


def _positions_while_decoding(shift: int) -> Callable[[Any], None]:
    def turn(step: Any, x: Tensor, position_ids: Tensor) -> Any:
        return step(x, position_ids + shift * (position_ids.shape[-1] == 1))

    return _rotary(turn)


def _rounded_positions(step: Any, x: Tensor, position_ids: Tensor) -> Any:
    return step(x, to_bits(position_ids.double(), 5).round().long())


def _other_shape(**fields: Any) -> Callable[[Any], None]:
    """The reference engine with another configuration."""

    def apply(engine: ReferenceEngine) -> None:
        engine.shape = replace(engine.shape, **fields)

    return apply


def _neighbours(step: Any, x: Tensor, angles: Tensor) -> Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(-2)


FAULTS = (
    EngineFault(
        "positions two too many while decoding", ("positions while decoding",), _positions_while_decoding(2)
    ),
    EngineFault(
        "positions one too few while decoding", ("positions while decoding",), _positions_while_decoding(-1)
    ),
    EngineFault(
        "positions rounded to 5 bits", ("positions", "RoPE scaling", "RoPE base"), _rotary(_rounded_positions)
    ),
    EngineFault("RoPE base 0.1% off", ("RoPE base",), _base(1.001)),
    EngineFault("RoPE base 2% off", ("RoPE base",), _base(1.02)),
    EngineFault("RoPE base of another model", ("RoPE base",), _base(100.0)),
    EngineFault(
        "RoPE frequencies 0.1% off", ("RoPE base", "RoPE scaling"), _frequencies(lambda f: f * 1.001)
    ),
    EngineFault(
        "RoPE scaling ignored",
        ("RoPE scaling",),
        _other_shape(rope_scaling={}),
        into="reference",
        applies=lambda s: bool(s.rope_scaling),
    ),
    EngineFault("RoPE linear scaling by 4", ("RoPE scaling",), _frequencies(lambda f: f / 4)),
    EngineFault(
        "RoPE of neighbours instead of halves",
        ("RoPE layout",),
        override_steps(rotate=_neighbours),
        into="reference",
    ),
    EngineFault(
        "RoPE on three quarters of a head",
        ("RoPE layout",),
        _frequencies(lambda f: f * (torch.arange(len(f)) < 3 * len(f) // 4)),
    ),
    EngineFault("RoPE turned backwards", ("RoPE layout",), _frequencies(lambda f: -f)),
    EngineFault(
        "cos and sin in bfloat16",
        ("number type", "RoPE base", "RoPE scaling"),
        _rotary(lambda step, x, position_ids: tuple(t.bfloat16().to(t.dtype) for t in step(x, position_ids))),
        in_bfloat16=False,
    ),
)
