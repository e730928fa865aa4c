"""Find the versions of the software that compiles and checks models. Records and certificates store these versions."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def package_version(name: str) -> str:
    """Return the installed version of a package, or "unknown" if it is not installed, for example if it runs from a source tree."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of byheart, Python and the named packages."""
    return {
        "byheart": package_version("byheart"),
        "python": platform.python_version(),
        **{name: package_version(name) for name in packages},
    }
