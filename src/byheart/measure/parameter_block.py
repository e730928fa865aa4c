"""Store models of different sizes in one tensor, with padded shapes, a mask, and views into one flat block of parameters.

The weights of a model fill the padded tensors from index 0 of each axis; all other entries are zero. Gradients are
multiplied by the mask before the optimiser uses them. Padded entries therefore stay exactly zero, and products with
them add exact zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ParameterBlock:
    """The layout of the parameters of a stack (models that train together) in one flat block (n_models, n_flat).

    `shapes` holds the padded shape of each parameter in `names`. `true_shapes` holds the unpadded shapes of each model.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]  # the padded shape, without the axis of models
    true_shapes: tuple[Shapes, ...]  # the true shapes, one per model

    @classmethod
    def of(cls, shapes: Sequence[Shapes]) -> ParameterBlock:
        """Return the smallest layout for models of these shapes. All models must have the same parameter names and numbers of
        axes.
        """
        names = tuple(shapes[0])
        assert all(tuple(model) == names for model in shapes)
        padded = tuple(
            tuple(max(axis) for axis in zip(*(model[name] for model in shapes), strict=True))
            for name in names
        )
        return cls(names, padded, tuple(dict(model) for model in shapes))

    @property
    def lengths(self) -> list[int]:
        """Number of entries of each parameter in one model's block, including padding."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def n_flat(self) -> int:
        """Number of entries of one model's block, including padding."""
        return sum(self.lengths)

    @property
    def is_even(self) -> bool:
        """True if no model is padded, so masks can be left out."""
        return all(
            model[name] == shape
            for model in self.true_shapes
            for name, shape in zip(self.names, self.shapes, strict=True)
        )

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Return views of shape (n_models, *shape) into the flat block. Gradients flow through them back to the block."""
        pieces = torch.split(flat, self.lengths, dim=1)
        return {
            name: piece.view(flat.shape[0], *shape)
            for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)
        }

    def pack(self, weights: Sequence[Mapping[str, Tensor]]) -> Tensor:
        """Return the flat block that holds these unpadded weights, in their number type. Padding is filled with zeros."""
        sample = next(iter(weights[0].values()))
        flat = torch.zeros(len(weights), self.n_flat, dtype=sample.dtype)
        for model, tensors in enumerate(weights):
            for name, view in self.views(flat[model : model + 1]).items():
                corner = tuple(slice(size) for size in self.true_shapes[model][name])
                view[0][corner] = tensors[name]
        return flat

    def unpack(self, flat: Tensor, model: int) -> dict[str, Tensor]:
        """Return copies of one model's weights, without padding."""
        return {
            name: view[0][tuple(slice(size) for size in self.true_shapes[model][name])].clone()
            for name, view in self.views(flat[model : model + 1]).items()
        }

    def mask(self) -> Tensor:
        """Return a Boolean mask (n_models, n_flat) that is True at real entries and False at padding."""
        ones = [
            {name: torch.ones(shape, dtype=torch.bool) for name, shape in model.items()}
            for model in self.true_shapes
        ]
        return self.pack(ones)

    def take(self, models: Sequence[int]) -> ParameterBlock:
        """Return the layout that contains only `models` (positions in this layout), with the same padding."""
        return ParameterBlock(self.names, self.shapes, tuple(self.true_shapes[model] for model in models))
