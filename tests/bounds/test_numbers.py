"""Bounds that were published stay as they were: the numbers of every function at some 1,500 points.

The other tests of this room derive numbers from the papers and from independent arithmetic. These pin them: whoever changes a
formula sees which numbers change, writes them anew (`python -m tests.bounds.numbers`), and says in the commit why.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bounds.numbers import FILE, call, points

KNOWN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
POINTS = {name: (function, given) for name, function, given in points()}


def group_of(name: str) -> str:
    return name.partition("(")[0].rstrip("0123456789 ")


def test_every_point_has_its_numbers() -> None:
    assert POINTS.keys() == KNOWN.keys()


@pytest.mark.parametrize("group", sorted({group_of(name) for name in KNOWN}))
def test_numbers_stay_as_they_were(group: str) -> None:
    names = [name for name in KNOWN if group_of(name) == group]
    assert {name: call(*POINTS[name]) for name in names} == {name: KNOWN[name] for name in names}
