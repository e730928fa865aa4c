"""The encoder of DPC24 Theorem 2: nearly a lookup table, along nearly orthogonal directions."""

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
    """f(t) = λ_t W W_g(t): scaled towards the likeliest token.

    coherence: max |W Wᵀ - I|, as measured
    """

    encoder: SequenceEncoder
    scales: Shares
    coherence: float


def coherence_of(rows: Float[np.ndarray, "n_tokens dim"]) -> float:
    """max |W Wᵀ - I|: how far the rows are from orthonormal."""
    return float(np.abs(rows @ rows.T - np.eye(len(rows))).max())


def spread_rows(
    n_tokens: int, dim: int, rng: np.random.Generator, *, n_draws: int = 20
) -> Float[np.ndarray, "n_tokens dim"]:
    """Unit rows of small coherence: the best of random ones and of points on circles."""
    candidates = [circle_points(n_tokens, dim)] if dim >= 2 else []
    if dim >= n_tokens:
        candidates.append(np.eye(n_tokens, dim))
    for _ in range(n_draws):
        rows = rng.standard_normal((n_tokens, dim))
        candidates.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return min(candidates, key=coherence_of)


@realises("DPC24-eq6")
def scale_for_entropy(entropy: float, differences: Float[np.ndarray, " n_tokens"], most: float) -> float:
    """λ with ln Σ_j exp(λ·differences_j) = `entropy`, at most `most` (DPC24 eq. 6, with the entropy's sign repaired).

    `differences` are (W_j - W_g)·W_g: zero at g and negative elsewhere, so the left side falls from ln N to 0.
    """

    def excess(scale: float) -> float:
        return float(np.log(np.exp(scale * differences).sum())) - entropy

    low, high = 0.0, 1.0
    while excess(high) > 0 and high < most:
        low, high = high, 2 * high
    if high >= most:
        return most
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


@realises("DPC24-T2")
def lookup_encoder(
    probabilities: Table, rows: Float[np.ndarray, "n_outputs dim"], *, most: float = 1e4
) -> LookupEncoder:
    """The encoder of Theorem 2 for rows W of dimension d: each sequence points to its likeliest token.

    Source:     DPC24 Theorem 2 and eq. (6), repaired: the entropy is taken positive. Its divergence is at most
                `bounds.dana_2024.theorem_2` with the measured coherence, where that is below 1/2.
    Departs:    a sequence without entropy would need λ = ∞; it gets `most`.
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
    """Logits f_δ of a sequence of encoders that makes any π polynomially approximable (Definition 2), in dimension N - 1.

    log((π + ηρ)/(1 + η)) for a distribution ρ, with η chosen so that |log(π/softmax f_δ)| is exactly δ at worst on the support. At
    an entry it is |log(1 + η) - log(1 + ηρ/π)|, about η|1 - ρ/π|, so at least a constant times δ (α = 1) wherever π is not ρ:
    `_reference` takes care of that, where the uniform ρ would meet π = 1/N and leave nothing for the lower half of (16). The
    spread of logits is O(log 1/δ) (Lemma 4): it is what Theorem 3 pays for the sequences it leaves out, ε log 1/ε.
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
    """A nearly uniform distribution that shares no entry with `probabilities`: of several, the one furthest from all."""
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
    """max - min of the logits of a sequence, at worst (Lemma 4)."""
    return float((logits.max(axis=1) - logits.min(axis=1)).max())
