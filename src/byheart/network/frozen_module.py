"""Make a compiled module safe to use inside other programs: its weights are frozen, and it refuses to run if a cast has rounded
them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from byheart.errors import UsageError

if TYPE_CHECKING:
    import torch
    from torch import nn


class RoundedWeights(UsageError):
    """The weights of a module were cast to a narrower type, now or earlier, which changes what it computes."""


def freeze(module: nn.Module) -> nn.Module:
    """Freeze the weights of `module` and return it. Later calls of the module raise `RoundedWeights` if its weights have a narrower
    type, for example after `.half()`, or if such a cast has changed them, as in `.half().float()`.

    A compiled network does not tolerate rounding. An optimiser could also spoil the network: weight decay changes weights even if
    all gradients are zero.
    """
    module.requires_grad_(False)
    first = next(module.parameters(), None)
    if first is not None:
        module.register_forward_pre_hook(partial(_require_wide, compiled=first.dtype))
    return module


def _first_weight(module: nn.Module) -> torch.Tensor:
    """Return one of the weights.

    A replica made by `nn.DataParallel` has no parameters and stores its weights under another name.
    """
    for each in module.modules():
        for weights in (each._parameters, getattr(each, "_former_parameters", {})):
            for weight in weights.values():
                if weight is not None:
                    return weight
    raise AssertionError("this module has no weights, so it is not a compiled module")


def _require_wide(module: nn.Module, inputs: Any, *, compiled: torch.dtype) -> None:
    found = _first_weight(module).dtype
    is_narrow = found.itemsize < compiled.itemsize or found.is_floating_point != compiled.is_floating_point
    if is_narrow or getattr(module, "is_rounded", False):
        cast = (
            f"was cast to {found}, which rounds"
            if is_narrow
            else "an earlier cast to a narrower type has rounded"
        )
        raise RoundedWeights(
            f"this module was compiled in {compiled}, and {cast} its weights.\n"
            "  Load the model again with byheart.load, and cast the outputs of its module instead of the module itself.\n"
            "  For weights of a different type, compile with precision=...",
            compiled=str(compiled),
            found=str(found),
        )
