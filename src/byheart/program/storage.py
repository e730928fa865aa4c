"""The storage formats of the arrays of an int8 network, in which each array has its own format.

The arrays of a layer are stored in the fewest bits that hold them exactly; arrays that are named in `Block.wide` are stored as
float32. The two matrices of a `TableBlock` are stored as int8, with one exponent for each channel. The arrays before and after the
layers are float32. Formats never depend on the data, so a program that is only counted has the same formats as the network that is
built.
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
    """Return the storage formats of all arrays of a network: the `n_before` arrays before the layers, those of the layers, and one
    after them.
    """
    formats = [each for step, layer in zip(steps, layers, strict=True) for each in layer_formats(step, layer)]
    return Storage("int8", (*(FLOAT32,) * n_before, *formats, FLOAT32))


def layer_formats(step: Step, layer: Layer) -> list[WeightFormat]:
    """Return the storage format of each array of a float layer, in order. The layer must have been built from the step."""
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
    """If the step is a `TableBlock` that stands for a table without its content, return it with one unit. Return any other step
    unchanged.

    Such a `TableBlock` is used only to count weights. Its biases are a single number instead of an array.
    """
    if not isinstance(step, TableBlock) or isinstance(step.biases, np.ndarray):
        return step
    return replace(step, n_units=1)


def step_bits(step: Step, layer: Layer, n_units: int) -> int:
    """Return the number of bits that store the arrays of the layer that a step describes.

    `n_units` is the number of units of the step. `layer` is built from `one_unit(step)`, so it may have fewer units.
    """
    assert not isinstance(step, Repeat | SumPool)
    found = 0
    for each, (name, weights) in zip(layer_formats(step, layer), layer.parameters(), strict=True):
        shape = tuple(weights.shape)
        if not isinstance(step, RegisterAttention):
            shape = {"w1": (n_units, shape[-1]), "b1": (n_units,), "w2": (shape[0], n_units)}.get(name, shape)
        found += each.n_bits(shape)
    return found
