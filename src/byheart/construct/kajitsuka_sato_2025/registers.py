"""The residual stream of KS25's networks: which channel holds what."""

from __future__ import annotations

from typing import Literal

from byheart.program.lookup import LookupRegisters

LOOKUP = LookupRegisters()
SUM = "sum"
REGISTERS = (LOOKUP.x, *LOOKUP.words, "key", "value", "hit", LOOKUP.into, SUM)
MODEL_WIDTH = len(REGISTERS)
CHANNEL = {name: number for number, name in enumerate(REGISTERS)}

Entrance = Literal["vectors", "line", "table"]
"""How tokens enter: vectors through E_in; ids on a line, φ by a network; ids with φ in the table (Theorem E.1)."""
