"""Sequence encoders: a matrix W and a vector E(t) of dimension d for each sequence t, with the logits W·E(t) (Dana et al. 2024,
sections 3 and 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int

from byheart.errors import AssumptionViolated, UsageError
from byheart.network.divergence import divergences
from byheart.program.circle import circle_points
from byheart.theorems import realises

Table: TypeAlias = Float[np.ndarray, "n_sequences n_outputs"]
"""A probability or a logit for every token after every sequence."""

Shares: TypeAlias = Float[np.ndarray, " n_sequences"]
"""The relative frequency of each sequence."""

EncodedSequences: TypeAlias = Int[np.ndarray, "n_sequences seq_len"]
"""Token ids, padded on the left."""

Labels: TypeAlias = Int[np.ndarray, " n_sequences"]
"""The token that follows each sequence."""


@realises("DPC24-D1")
@dataclass(frozen=True, eq=False)
class SequenceEncoder:
    """An encoder, which gives sequence t the logits f(t) = W E(t).

    The unembedding W has a row for each of N tokens, and the embeddings E have a row for each of T sequences.
    """

    unembedding: Float[np.ndarray, "n_outputs dim"]
    embeddings: Float[np.ndarray, "n_sequences dim"]

    @property
    def logits(self) -> Table:
        return np.asarray(self.embeddings @ self.unembedding.T)


@realises("DPC24-A1")
def association_encoder(labels: Labels, n_tokens: int, dim: int) -> SequenceEncoder:
    """Return an encoder whose most likely token after each sequence is the label of the sequence (Proposition 3).

    The unembedding W has a point on a circle for each token, and the embedding of a sequence is the point of its label. This works
    for any number of tokens and any dimension of at least 2. Raise `UsageError` if the dimension is 1.
    """
    points = circle_points(n_tokens, dim)
    return SequenceEncoder(points, points[labels])


@realises("DPC24-A2")
def full_support(probabilities: Table, delta: float) -> Table:
    """Return (π + δ)/(1 + Nδ) for probabilities π over N tokens and δ = `delta`.

    If δ > 0, the result has full support: no probability is 0 (Assumption 2).

    Section 4 of Dana et al. 2024 smooths associations in this way.
    """
    return np.asarray((probabilities + delta) / (1 + probabilities.shape[1] * delta))


@realises("DPC24-A2")
def require_full_support(probabilities: Table) -> None:
    """Reject probabilities of zero, which no softmax can produce (Assumption 2)."""
    if (probabilities > 0).all():
        return
    sequence, token = (int(at) for at in np.argwhere(~(probabilities > 0))[0])
    raise AssumptionViolated(
        f"token {token} follows sequence {sequence} with probability {probabilities[sequence, token]:g}, but Assumption 2 "
        "of Dana et al. 2024 requires that no probability is 0.\n"
        "  Smooth the probabilities with full_support(probabilities, delta), or use approximating_encoder.",
        sequence=sequence,
        token=token,
    )


def encoder_divergence(probabilities: Table, weights: Shares, logits: Table) -> float:
    """Return Σ_t w_t KL(π_t ‖ softmax f(t)) in nats, for probabilities π, weights w and logits f."""
    rows, columns = np.nonzero(probabilities)
    found = divergences(rows, columns, probabilities[rows, columns], logits)
    return float(weights @ found)


HOPS = 16
HOP_SIZES = (1.0, 0.1)
"""Step lengths of the random hops in the search for the best encoder, in standard deviations of its weights."""


@dataclass(frozen=True, eq=False)
class BestEncoder:
    """The best encoder that was found, and its divergence.

    `by_start` has the divergence that the optimiser reached from each starting point. The values may differ, because a starting
    point may lead to a local minimum. The random hops with which `best_encoder` continues are not included.
    """

    encoder: SequenceEncoder
    divergence: float
    by_start: tuple[float, ...]


@realises("DPC24-L1", "DPC24-P1")
def best_encoder(
    probabilities: Table,
    weights: Shares,
    dim: int,
    rng: np.random.Generator,
    *,
    n_random_starts: int = 3,
    max_evaluations: int = 2000,
) -> BestEncoder:
    """Search for the encoder of dimension d = `dim` with the least divergence from `probabilities` (see `encoder_divergence`).

    L-BFGS optimises the embeddings E and the unembedding W jointly, with analytic gradients.

    Source:     DPC24 Lemma 1: under full support (Assumption 2) the minimum exists.
    Guarantee:  the result is only an upper bound on the least divergence, because the problem is not convex.

    The search starts from the best rank-d approximation of the centred log π, for probabilities π, and from random points. Each
    sequence counts with its weight, which must be positive. Unless at least three of these starting points give the lowest
    divergence, the search then makes random hops from the best encoder so far: long hops to leave shallow minima, and short hops
    to leave flat regions.
    """
    require_full_support(probabilities)
    _require_positive(weights)
    # equal rows have equal best embeddings
    merged, place = np.unique(probabilities, axis=0, return_inverse=True)
    place = place.reshape(-1)
    share = np.bincount(place, weights=weights, minlength=len(merged))
    found: list[SequenceEncoder] = []
    values: list[float] = []

    def descend(e: np.ndarray, w: np.ndarray) -> None:
        found.append(_descend(merged, share, e, w, max_evaluations))
        values.append(encoder_divergence(merged, share, found[-1].logits))

    log_p = np.log(merged)
    centred = log_p - log_p.mean(axis=1, keepdims=True)
    scale = np.sqrt(share)[:, None]
    left, sizes, right = np.linalg.svd(centred * scale, full_matrices=False)
    root = np.sqrt(sizes[:dim])
    # the rank can be smaller than the dimension: the other columns are zero
    rest = ((0, 0), (0, dim - len(root)))
    descend(np.pad(left[:, :dim] * root / scale, rest), np.pad(right[:dim].T * root, rest))
    size = float(np.sqrt(np.abs(centred).mean()))
    for _ in range(n_random_starts):
        descend(*(size * rng.standard_normal((n, dim)) for n in log_p.shape))
    by_start = tuple(values)
    for hop in range(0 if _agree(values) else HOPS):
        best = found[int(np.argmin(values))]
        step = HOP_SIZES[hop % len(HOP_SIZES)]
        parts = (best.embeddings, best.unembedding)
        descend(*(part + step * part.std() * rng.standard_normal(part.shape) for part in parts))
    best = found[int(np.argmin(values))]
    return BestEncoder(SequenceEncoder(best.unembedding, best.embeddings[place]), min(values), by_start)


def _require_positive(weights: Shares) -> None:
    """Reject weights that are not positive. Without a weight, the embedding of a sequence has no influence on the divergence."""
    if (weights > 0).all():
        return
    sequence = int(np.argmin(weights > 0))
    raise UsageError(
        f"sequence {sequence} has the weight {weights[sequence]:g}, but every weight must be positive.\n"
        "  Leave out sequences without a weight.",
        sequence=sequence,
        weight=float(weights[sequence]),
    )


def _agree(values: list[float]) -> bool:
    """Return whether at least three of the `values` equal the lowest. There is one value for each start of the search.

    If so, the search probably did not stop at a shallow local minimum.
    """
    return sum(value - min(values) < 1e-7 for value in values) >= 3


def _descend(
    probabilities: np.ndarray, weights: np.ndarray, e: np.ndarray, w: np.ndarray, max_evaluations: int
) -> SequenceEncoder:
    from scipy.optimize import minimize  # importing it takes a second

    n_sequences, dim = e.shape
    share = weights[:, None]

    def parts(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return flat[: n_sequences * dim].reshape(-1, dim), flat[n_sequences * dim :].reshape(-1, dim)

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        embeddings, unembedding = parts(flat)
        logits = embeddings @ unembedding.T
        logits -= logits.max(axis=1, keepdims=True)
        q = np.exp(logits)
        sums = q.sum(axis=1, keepdims=True)
        q /= sums
        loss = float((share * probabilities * (np.log(sums) - logits)).sum())
        error = share * (q - probabilities)
        return loss, np.concatenate([(error @ unembedding).ravel(), (error.T @ embeddings).ravel()])

    found = minimize(
        loss_and_gradient,
        np.concatenate([e.ravel(), w.ravel()]),
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": 12, "ftol": 1e-15, "gtol": 1e-9}
        | dict.fromkeys(("maxfun", "maxiter"), max_evaluations),
    )
    embeddings, unembedding = parts(found.x)
    return SequenceEncoder(unembedding.copy(), embeddings.copy())


@realises("DPC24-P2")
def full_rank_encoder(probabilities: Table) -> SequenceEncoder:
    """Return an exact encoder in dimension N - 1, for probabilities π over N tokens (Proposition 2).

    Its logits are log π, minus the last token's log π.
    """
    require_full_support(probabilities)
    return encoder_of_logits(np.log(probabilities))


def encoder_of_logits(logits: Table, dim: int | None = None) -> SequenceEncoder:
    """Return an encoder with these logits, up to one constant per sequence. By default its dimension is N - 1 for N tokens.

    For T sequences, dimension T also suffices, with one axis for each sequence.
    """
    n_outputs, n_sequences = logits.shape[1], len(logits)
    dim = n_outputs - 1 if dim is None else dim
    shifted = logits - logits[:, -1:]
    if dim < n_outputs - 1:
        assert dim >= n_sequences, (
            "dim must be at least the number of sequences, or the number of tokens minus 1"
        )
        unembedding = np.zeros((n_outputs, dim))
        unembedding[:, :n_sequences] = shifted.T
        return SequenceEncoder(unembedding, np.eye(n_sequences, dim))
    embeddings = np.zeros((n_sequences, dim))
    embeddings[:, : n_outputs - 1] = shifted[:, :-1]
    return SequenceEncoder(np.eye(n_outputs, dim), embeddings)


@realises("DPC24-P1", "DPC24-P2")
def rank_lower_bound(probabilities: Table, weights: Shares, dim: int) -> float:
    """Return a lower bound on the divergence, in nats, of every encoder of dimension d, if no probability is 0.

    Here π are the `probabilities`, w the `weights`, d = `dim`, and q the probabilities that the encoder gives. The matrix log q
    has rank at most d + 1. Let δ = log q - log π and φ(x) = e^x - 1 - x. The divergence is Σ w_t π_tj φ(δ_tj) >= Σ a_t b_j
    φ(δ_tj) with a_t = w_t and b_j = min_t π_tj. Scaling rows and columns keeps the rank, so Σ a_t b_j δ_tj² >= τ, the sum of
    the squared singular values of (√(a_t b_j) log π_tj) beyond the first d + 1. For x >= 0, φ(-x)/x² decreases, φ(-x)
    increases, and φ(-x) <= φ(x). So with m = min a_t b_j the sum is smallest if a single entry accounts for all of τ, which
    gives m φ(-√(τ/m)).

    The bound is valid up to the rounding of the singular values. It is loose for distributions with small entries.
    """
    require_full_support(probabilities)
    smallest = probabilities.min(axis=0)
    scaled = np.sqrt(np.outer(weights, smallest)) * np.log(probabilities)
    sizes = np.linalg.svd(scaled, compute_uv=False)
    tail = float((sizes[dim + 1 :] ** 2).sum())
    least = float(weights.min() * smallest.min())
    if tail <= 0 or least <= 0:
        return 0.0
    x = np.sqrt(tail / least)
    return float(least * (np.expm1(-x) + x))
