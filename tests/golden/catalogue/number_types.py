"""Faults of number types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from byheart.golden.changes import to_bits, to_int8
from tests.golden.catalogue.fault import EngineFault, change_tensors, wrap


def _linear(change: Callable[..., Tensor], part: str = "") -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and part in name:
                wrap(module, "forward", change)

    return apply


def _bf16_sums(step: Any, x: Tensor) -> Tensor:
    module = step.__self__
    total = torch.zeros(*x.shape[:-1], module.weight.shape[0], dtype=torch.bfloat16)
    for first in range(0, x.shape[-1], 8):
        piece = x[..., first : first + 8] @ module.weight.data[:, first : first + 8].T
        total = (total.float() + piece.float()).bfloat16()
    total = total.to(x.dtype)
    return total if module.bias is None else total + module.bias


FAULTS = (
    EngineFault(
        "bfloat16 model", ("number type",), lambda m: m.to(torch.bfloat16) and None, in_bfloat16=False
    ),
    EngineFault(
        "TF32 products",
        ("number type",),
        _linear(lambda step, x: step(to_bits(x, 11))),
        in_bfloat16=False,
    ),
    EngineFault("sums in bfloat16", ("number type",), _linear(_bf16_sums)),
    EngineFault(
        "float16 feed-forward part",
        ("number type",),
        _linear(lambda step, x: step(x.half().to(x.dtype)).half().to(x.dtype), "mlp"),
    ),
    EngineFault(
        "weights in bfloat16",
        ("number type",),
        change_tensors("weight", lambda w: w.bfloat16().to(w.dtype)),
        applies=lambda s: s.dtype == "float32",
    ),
    EngineFault("weights in int8", ("number type",), change_tensors("proj.weight", to_int8)),
)
