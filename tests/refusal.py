"""What tests ask of an error: its type and its facts, never its wording (tests/cli/golden holds that)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from byheart.errors import ByheartError

E = TypeVar("E", bound=ByheartError)


@contextmanager
def refused(kind: type[E], *names: str, **facts: object) -> Iterator[pytest.ExceptionInfo[E]]:
    """What is done within is refused with an error of this kind that has these facts; of `names`, whatever their values."""
    with pytest.raises(kind) as caught:
        yield caught
    assert set(names) <= set(caught.value.facts)
    assert {name: caught.value.facts.get(name, "no such fact") for name in facts} == facts
