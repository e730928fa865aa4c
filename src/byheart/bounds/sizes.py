"""Reject sizes that are impossible for a data set or a network, such as 0 tokens."""

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
    """Decorate a function so that its numeric arguments are checked before each call, as `takes_numbers` does.

    In addition, `ImpossibleSize` is raised if an integer argument is too small. Its smallest allowed value is the one that `least`
    gives for its name, or 1 if `least` gives none.
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
    """Raise `ImpossibleSize` if `radius` is negative, or if `separation` is not positive."""
    if radius < 0 or separation <= 0:
        raise ImpossibleSize(
            f"radius is {radius} and separation is {separation}; radius must not be negative and separation must be positive",
            radius=radius,
            separation=separation,
        )
