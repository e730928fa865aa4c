"""Feed-forward blocks written unit by unit: what a hidden unit reads, its bias, and what it adds where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from byheart.network.transformer.architecture import FeedForward

Weight: TypeAlias = int | float | Fraction
"""An exact number; floats stand for themselves."""


@dataclass(frozen=True)
class Shape:
    """Hidden units of one block, and the pass it belongs to."""

    part: str
    units: int


@dataclass(frozen=True)
class Unit:
    """h = ReLU(Σ reads[slot]·H[slot] + bias), added to H[slot] with weight writes[slot]."""

    reads: Mapping[int, Weight]
    bias: Weight
    writes: Mapping[int, Weight]


@dataclass(frozen=True)
class Block:
    """Units that act at once, and what is added to slots regardless."""

    part: str
    units: Sequence[Unit]
    adds: Mapping[int, Weight] = field(default_factory=dict)

    def weights(self) -> Iterator[Weight]:
        """Every weight that is written down; some may be zero."""
        for unit in self.units:
            yield from unit.reads.values()
            yield unit.bias
            yield from unit.writes.values()
        yield from self.adds.values()


def exact_matrices(n_units: int, model_width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """w1, b1, w2 and b2 full of zeros that any number may replace: Python's own, so that none is ever rounded."""
    shapes = ((n_units, model_width), (n_units,), (model_width, n_units), (model_width,))
    w1, b1, w2, b2 = (np.zeros(shape, dtype=object) for shape in shapes)
    return w1, b1, w2, b2


def feed_forward(block: Block, model_width: int) -> FeedForward:
    """The block as matrices of exact numbers; `emitting` makes them weights."""
    n_units = len(block.units)
    w1, b1, w2, b2 = exact_matrices(n_units, model_width)
    for number, unit in enumerate(block.units):
        for slot, weight in unit.reads.items():
            w1[number, slot] += weight
        b1[number] = unit.bias
        for slot, weight in unit.writes.items():
            w2[slot, number] += weight
    for slot, value in block.adds.items():
        b2[slot] += value
    return FeedForward(w1, b1, w2, b2)
