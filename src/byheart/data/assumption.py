"""An assumption of a theorem, checked on a data set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumption:
    """One assumption, and whether it held when the network was built."""

    statement: str
    holds: bool
    detail: str
