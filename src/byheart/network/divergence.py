"""The divergence of logits from given distributions, computed without cancellation."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return log softmax of every row, in float64. A row becomes NaN, without a warning, if it
    contains +∞ or NaN or nothing but -∞.
    """
    wide = np.asarray(logits, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # inf - inf
        shifted = wide - wide.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def divergences(
    rows: Int[np.ndarray, " n_entries"],
    columns: Int[np.ndarray, " n_entries"],
    probabilities: Float[np.ndarray, " n_entries"],
    logits: np.ndarray,
) -> Float[np.ndarray, " n_rows"]:
    """Return KL(p_i ‖ softmax(logits_i)) in nats for each row i of `logits`. p is sparse: p[rows[e], columns[e]] =
    probabilities[e].

    Let q = softmax(logits_i), and δ = log q - log p where p > 0. Then KL is the sum of p (e^δ - 1 - δ) where p > 0, plus the
    sum of q where p = 0. No term is negative, so this distinguishes a divergence of 1e-20 from zero. In the usual formula,
    Σ p (log p - log q), rounding errors would hide such a divergence.
    """
    log_q = log_softmax(logits)
    delta = log_q[rows, columns] - np.log(probabilities)
    n_rows = len(log_q)
    on_support = np.bincount(rows, weights=probabilities * (np.expm1(delta) - delta), minlength=n_rows)
    log_q[rows, columns] = -np.inf
    return np.asarray(np.maximum(on_support, 0.0) + np.exp(log_q).sum(axis=1))
