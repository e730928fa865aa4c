"""How the arrays of a program are stored where each has a format of its own: in a network of precision int8.

A layer's arrays are stored in the fewest bits that hold them exactly, except that those which a block calls wide are float32. In
a table every channel has an exponent of its own. What is before and after the layers is float32. No format depends on the data,
so a description that is only counted has the same formats as the network that is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from byheart.network.transformer.architecture import Layer, SumPool
from byheart.network.weight_format import FLOAT32, Storage, WeightFormat, smallest_format
from byheart.program.blocks import Block, RegisterAttention, Repeat, Step, TableBlock

_OF_TABLES = {"w1": WeightFormat("int8", "columns"), "w2": WeightFormat("int8", "rows")}


def storage_of(steps: Sequence[Step], layers: Sequence[Layer], n_before: int) -> Storage:
    """How the network of these steps is stored, with that many arrays before the layers and one after them."""
    formats = [each for step, layer in zip(steps, layers, strict=True) for each in layer_formats(step, layer)]
    return Storage("int8", (*(FLOAT32,) * n_before, *formats, FLOAT32))


def layer_formats(step: Step, layer: Layer) -> list[WeightFormat]:
    """How the arrays of a layer of floats are stored, in their order; the layer was made from the step."""
    found = []
    for name, weights in layer.parameters():
        if isinstance(step, Block) and name in step.wide:
            found.append(FLOAT32)
        elif isinstance(step, TableBlock) and name in _OF_TABLES:
            found.append(_OF_TABLES[name])
        else:
            found.append(smallest_format(np.asarray(weights)))
    return found


def one_unit(step: Step) -> Step:
    """The step itself; for a table that is only counted, a table with one example unit."""
    if not isinstance(step, TableBlock) or isinstance(step.biases, np.ndarray):
        return step
    return replace(step, n_units=1)


def step_bits(step: Step, layer: Layer, n_units: int) -> int:
    """Bits of the arrays of a layer, computed from the layer of `one_unit` of the step and its number of units."""
    assert not isinstance(step, Repeat | SumPool)
    found = 0
    for each, (name, weights) in zip(layer_formats(step, layer), layer.parameters(), strict=True):
        shape = tuple(weights.shape)
        if not isinstance(step, RegisterAttention):
            shape = {"w1": (n_units, shape[-1]), "b1": (n_units,), "w2": (shape[0], n_units)}.get(name, shape)
        found += each.n_bits(shape)
    return found
