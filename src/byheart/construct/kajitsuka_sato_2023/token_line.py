"""Tokens on a line between 1 and 2, in floats, with a bound on the rounding error."""

from __future__ import annotations

import numpy as np

from byheart.construct.kajitsuka_sato_2023.context_ids import EPS, TokenPlaces
from byheart.data.dataset import Dataset, VectorSequences
from byheart.program.distinct_tokens import DistinctTokens

MIDDLE = 1.5
"""Projections of vectors lie between -1/2 and 1/2; this is added to them."""
_RANDOM_DIRECTIONS = 12


def candidate_places(data: Dataset, tokens: DistinctTokens, rng: np.random.Generator) -> list[TokenPlaces]:
    """Tokens on a line between 1 and 2: by a table, or along several directions to choose from."""
    if not isinstance(data.inputs, VectorSequences):
        line = tokens.points.coordinates[:, 0].astype(np.float64)
        values = 1 + line[tokens.sequences] / table_scale(tokens)
        return [TokenPlaces(values, 0.0, None)]  # powers of two: no rounding
    vectors = data.inputs.values
    flat = vectors.reshape(-1, vectors.shape[2])
    found = []
    for direction in (*np.eye(flat.shape[1]), *rng.standard_normal((_RANDOM_DIRECTIONS, flat.shape[1]))):
        with np.errstate(over="ignore", invalid="ignore"):
            along = flat @ direction
            extent = float(np.abs(along).max())
            if not np.isfinite(extent) or extent == 0:
                continue
            scaled = direction / (2 * extent)
            # d products and sums, the products' magnitudes added up, and one rounding for adding 3/2
            error = (len(direction) + 2) * EPS * float((np.abs(flat) @ np.abs(scaled)).max()) + 2 * EPS
            values = flat @ scaled + MIDDLE
        if np.isfinite(error) and np.isfinite(values).all():
            found.append(TokenPlaces(values.reshape(vectors.shape[:2]), error, scaled))
    if not found:  # all tokens are zero
        found.append(TokenPlaces(np.full(vectors.shape[:2], MIDDLE), 2 * EPS, np.zeros(flat.shape[1])))
    return found


def table_scale(tokens: DistinctTokens) -> float:
    """The power of two above every place in the table, so that dividing by it rounds nothing."""
    largest = max(int(value) for (value,) in tokens.points.coordinates)
    return float(1 << largest.bit_length())
