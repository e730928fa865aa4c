"""Make golden checkpoints, which are standard checkpoints with known correct answers, and check inference engines with them.

    from byheart import golden
    golden.make("family")
    golden.check(generate, "family").holds      # generate(checkpoint_folder, prompts, n_new) is your own function

Names are imported when they are first used, so that the pytest plugin costs nothing if it is not used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from byheart.golden.case import Case, cases
    from byheart.golden.engine_check import check
    from byheart.golden.family import make
    from byheart.golden.report import Report

__all__ = ["Case", "Report", "cases", "check", "make"]
_HOMES = {"Case": "case", "cases": "case", "Report": "report", "check": "engine_check", "make": "family"}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'byheart.golden' has no attribute {name!r}")
    value = getattr(import_module(f"byheart.golden.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
