"""Quantise real vectors: a few random projections, each rounded to integers by thresholds that are far from all data points.

Floats compute a projection p = direction·x with an error of at most `error`. The network reads the integer part of p bit by bit,
from the highest bit down, so the line is divided into cells of length 1. Let s be a slope, and let r be the rest of p after the
higher bits are subtracted. For the bit of value H = 2^b, the network computes e = ReLU(s·(r - H)) and u = ReLU(1 - e). Then u is
exactly 1 for r <= H and exactly 0 for r >= H + 1/s, however the numbers in between are rounded. If every projection of the data is
at least 2/s from every cell border, with 1/s >= 4·error, then the network reads exactly the bits computed here, in any order of
summation. This distance is measured, not assumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from byheart.construct.retrieval.layout import Entrance
from byheart.program.blocks import Block, Unit

N_PROJECTIONS = 2
_DIRECTION_BITS = 10


@dataclass(frozen=True, eq=False)
class Quantiser:
    """A map from real vectors to integers. Each projection of a vector x is a number directions[i]·x - lowest[i], rounded down.

    directions  coefficients of each projection
    lowest      number subtracted from each projection, so that the result is in (0, 2^n_bits)
    n_bits      bits of each integer
    sharpness   s, the slope of the thresholds, a power of two
    """

    directions: Float[np.ndarray, "n_projections dim"]
    lowest: Float[np.ndarray, " n_projections"]
    n_bits: int
    sharpness: float

    def points(
        self, values: Float[np.ndarray, "n_samples seq_len dim"]
    ) -> Int[np.ndarray, "n_samples seq_len n_projections"]:
        """Return the integers into which every token is quantised."""
        return np.asarray(np.floor(values @ self.directions.T - self.lowest), dtype=np.int64)


def draw_quantiser(
    values: Float[np.ndarray, "n_samples seq_len dim"],
    n_bits: int,
    mantissa_bits: int,
    rng: np.random.Generator,
) -> Quantiser | None:
    """Draw a random quantiser. Return None if one of its cell borders is too close to `values`.

    Also return None if the values are so large that a projection overflows, or if the mantissa is too short for this many bits.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _draw(values, n_bits, mantissa_bits, rng)


def _draw(
    values: Float[np.ndarray, "n_samples seq_len dim"],
    n_bits: int,
    mantissa_bits: int,
    rng: np.random.Generator,
) -> Quantiser | None:
    dim = values.shape[-1]
    # smaller values count as 0: a direction that scales them to integers would overflow a float
    scale = max(float(np.abs(values).max(initial=0.0)), 2.0**-900 if mantissa_bits > 24 else 2.0**-60)
    directions = rng.integers(1, 1 << _DIRECTION_BITS, size=(N_PROJECTIONS, dim)).astype(np.float64)
    directions *= rng.choice([-1.0, 1.0], size=directions.shape)
    projected = values @ directions.T
    spread = float((projected.max(axis=(0, 1)) - projected.min(axis=(0, 1))).max())
    # a power of two that leaves every projection in (0, 2^n_bits) with at least one cell to spare on either side
    # (if all tokens are equal, any cells will do)
    _, exponent = np.frexp((max(spread, scale * 2.0**-40) if spread else scale) * 1.25)
    directions = np.ldexp(directions, n_bits - int(exponent))
    projected = np.ldexp(projected, n_bits - int(exponent))
    room = 2.0**n_bits - (projected.max(axis=(0, 1)) - projected.min(axis=(0, 1)))
    lowest = projected.min(axis=(0, 1)) - room * rng.uniform(0.3, 0.7, size=N_PROJECTIONS)
    lowest = np.ldexp(np.rint(np.ldexp(lowest, 8)), -8)
    size = float((np.abs(directions).sum(axis=1) * scale + np.abs(lowest)).max()) + 2.0**n_bits
    error = size * (dim + 4) * 2.0**-mantissa_bits
    sharpness = 2.0 ** np.floor(np.log2(1 / (4 * error)))
    inside = projected - lowest
    if (
        not np.isfinite(size)
        or sharpness < 4
        or float(np.abs(inside - np.rint(inside)).min()) < 2 / sharpness + error
    ):
        return None
    return Quantiser(directions, lowest, n_bits, float(sharpness))


def quantising_blocks(
    quantiser: Quantiser | None,
    weights: Int[np.ndarray, "n_projections n_fields"] | None,
    entrance: Entrance,
    fields: Sequence[str],
    channels: Sequence[str],
) -> Iterator[Block]:
    """Yield blocks that quantise each projection to an integer, and compute each field as a weighted sum of these integers.

    At the start, the first channels hold the projections. Each projection uses two channels: one for the part of the projection
    that is not read yet, and one that helps to read the next bit. At the end, these channels are zero.

    Without a quantiser, the blocks can be counted but not built.
    """
    n, n_bits = entrance.n_projections, entrance.n_bits
    if quantiser is None or weights is None:
        quantiser = Quantiser(np.ones((n, entrance.dim)), np.ones(n), n_bits, 1.0)
        weights = np.ones((n, len(fields)), dtype=np.int64)
    left, excess = channels[:n], channels[n : 2 * n]
    s = quantiser.sharpness
    for bit in reversed(range(n_bits)):
        level = 2.0**bit
        is_first = bit == n_bits - 1
        shift = quantiser.lowest if is_first else np.zeros(n)
        yield Block(
            [Unit({left[k]: s}, -s * (level + float(shift[k])), {excess[k]: 1.0}) for k in range(n)],
            {left[k]: 0.0 - float(shift[k]) for k in range(n)},  # never -0.0
            "quantise",
        )
        units, adds = [], dict.fromkeys(fields, 0.0)
        for k in range(n):
            gains = {field: level * float(weight) for field, weight in zip(fields, weights[k], strict=True)}
            units.append(
                Unit({excess[k]: -1.0}, 1.0, {left[k]: level, **{at: -gain for at, gain in gains.items()}})
            )
            units.append(Unit({excess[k]: 1.0}, 0.0, {excess[k]: -1.0}))
            for field, gain in gains.items():
                adds[field] += gain
            adds[left[k]] = -level
        yield Block(units, adds, "quantise")
    yield Block([Unit({register: 1.0}, 0.0, {register: -1.0}) for register in left], {}, "quantise")
