"""Feed-forward blocks written unit by unit: what a hidden unit reads, its bias, and what it adds where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from byheart.network.architecture import FeedForward


@dataclass(frozen=True)
class Shape:
    """Hidden units of one block, and the pass it belongs to."""

    part: str
    units: int


@dataclass(frozen=True)
class Unit:
    """h = ReLU(Σ reads[slot]·H[slot] + bias), added to H[slot] with weight writes[slot]."""

    reads: Mapping[int, float]
    bias: float
    writes: Mapping[int, float]


@dataclass(frozen=True)
class Block:
    """Units that act at once, and what is added to slots regardless."""

    part: str
    units: Sequence[Unit]
    adds: Mapping[int, float] = field(default_factory=dict)


def feed_forward(block: Block, model_width: int) -> FeedForward:
    """The block as weight matrices."""
    n_units = len(block.units)
    w1, w2 = np.zeros((n_units, model_width)), np.zeros((model_width, n_units))
    b1, b2 = np.zeros(n_units), np.zeros(model_width)
    for number, unit in enumerate(block.units):
        for slot, weight in unit.reads.items():
            w1[number, slot] += weight
        b1[number] = unit.bias
        for slot, weight in unit.writes.items():
            w2[slot, number] += weight
    for slot, value in block.adds.items():
        b2[slot] += value
    return FeedForward(w1, b1, w2, b2)
