"""The Boltzmann operator: one softmax head that computes a number for each token, which depends on the whole sequence.

The sharpness β is a factor of the attention scores. It is found by a search; the theorem instead computes β for the worst case. A
token with value z_k in a sequence z receives c_k = Σ_l softmax_l(β z_k z_l) z_l. This is the derivative of log Σ_l exp(s z_l) at s
= β z_k. Suppose two sequences of equal length had the same derivative for all s of an interval. Then their sums Σ_l exp(s z_l)
would be proportional. The sums are equal at s = 0, so they would be equal everywhere, and the sequences would be the same multiset.
So if no value is 0, all but finitely many β of any bounded interval distinguish all contexts; here all values are positive. Tokens
may be repeated (our own argument; the paper requires distinct tokens).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, log, pi, sin
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int

from byheart.data.dataset import Dataset, VectorSequences
from byheart.program.distinct_tokens import DistinctTokens

Indices: TypeAlias = Int[np.ndarray, " n_contexts"]
"""An array with one index for each context. Two such arrays tell where contexts are: one holds the indices of their samples, the
other their positions in these samples.
"""

Numbers: TypeAlias = Float[np.ndarray, " n_contexts"]

EPS = 2.0**-53
"""Half the distance from 1 to the next float64, which is the largest relative error of one rounding."""

MIDDLE = 1.5
"""Added to the projections of vectors, which lie between -1/2 and 1/2, to make token values between 1 and 2."""

Places: TypeAlias = Float[np.ndarray, "n_samples seq_len"]

_RANDOM_DIRECTIONS = 12
_LEAST_BETA, _LARGEST_BETA = 0.05, 60.0
_PLACES_TO_TRY = 4_000_000  # about how many attention scores a search computes, if this allows enough trials
_ANGLES_PER_BETA = 6
_FEWEST_TRIALS = 24


@dataclass(frozen=True, eq=False)
class TokenPlaces:
    """The values of the tokens of all sequences on a line, from about 1 to 2, and the rounding error of these values in floats.

    direction  the vector such that the value of a token is its inner product with this vector, plus 3/2; None if the values come
               from a table
    """

    values: Places
    error: float
    direction: Float[np.ndarray, " dim"] | None


def candidate_places(data: Dataset, tokens: DistinctTokens, rng: np.random.Generator) -> list[TokenPlaces]:
    """Return ways to give each token a value on a line, from about 1 to 2.

    For token ids there is one way, a table. For vectors there are several, each a projection along a candidate direction; only one
    if all vectors are zero.
    """
    if not isinstance(data.inputs, VectorSequences):
        line = tokens.points.coordinates[:, 0].astype(np.float64)
        values = 1 + line[tokens.sequences] / table_scale(tokens)
        return [TokenPlaces(values, 0.0, None)]  # the scale is a power of two, so nothing is rounded
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
            # d products and d sums, bounded by the sum of the products' magnitudes, and one rounding when 3/2 is added
            error = (len(direction) + 2) * EPS * float((np.abs(flat) @ np.abs(scaled)).max()) + 2 * EPS
            values = flat @ scaled + MIDDLE
        if np.isfinite(error) and np.isfinite(values).all():
            found.append(TokenPlaces(values.reshape(vectors.shape[:2]), error, scaled))
    if not found:  # every token is zero, or so close to zero that its scale overflows
        found.append(TokenPlaces(np.full(vectors.shape[:2], MIDDLE), 2 * EPS, np.zeros(flat.shape[1])))
    return found


def table_scale(tokens: DistinctTokens) -> float:
    """Return a power of two that exceeds the value of every token. Division by a power of two is exact."""
    largest = max(int(value) for (value,) in tokens.points.coordinates)
    return float(1 << largest.bit_length())


@dataclass(frozen=True, eq=False)
class SoftmaxIds:
    """An id for every context (a token in its sequence): place_weight · z + context_weight · c.

    z is the value of the token, and c the number that the softmax head computes for the token (`boltzmann`). The scores of the head
    have the factor `beta`, its sharpness.

    gap    the smallest difference between the ids of different contexts; 1 if there is only one context
    error  a bound on the difference between the exact id and the id that a float64 network computes, in any order of summation
    """

    places: TokenPlaces
    beta: float
    place_weight: float
    context_weight: float
    ids: Numbers
    gap: float
    error: float


def boltzmann(places: Places, beta: float) -> Places:
    """Compute c_k = Σ_l softmax_l(β z_k z_l) z_l for every token k of every sequence, where z_l is the value of token l."""
    scores = beta * places[:, :, None] * places[:, None, :]
    scores -= scores.max(axis=2, keepdims=True)
    weights = np.exp(scores)
    means: np.ndarray = np.einsum("skl,sl->sk", weights, places) / weights.sum(axis=2)
    return means


def theorem_beta(places: TokenPlaces) -> float:
    """Return the sharpness of attention that the theorem uses, (2 ln n + 3) / (g · v), for sequences of n tokens. Here v is the
    smallest value of a token, and g is the smallest difference between two values, or 1 if all values are equal.
    """
    distinct = np.unique(places.values)
    gap = float(np.diff(distinct).min()) if len(distinct) > 1 else 1.0
    return (2 * log(places.values.shape[1]) + 3) / (gap * float(distinct[0]))


def ids_for(places: TokenPlaces, samples: Indices, columns: Indices, beta: float, angle: float) -> SoftmaxIds:
    """Return the ids of the contexts at (samples, columns), for the sharpness `beta` of attention. `columns` are positions in the
    samples.

    `angle` sets the weights of the token's value and of the attention output in the id.
    """
    contexts = boltzmann(places.values, beta)[samples, columns]
    return _mix(places, places.values[samples, columns], contexts, beta, angle)


def _mix(places: TokenPlaces, own: Numbers, contexts: Numbers, beta: float, angle: float) -> SoftmaxIds:
    spread = float(np.ptp(contexts)) or 1.0
    place_weight, context_weight = cos(angle) / (float(np.ptp(own)) or 1.0), sin(angle) / spread
    ids = place_weight * own + context_weight * contexts
    gap = float(np.diff(np.sort(ids)).min()) if len(ids) > 1 else 1.0
    n_tokens = places.values.shape[1]
    largest = float(np.abs(places.values).max())
    # A score β·z·z' has the error of 3 roundings and of z and z'. A softmax weight has twice that as a relative error, and n + 4
    # roundings from its sum. c is a weighted mean of the values: it has the relative error of the weights, and at most n + 4
    # roundings more.
    score_error = beta * largest * (3 * EPS * largest + 2 * places.error)
    context_error = places.error + largest * (2 * score_error + (2 * n_tokens + 8) * EPS)
    error = abs(place_weight) * places.error + abs(context_weight) * context_error
    error += 4 * EPS * (abs(place_weight) + abs(context_weight)) * largest
    return SoftmaxIds(places, beta, place_weight, context_weight, ids, gap, error)


def find_sharpness(
    candidates: list[TokenPlaces], samples: Indices, columns: Indices, rng: np.random.Generator
) -> SoftmaxIds:
    """Return the ids with the largest ratio of gap (the smallest difference between two ids) to rounding error.

    An id is a weighted sum of the token's value and the attention output. Each trial takes the next of the `candidates`, a random
    sharpness β, and several choices of the two weights.
    """
    work = candidates[0].values.size * candidates[0].values.shape[1]
    n_trials = max(_FEWEST_TRIALS, min(300, _PLACES_TO_TRY // max(1, work)))
    best: SoftmaxIds | None = None
    for trial in range(n_trials):
        places = candidates[trial % len(candidates)]
        beta = float(np.exp(rng.uniform(log(_LEAST_BETA), log(_LARGEST_BETA))))
        own, contexts = places.values[samples, columns], boltzmann(places.values, beta)[samples, columns]
        for angle in (0.0, pi / 2, *rng.uniform(0, pi / 2, size=_ANGLES_PER_BETA)):
            found = _mix(places, own, contexts, beta, float(angle))
            if best is None or found.gap / found.error > best.gap / best.error:
                best = found
        # K random ids in a unit interval have a smallest gap of about 1/K²; further search would gain little
        if best is not None and trial >= len(candidates) and best.gap * len(samples) ** 2 >= 1:
            break
    assert best is not None
    return best
