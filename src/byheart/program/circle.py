"""Labels as points on circles: two numbers distinguish any number of labels (DPC24 Proposition 3)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from byheart.theorems import realises


@realises("DPC24-P3")
def circle_points(n_points: int, dim: int = 2) -> Float[np.ndarray, "n_points dim"]:
    """Unit vectors such that W W_gᵀ is largest at g: points on a circle for d = 2.

    In higher dimension point i is at the angles 2π i f_k/N on d/2 circles (the first frequency is 1, so no two
    points coincide); the other frequencies are the multiples by which the largest inner product is smallest, tried
    in order. An odd last coordinate is 0.
    """
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
