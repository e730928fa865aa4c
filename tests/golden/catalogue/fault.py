"""An engine fault, and what several of them are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from byheart.golden.changes import override
from byheart.golden.shape import Shape


@dataclass(frozen=True)
class EngineFault:
    """`change` alters a model of transformers, or the reference engine where `into` says so.

    What is a fault in float32 may be no more than its rounding to an engine that computes in bfloat16 (`in_bfloat16`).
    """

    name: str
    kinds: tuple[str, ...]
    change: Callable[[Any], None]
    into: str = "transformers"
    ways: tuple[str, ...] = ("one by one", "no cache")
    applies: Callable[[Shape], bool] = lambda shape: True
    in_bfloat16: bool = True


def layers(model: Any) -> Any:
    return model.model.layers


def wrap(owner: Any, name: str, function: Callable[..., Any]) -> None:
    """`function(original, ...)` in the place of a method."""
    setattr(owner, name, partial(function, getattr(owner, name)))


def change_tensors(part: str, change: Callable[[Tensor], Tensor]) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        for name, parameter in model.named_parameters():
            if name.endswith(part):
                parameter.data = change(parameter.data)

    return apply


def override_steps(**steps: Callable[..., Any]) -> Callable[[Any], None]:
    return lambda engine: override(engine, **steps)


def has_architecture(*names: str) -> Callable[[Shape], bool]:
    return lambda shape: shape.architecture in names
