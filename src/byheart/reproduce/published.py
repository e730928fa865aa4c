"""The numbers the papers' authors stored, beside which ours are drawn."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class StoredAccuracy:
    """One point of DPC24's Figures 1 and 2: mean training accuracy over two seeds, 50 tokens."""

    figure: str
    dim: int
    head_dim: int
    n_heads: int
    accuracy: float


@dataclass(frozen=True)
class StoredCapacity:
    """One point of MFT24's Figure 1, right: the smallest passing width on the grid 4, 8, ..., 512."""

    n_stories: int
    n_contexts: int
    vocab: int
    entropy_nats: float
    min_hidden_width: int
    n_parameters: int


@lru_cache
def stored_tables(file: str = "published.json") -> dict[str, Any]:
    """The tables of a file beside this one."""
    return dict(json.loads(Path(__file__).with_name(file).read_text(encoding="utf-8")))


def dana_2024(figure: str) -> tuple[StoredAccuracy, ...]:
    """DPC24's stored accuracies: `fig1a_fig2b`, `fig1b` or `fig2a`."""
    return tuple(
        StoredAccuracy(**row) for row in stored_tables()["dana_2024_accuracies"] if row["figure"] == figure
    )


def madden_2024() -> tuple[StoredCapacity, ...]:
    """MFT24's stored capacities."""
    return tuple(StoredCapacity(**row) for row in stored_tables()["madden_2024_capacity"])
