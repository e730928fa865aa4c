"""Keep compiled networks exact inside other programs: the base class of their PyTorch modules, and `freeze`.

A compiled network does not tolerate rounding, so its module computes in its own float type even under `torch.autocast`. The module
also records whether a cast has rounded its weights. A module on which `freeze` was called refuses to run with rounded weights.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Self

import torch
from torch import nn

from byheart.errors import UsageError

_MARK = "weights_are_rounded"  # the entry for `is_rounded` in the metadata of a state dictionary


class CompiledModule(nn.Module):
    """A module whose weights were compiled. `is_rounded` is true if a cast has changed the value of a weight.

    A later cast to a wider type does not set `is_rounded` to false. Loading a state dictionary with all weights sets it to true if
    these weights were already rounded or if loading rounds them, and otherwise to false.
    """

    is_rounded = False

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Apply `fn` to all weights. PyTorch calls this for every cast and every move to another device."""

        def apply(weights: torch.Tensor) -> torch.Tensor:
            changed = fn(weights)
            self.is_rounded = self.is_rounded or _rounds(weights, changed)
            return changed

        super()._apply(apply, recurse)  # type: ignore[no-untyped-call]  # torch states no types here
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.is_rounded and hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]][_MARK] = True

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *others: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)
        given = {name: state_dict.get(prefix + name) for name, _ in self.named_parameters()}
        are_copied = not local_metadata.get("assign_to_params_buffers", False)
        rounds = are_copied and any(
            _rounds(given[name], given[name].to(own.dtype))
            for name, own in self.named_parameters()
            if given[name] is not None
        )
        keeps_mark = self.is_rounded and any(weights is None for weights in given.values())
        self.is_rounded = rounds or keeps_mark or bool(local_metadata.get(_MARK, False))


def _rounds(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Return whether the cast from `before` to `after` changed a value."""
    if before.dtype == after.dtype:
        return False
    if before.is_meta or after.is_meta:  # these tensors have no values
        return after.dtype.itemsize < before.dtype.itemsize
    return not torch.equal(after.to(before.device, before.dtype), before)


class RoundedWeights(UsageError):
    """The weights of a module have a narrower type than the one it was compiled in, or an earlier cast has rounded them."""


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
            f"was cast to {found}, which may round"
            if is_narrow
            else "an earlier cast to a narrower type has rounded"
        )
        raise RoundedWeights(
            f"this module computes in {compiled}, and {cast} its weights.\n"
            "  Load the model again with byheart.load, and cast the outputs of its module instead of the module itself.\n"
            "  For weights of a different type, compile with precision=...",
            compiled=str(compiled),
            found=str(found),
        )


def own_precision(inputs: torch.Tensor) -> AbstractContextManager[Any]:
    """Switch `torch.autocast` off in a `with` block, for the device of `inputs`. Raise `UsageError` if they are not a tensor."""
    if not isinstance(inputs, torch.Tensor):
        raise UsageError(
            f"this module takes a tensor, not a {type(inputs).__name__}. model.encode returns one, and torch.as_tensor "
            "converts an array.",
            given_type=type(inputs).__name__,
        )
    device = inputs.device.type
    if not torch.amp.is_autocast_available(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)


def look_up(table: Callable[[torch.Tensor], torch.Tensor], ids: torch.Tensor, n_ids: int) -> torch.Tensor:
    """Return the vectors of token ids. If `table` raises `IndexError`, which it does on a CPU for an id out of its range, raise
    `UsageError`, which says that ids must be from 0 to n_ids - 1.
    """
    try:
        return table(ids)
    except IndexError:
        lowest, largest = int(ids.min()), int(ids.max())
        raise UsageError(
            f"this module takes token ids from 0 to {n_ids - 1}; got ids from {lowest} to {largest}.",
            n_ids=n_ids,
            lowest=lowest,
            largest=largest,
        ) from None
