"""Check numeric arguments, and convert them to Python numbers.

NumPy integers overflow silently, and floats are rounded. A bound computed with them could therefore be wrong without any warning.

    whole_number(name, value)    an int
    real_number(name, value)     an int, a Fraction or a finite float
    takes_numbers                a decorator that checks the numeric parameters of a function
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from functools import cache, wraps
from math import isfinite
from numbers import Integral
from numbers import Real as AnyReal
from types import NoneType
from typing import Any, ParamSpec, TypeVar, get_args, get_type_hints

from byheart.records.json_file import show_value
from byheart.records.reader import read_value
from byheart.records.refusals import refuse_size

P = ParamSpec("P")
R = TypeVar("R")


def whole_number(name: str, value: object) -> int:
    """Convert a whole number to an `int`. Raise `ImpossibleSize` for a float (even 5.0), a bool, a text or anything else."""
    plain = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
    if type(plain) is int:
        return plain
    number: int = read_value(plain, int, name, name, refuse=refuse_size)
    return number


def real_number(name: str, value: object) -> int | float | Fraction:
    """Return an int or a `Fraction` unchanged, and other real numbers as a float.

    Raise `ImpossibleSize` if `value` is not a finite number.
    """
    if isinstance(value, int | Fraction) and not isinstance(value, bool):
        return value
    if isinstance(value, AnyReal) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    raise refuse_size(name, f"{name} is {show_value(value)}; it must be a finite number")


def takes_numbers(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate `function` so that its numeric arguments are checked before each call. The annotations give their types."""
    signature = inspect.signature(function)

    @cache
    def readers() -> dict[str, Callable[[str, object], Any]]:
        """Return, for each numeric parameter of the decorated function, the function that checks its values, by name."""
        found: dict[str, Callable[[str, object], Any]] = {}
        for name, hint in get_type_hints(function).items():
            kinds = set(get_args(hint) or (hint,))
            if kinds - {NoneType} == {int}:
                found[name] = _or_none(whole_number) if NoneType in kinds else whole_number
            elif float in kinds:
                found[name] = real_number
        return found

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs)
        for name, read in readers().items():
            if name in given.arguments:
                given.arguments[name] = read(name, given.arguments[name])
        return function(*given.args, **given.kwargs)

    return checked


def _or_none(read: Callable[[str, object], int]) -> Callable[[str, object], int | None]:
    return lambda name, value: None if value is None else read(name, value)
