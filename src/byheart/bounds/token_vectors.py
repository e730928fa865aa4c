"""Describe tokens as the theorems do: as vectors with a largest norm and a smallest distance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

from byheart.bounds.enclosures import sqrt
from byheart.data.dataset import Dataset
from byheart.data.dataset_pieces import DatasetPieces
from byheart.data.separation import Separation, separation_of_ids
from byheart.data.shape import DataShape


@dataclass(frozen=True)
class VectorView:
    """The tokens as vectors of dimension `dim`, whose norm is at most `radius`. Distinct tokens are at least `separation` apart."""

    dim: int
    radius: Fraction
    separation: Fraction

    def distinct_tokens(self, at_most: int) -> int:
        """Return how many tokens, at least `separation` apart, certainly fit into the ball of radius `radius`, or `at_most` if more
        fit.

        Two arrangements are counted, points on a diameter of the ball and a cubic grid inside it, and the larger number is taken.
        """
        on_diameter = (2 * self.radius / self.separation).__floor__() + 1
        # the cube has side 2r/√d, so each edge has floor(√(4r² / (d δ²))) + 1 places
        per_edge = isqrt((4 * self.radius**2 / (self.dim * self.separation**2)).__floor__()) + 1
        full = per_edge > 1 and self.dim >= at_most.bit_length()
        in_cube = at_most if full else per_edge ** min(self.dim, at_most.bit_length())
        return min(at_most, max(on_diameter, in_cube))


def tokens_as_vectors(shape: DataShape) -> VectorView | None:
    """Return the tokens as vectors, or None if the tokens are vectors whose dimension, radius or separation is unknown.

    A token id is a vector with one coordinate, a number from 0 to vocab - 1. Different ids are at least 1 apart, unless `shape`
    gives another separation. A padding token is the number vocab. If positions matter, one more coordinate holds the position,
    starting at 0.
    """
    last = shape.context_len - 1 if shape.has_positions else 0
    if shape.vocab is not None:
        largest = Fraction(shape.vocab - 1 + last if shape.radius is None else shape.radius)
        separation = Fraction(1 if shape.separation is None else shape.separation)
        if shape.ragged:
            largest, separation = max(largest, Fraction(shape.vocab + last)), min(separation, Fraction(1))
        return VectorView(2 if shape.has_positions else 1, largest, separation)
    if shape.dim is None or shape.radius is None or shape.separation is None:
        return None
    separation = Fraction(shape.separation)
    if not shape.has_positions:
        return VectorView(shape.dim, Fraction(shape.radius), separation)
    return VectorView(shape.dim + 1, Fraction(shape.radius) + last, min(separation, Fraction(1)))


def id_vectors(shape: DataShape) -> tuple[str, ...]:
    """Return one sentence that says how `tokens_as_vectors` reads token ids, or an empty tuple if the tokens are vectors."""
    if shape.vocab is None:
        return ()
    return (f"token ids are read as {'vectors (id, position)' if shape.has_positions else 'numbers'}",)


def shape_of(dataset: Dataset | DatasetPieces) -> DataShape:
    """Return the sizes of a data set, with the largest norm of its tokens and the smallest distance between distinct tokens.

    The squares of both are computed exactly; then the norm is rounded up and the distance is rounded down. If there is only one
    distinct token, the distance is 1. If the tokens are vectors and the data set is read in pieces, neither is measured, because
    the vectors may not fit into memory.
    """
    if isinstance(dataset, DatasetPieces):
        if dataset.dim is not None:
            return DataShape.of(dataset)
        tokens = dataset.tokens_in_place
        return _measured(
            DataShape.of(dataset), separation_of_ids(tokens.ids, tokens.positions, dataset.ordered)
        )
    separation = dataset.check().separation
    if separation is None:
        dataset.require_finite()
    assert separation is not None
    return _measured(DataShape.of(dataset), separation)


def _measured(shape: DataShape, found: Separation) -> DataShape:
    delta_square = Fraction(1) if found.delta_squared is None else found.delta_squared
    return replace(shape, radius=sqrt(found.r_squared).high, separation=sqrt(delta_square).low)
