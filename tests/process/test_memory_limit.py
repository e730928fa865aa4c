"""How much memory an input may take: what a user may write, and what is refused at which byte."""

from __future__ import annotations

import re

import pytest

from byheart.errors import UsageError
from byheart.process.memory_limit import OverMemoryLimit, memory_limit, require_memory
from tests.refusal import refused


@pytest.mark.parametrize(
    ("given", "n_bytes"),
    [
        ("5", 5), ("1K", 1024), ("2M", 2 * 1024**2), ("3G", 3 * 1024**3), ("4T", 4 * 1024**4), ("6 kib", 6 * 1024),
        (" 7GB ", 7 * 1024**3), ("8b", 8), ("", 4 * 1024**3), ("  ", 4 * 1024**3), ("9" * 15, 10**15 - 1),
    ],
)  # fmt: skip
def test_a_limit_is_a_number_of_bytes_with_a_unit(
    given: str, n_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory_limit(given) == n_bytes
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", given)
    assert memory_limit() == n_bytes
    assert memory_limit("1") == 1  # what is given comes before what is set


@pytest.mark.parametrize("given", ["0", "0G", "-1", "1.5G", "G", "12X", "1 2", "1" * 16, "lots"])
def test_anything_else_is_refused(given: str) -> None:
    with refused(UsageError, value=given):
        memory_limit(given)


@pytest.mark.parametrize("limit", ["1000", "3G"])
def test_one_byte_more_than_the_limit_is_refused_and_the_advice_is_enough(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", limit)
    n_bytes = memory_limit()
    require_memory("it", n_bytes)
    with refused(OverMemoryLimit, n_bytes=n_bytes + 1, limit=n_bytes) as caught:
        require_memory("it", n_bytes + 1)
    (advised,) = re.findall(r"BYHEART_MEMORY_LIMIT=(\w+)", str(caught.value))
    assert n_bytes < memory_limit(advised) <= n_bytes + 1024**3
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", advised)
    require_memory("it", n_bytes + 1)
