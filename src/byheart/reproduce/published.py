"""Read the numbers that the authors of the papers stored, for comparison with ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class StoredAccuracy:
    """One point of DPC24's figures: the training accuracy, averaged over two seeds, with a vocabulary of 50 tokens.

    In Figure 4, there are three seeds and 10 tokens.
    """

    figure: str
    dim: int
    head_dim: int
    n_heads: int
    accuracy: float
    mlp_width: int = 0


@dataclass(frozen=True)
class StoredCapacity:
    """One point of MFT24's Figure 1, right: the smallest hidden width with which the loss is within 1% of the entropy.

    The widths are the powers of two from 4 to 512.
    """

    n_stories: int
    n_contexts: int
    vocab: int
    entropy_nats: float
    min_hidden_width: int
    n_parameters: int


@lru_cache
def stored_tables(file: str = "published.json") -> dict[str, Any]:
    """Return the tables of a JSON file in the folder of this module."""
    return dict(json.loads(Path(__file__).with_name(file).read_text(encoding="utf-8")))


def dana_2024(figure: str) -> tuple[StoredAccuracy, ...]:
    """Return the accuracies that the authors of DPC24 stored for one figure.

    `figure` is `fig1a_fig2b`, `fig1b`, `fig2a`, `fig3` or `fig4`. `fig3` has only those models of Figure 3 that have
    one head and an MLP; the models with several heads and no MLP are those of Figure 2b.
    """
    return tuple(
        StoredAccuracy(**row) for row in stored_tables()["dana_2024_accuracies"] if row["figure"] == figure
    )


def madden_2024() -> tuple[StoredCapacity, ...]:
    """Return the points of MFT24's Figure 1, right, as its authors stored them."""
    return tuple(StoredCapacity(**row) for row in stored_tables()["madden_2024_capacity"])


def madden_2024_gaps() -> dict[tuple[int, int], tuple[float, float]]:
    """Return the map in MFT24's Figure 1, left: the gap (loss minus entropy) of every (number of stories, width).

    Each value of the result is a pair: the gap in nats, and the gap as a share of the entropy. The authors stored no numbers, so
    the gaps were read from the colours of their published plot. Two neighbouring colours of the plot stand for gaps that differ by
    7%.
    """
    entropy = {row.n_stories: row.entropy_nats for row in madden_2024()}
    return {
        (row["n_stories"], 4 << place): (gap, gap / entropy[row["n_stories"]])
        for row in stored_tables()["madden_2024_gaps"]
        for place, gap in enumerate(row["gaps"])
    }
