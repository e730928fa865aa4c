"""Refuse sizes that no data set and no network can have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from functools import cache, wraps
from types import NoneType
from typing import ParamSpec, TypeVar, get_args, get_type_hints

from byheart.errors import ImpossibleSize
from byheart.records.arguments import takes_numbers

P = ParamSpec("P")
R = TypeVar("R")


def takes_sizes(**least: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that its numeric arguments are checked before each call, as by `takes_numbers`.

    In addition, `ImpossibleSize` is raised if a whole number is below 1, or below the number that `least` gives for its name.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @cache
        def sizes() -> tuple[str, ...]:
            hints = get_type_hints(function)
            return tuple(
                name
                for name in signature.parameters
                if set(get_args(hints[name]) or (hints[name],)) - {NoneType} == {int}
            )

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            given = signature.bind(*args, **kwargs).arguments
            for name in sizes():
                if given.get(name) is not None:
                    require_sizes(least.get(name, 1), **{name: given[name]})
            return function(*args, **kwargs)

        return takes_numbers(checked)

    return decorate


def require_sizes(least: int, **sizes: int) -> None:
    """Raise `ImpossibleSize` if one of `sizes` is below `least`."""
    for name, value in sizes.items():
        if value < least:
            raise ImpossibleSize(f"{name} is {value}; it must be at least {least}", name=name, value=value)


def require_ball(radius: Fraction | int | float, separation: Fraction | int | float) -> None:
    """Raise `ImpossibleSize` unless points of norm at most `radius` can be at least `separation` apart."""
    if radius < 0 or separation <= 0:
        raise ImpossibleSize(
            f"radius is {radius} and separation is {separation}; radius must not be negative and separation must be positive",
            radius=radius,
            separation=separation,
        )
