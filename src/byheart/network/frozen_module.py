"""A compiled module as a layer of somebody's program: frozen, and refused where a cast has rounded its weights."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from byheart.errors import UsageError

if TYPE_CHECKING:
    import torch
    from torch import nn


class RoundedWeights(UsageError):
    """The weights of a module were cast to a narrower type, which makes another network of it."""


def freeze(module: nn.Module) -> nn.Module:
    """Take the weights of `module` out of training, and let it refuse to run once `.half()` or the like has rounded them.

    A memory has no slack for rounding: weight decay alone, with all gradients zero, changes every answer.
    """
    module.requires_grad_(False)
    first = next(module.parameters(), None)
    if first is not None:
        module.register_forward_pre_hook(partial(_require_wide, compiled=first.dtype))
    return module


def _require_wide(module: nn.Module, inputs: Any, *, compiled: torch.dtype) -> None:
    found = next(module.parameters()).dtype
    if found.itemsize < compiled.itemsize or found.is_floating_point != compiled.is_floating_point:
        raise RoundedWeights(
            f"this module was compiled in {compiled} and was cast to {found}, which rounds its weights.\n"
            "  Make it anew (model.module is a copy; byheart.load gives the model again), and cast its output instead;\n"
            "  or compile with precision=... for another type.",
            compiled=str(compiled),
            found=str(found),
        )
