"""Points on circles: with two numbers per label, any number of labels can be distinguished (DPC24 Proposition 3)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from byheart.errors import UsageError
from byheart.theorems import realises


@realises("DPC24-P3")
def circle_points(n_points: int, dim: int = 2) -> Float[np.ndarray, "n_points dim"]:
    """Return unit vectors, the rows of W, such that each row W_g has its largest inner product with itself.

    If `dim` is 2, they are on one circle. In a higher dimension d, there are d/2 circles, and circle k has a frequency f_k. Point
    i of N = `n_points` has the angle 2π i f_k/N on circle k. The first frequency f_1 is 1, so no two points coincide. The other
    frequencies are chosen one after the other. Each choice makes the largest inner product of two different points as small as
    possible. If d is odd, the last coordinate is 0. Raise `UsageError` if d is below 2.
    """
    if dim < 2:
        raise UsageError(
            f"dim is {dim}; it must be at least 2, because points on a circle have two coordinates.", dim=dim
        )
    numbers = np.arange(n_points)
    frequencies = [1]
    cosines = np.cos(2 * np.pi * np.outer(np.arange(max(n_points // 2, 1) + 1), numbers) / n_points)
    total = cosines[min(1, len(cosines) - 1)].copy()
    while len(frequencies) < dim // 2:
        largest = [float((total + row)[1:].max(initial=-np.inf)) for row in cosines]
        best = int(np.argmin(largest))
        frequencies.append(best)
        total = total + cosines[best]
    angles = 2 * np.pi * np.outer(numbers, frequencies) / n_points
    points = np.zeros((n_points, dim))
    points[:, 0 : 2 * len(frequencies) : 2] = np.cos(angles)
    points[:, 1 : 2 * len(frequencies) : 2] = np.sin(angles)
    return np.asarray(points / np.sqrt(len(frequencies)))
