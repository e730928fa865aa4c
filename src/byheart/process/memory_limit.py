"""How much memory an input may ask for, in one place. Costs are computed before memory is taken."""

from __future__ import annotations

import os
import re

from byheart.errors import DataError, UsageError

VARIABLE = "BYHEART_MEMORY_LIMIT"
DEFAULT_LIMIT = 4 * 2**30
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class OverMemoryLimit(DataError):
    """The input would take more memory than is allowed; none was allocated yet."""


def memory_limit(given: str | None = None) -> int:
    """Bytes that reading one input may take: the given limit (such as 16G), else `BYHEART_MEMORY_LIMIT`, else 4 GiB."""
    given = (os.environ.get(VARIABLE, "") if given is None else given).strip()
    if not given:
        return DEFAULT_LIMIT
    found = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)(?:i?B)?", given, re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise UsageError(
            f"{VARIABLE} is {given!r}; give a number of bytes, or one such as 512M or 16G.", value=given
        )
    return int(found[1]) * _UNITS[found[2].upper()]


def require_memory(what: str, n_bytes: int) -> None:
    """Raise `OverMemoryLimit`, with both numbers, where `what` would take more than the limit."""
    limit = memory_limit()
    if n_bytes > limit:
        enough = f"{n_bytes // 2**30 + 1}G"
        raise OverMemoryLimit(
            f"{what} would take about {n_bytes:,} bytes of memory, more than the limit of {limit:,}.\n"
            f"  If that is intended, raise the limit: {VARIABLE}={enough}, or byheart --memory-limit {enough} ...",
            n_bytes=n_bytes,
            limit=limit,
        )
