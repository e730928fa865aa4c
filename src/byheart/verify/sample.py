"""Which samples are asked twice."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def draw_samples(n_asked: int, n_wanted: int) -> Int[np.ndarray, " n_drawn"]:
    """Positions of samples to ask again; the seed is fixed so that a certificate can be made again."""
    return np.sort(np.random.default_rng(0).permutation(n_asked)[:n_wanted])
