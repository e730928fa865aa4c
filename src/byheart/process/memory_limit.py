"""Limit the memory that one input may take. How much it would take is computed before any memory is allocated."""

from __future__ import annotations

import os
import re

from byheart.errors import DataError, UsageError

VARIABLE = "BYHEART_MEMORY_LIMIT"
DEFAULT_LIMIT = 4 * 2**30
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class OverMemoryLimit(DataError):
    """The input would take more memory than allowed. Nothing was allocated."""


def memory_limit(given: str | None = None) -> int:
    """Return the number of bytes of memory that may be used to read one input.

    This is `given` (such as 16G) or else the environment variable `BYHEART_MEMORY_LIMIT`. The default is 4 GiB.
    """
    given = (os.environ.get(VARIABLE, "") if given is None else given).strip()
    if not given:
        return DEFAULT_LIMIT
    found = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)(?:i?B)?", given, re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise UsageError(
            f"the memory limit (--memory-limit or {VARIABLE}) cannot be {given!r}; give a number of bytes, or a "
            "size such as 512M or 16G.",
            value=given,
        )
    return int(found[1]) * _UNITS[found[2].upper()]


def require_memory(what: str, n_bytes: int) -> None:
    """Raise `OverMemoryLimit` if `what` would take more memory than the limit. The error gives `n_bytes` and the limit."""
    limit = memory_limit()
    if n_bytes > limit:
        enough = f"{n_bytes // 2**30 + 1}G"
        raise OverMemoryLimit(
            f"{what} would take about {n_bytes:,} bytes of memory, more than the limit of {limit:,}.\n"
            f"  If that is intended, raise the limit: {VARIABLE}={enough}, or byheart --memory-limit "
            f"{enough} ...",
            n_bytes=n_bytes,
            limit=limit,
        )
