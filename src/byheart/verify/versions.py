"""Which software took part: the versions that records and certificates carry."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def package_version(name: str) -> str:
    """The installed version of a package, or "unknown" where it runs from a bare source tree."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def versions(*packages: str) -> dict[str, str]:
    """Versions of byheart, Python and the packages named."""
    return {
        "byheart": package_version("byheart"),
        "python": platform.python_version(),
        **{name: package_version(name) for name in packages},
    }
