"""No public function of a theorem accepts a size that no data set and no network can have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any

import pytest

from byheart.bounds import (
    dana_2024,
    kajitsuka_sato_2025,
    kajitsuka_sato_2025_lower,
    lookup,
    madden_2024,
    orders,
    pigeonhole,
    predecessors,
    vc_dimension,
)
from byheart.bounds.bound import Bound, Theorem
from byheart.bounds.enclosures import Interval
from byheart.errors import ImpossibleSize

ROOMS = (
    dana_2024,
    kajitsuka_sato_2025,
    kajitsuka_sato_2025_lower,
    lookup,
    madden_2024,
    orders,
    pigeonhole,
    predecessors,
    vc_dimension,
)
USUAL = {"seq_len": 2, "dim": 3, "vocab": 5, "n_tokens": 5, "batch_root": 2, "n_outputs": 6, "n_contexts": 4}
OTHERS: dict[str, Any] = {
    "ratio": Fraction(1, 2),
    "coherence": Fraction(1, 4),
    "encoder_divergence": Fraction(1, 4),
    "context_weights": [1],
    "distributions": [[Fraction(1, 2), Fraction(1, 2)]],
    "layer_units": [3, 1],
    "layer_parameters": [9, 4],
    "context_counts": [3],
    "next_token_counts": [1, 2],
}
SHAPES = {
    "points": lookup.Points(7, 3, Fraction(4), 0, Fraction(1, 2)),
    "AttentionOnlyShape": dana_2024.AttentionOnlyShape(5, 2, 3, 2, 4),
    "DecoderShape": madden_2024.DecoderShape(3, 2, 2, 2, 4, 5, 2),
    "BlockShape": kajitsuka_sato_2025_lower.BlockShape(3, 4, 2, 2, 5),
}
NOT_SIZES = ("smallest", "log2_e_times", "TheoremSize", "LookupSize", "Order", "RootOfPi")


def public(room: ModuleType) -> Iterator[Callable[..., Any]]:
    for name, each in vars(room).items():
        is_own = callable(each) and getattr(each, "__module__", "") == room.__name__
        if is_own and not name.startswith("_") and name not in NOT_SIZES:
            yield each


def usual(function: Callable[..., Any]) -> dict[str, Any]:
    """Arguments for which the function has a value."""
    given = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kind = str(parameter.annotation)
        given[name] = OTHERS.get(name, SHAPES.get(name, SHAPES.get(kind, USUAL.get(name, 9))))
    return given


def replaced(given: object, value: int) -> object:
    """The argument, or the first number of a list, replaced by an impossible value; None if the argument has no size."""
    if isinstance(given, int | Fraction):
        return value
    return [value, *given[1:]] if isinstance(given, list) and isinstance(given[0], int) else None


CASES = [
    pytest.param(function, name, wrong, id=f"{function.__module__}.{function.__name__}({name}={wrong})")
    for room in ROOMS
    for function in public(room)
    for name, given in usual(function).items()
    for wrong in (replaced(given, -1), replaced(given, 0))
    if wrong is not None
]


def numbers(value: object) -> Iterator[Any]:
    """Every number of a result."""
    if isinstance(value, Bound):
        yield value.value
    elif isinstance(value, Interval):
        yield value.low
    elif isinstance(value, tuple | list):
        for each in value:
            yield from numbers(each)
    elif is_dataclass(value) and not isinstance(value, Theorem):
        for each in fields(value):
            yield from numbers(getattr(value, each.name))
    elif isinstance(value, int | Fraction):
        yield value


def test_every_room_has_functions_whose_usual_arguments_are_accepted() -> None:
    for room in ROOMS:
        found = list(public(room))
        assert found
        for function in found:
            function(**usual(function))


@pytest.mark.parametrize(("function", "name", "wrong"), CASES)
def test_an_impossible_size_is_refused_or_has_a_value(
    function: Callable[..., Any], name: str, wrong: object
) -> None:
    try:
        found = function(**usual(function) | {name: wrong})
    except ImpossibleSize:
        return
    assert min(numbers(found), default=0) >= 0
