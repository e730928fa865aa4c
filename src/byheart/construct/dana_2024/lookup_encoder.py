"""The encoder of DPC24 Theorem 2: almost a lookup table, with one nearly orthogonal direction per token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from byheart.construct.dana_2024.encoders import Labels, SequenceEncoder, Shares, Table
from byheart.program.circle import circle_points
from byheart.theorems import realises

_BISECTIONS = 200


@dataclass(frozen=True, eq=False)
class LookupEncoder:
    """An encoder with a direction W_j for each token j: it gives sequence t the direction of its likeliest token, scaled by λ_t.

    scales     λ_t for each sequence t
    coherence  max |W Wᵀ - I|, as measured, where the rows of W are the directions
    """

    encoder: SequenceEncoder
    scales: Shares
    coherence: float


def coherence_of(rows: Float[np.ndarray, "n_tokens dim"]) -> float:
    """Return max |W Wᵀ - I| for W = `rows`, which measures how far the rows are from orthonormal."""
    return float(np.abs(rows @ rows.T - np.eye(len(rows))).max())


def spread_rows(
    n_tokens: int, dim: int, rng: np.random.Generator, *, n_draws: int = 20
) -> Float[np.ndarray, "n_tokens dim"]:
    """Return unit rows that are as nearly orthogonal as the best of several candidates.

    The candidates are the points of `circle_points` if `dim` is at least 2, the rows of the identity if `dim` is at least
    `n_tokens`, and `n_draws` random matrices. The one with the least coherence (`coherence_of`) is returned.
    """
    candidates = [circle_points(n_tokens, dim)] if dim >= 2 else []
    if dim >= n_tokens:
        candidates.append(np.eye(n_tokens, dim))
    for _ in range(n_draws):
        rows = rng.standard_normal((n_tokens, dim))
        candidates.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return min(candidates, key=coherence_of)


@realises("DPC24-eq6")
def scale_for_entropy(entropy: float, differences: Float[np.ndarray, " n_tokens"], most: float) -> float:
    """Solve ln Σ_j exp(λ·differences_j) = `entropy` for λ, but return at most `most` (DPC24 eq. 6, with the sign of the
    entropy corrected).

    `differences` are (W_j - W_g)·W_g for all N tokens j, where W_j is the direction of token j and g the likeliest token. They
    are zero at g and negative elsewhere, so the left side decreases from ln N to 0 as λ grows.
    """

    def excess(scale: float) -> float:
        return float(np.log(np.exp(scale * differences).sum())) - entropy

    low, high = 0.0, min(1.0, most)
    while excess(high) > 0:
        if high == most:
            return most
        low, high = high, min(2 * high, most)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


@realises("DPC24-T2")
def lookup_encoder(
    probabilities: Table, rows: Float[np.ndarray, "n_outputs dim"], *, most: float = 1e4
) -> LookupEncoder:
    """Build the encoder of DPC24 Theorem 2: each sequence gets the row of its likeliest token in `rows`, scaled by a factor λ.

    Source:     DPC24 Theorem 2 and eq. (6), corrected: the entropy has a positive sign. If `rows` are unit vectors whose measured
                coherence is below 1/2, and `most` has its default, the divergence is at most `bounds.dana_2024.theorem_2` with
                that coherence, up to rounding.
    Departs:    a sequence whose entropy is 0 would need λ = ∞. It gets `most` instead.
    """
    likeliest: Labels = probabilities.argmax(axis=1)
    gram = rows @ rows.T
    safe = np.where(probabilities > 0, probabilities, 1.0)
    entropies = -(probabilities * np.log(safe)).sum(axis=1)
    pairs = zip(entropies.tolist(), likeliest, strict=True)
    scales = np.array([scale_for_entropy(entropy, gram[g] - gram[g, g], most) for entropy, g in pairs])
    return LookupEncoder(SequenceEncoder(rows, scales[:, None] * rows[likeliest]), scales, coherence_of(rows))


@realises("DPC24-D2", "DPC24-L4")
def approximating_encoder(probabilities: Table, delta: float) -> Table:
    """Return logits f_δ whose softmax approximates the distributions π = `probabilities` over N tokens, which may contain zeros.

    As δ → 0, these logits show that π is polynomially approximable (DPC24 Definition 2), in dimension N - 1.

    f_δ = log((π + ηρ)/(1 + η)) for a distribution ρ. Where π > 0, the error |log(π/softmax f_δ)| is |log(1 + η) - log(1 + ηρ/π)|,
    which is about η|1 - ρ/π|. η is the largest number up to 1 for which no error exceeds δ. So the error is at least a constant
    times δ wherever π differs from ρ, and the α of Definition 2 is 1. A uniform ρ would equal π where π = 1/N, and the lower bound
    in equation (16) of DPC24 would fail there. Therefore `_reference` chooses a ρ that differs from π everywhere.

    The spread of the logits (largest minus smallest) is O(log 1/δ) (Lemma 4). With this spread, the sequences that Theorem 3 leaves
    out, of total weight below ε, contribute an error of order ε log 1/ε.
    """
    reference = _reference(probabilities)
    is_seen = probabilities > 0
    ratios = (reference / np.where(is_seen, probabilities, 1.0))[is_seen]

    def error(eta: float) -> float:
        return float(np.abs(np.log1p(eta) - np.log1p(eta * ratios)).max())

    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) <= delta else (low, middle)
    return np.asarray(np.log((probabilities + low * reference) / (1 + low)))


_REFERENCES = 64


def _reference(probabilities: Table) -> Float[np.ndarray, " n_outputs"]:
    """Return a nearly uniform distribution that differs from `probabilities` at every entry.

    Several candidates are drawn. The candidate that is furthest from the entries of `probabilities` is returned.
    """
    n_outputs = probabilities.shape[1]
    rng = np.random.default_rng(0)
    drawn = rng.uniform(0.5, 1.5, (_REFERENCES, n_outputs))
    candidates = drawn / drawn.sum(axis=1, keepdims=True)
    seen = [probabilities[probabilities[:, token] > 0, token] for token in range(n_outputs)]

    def distance(reference: np.ndarray) -> float:
        return min(
            float(np.abs(1 - share / values).min(initial=1.0))
            for share, values in zip(reference, seen, strict=True)
        )

    return np.asarray(max(candidates, key=distance))


def spread_of(logits: Table) -> float:
    """Return the largest spread of any sequence: its largest logit minus its smallest one (Lemma 4)."""
    return float((logits.max(axis=1) - logits.min(axis=1)).max())
