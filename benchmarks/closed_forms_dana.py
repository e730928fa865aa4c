"""DPC24's sections of the closed forms' benchmark: bigrams at equality, the compact mode, encoders."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from closed_forms_shared import Row, bigrams_of, timed

from byheart.construct.dana_2024.compact import fit_compact
from byheart.construct.dana_2024.encoders import association_encoder, best_encoder, rank_lower_bound
from byheart.construct.dana_2024.head_solver import interpolate
from byheart.network.attention_only.architecture import AttentionOnlySpec

Case = tuple[int, int, int, int]
"""(tokens, length of a sequence, d, d_h)"""


def bigrams(long: bool) -> Iterator[Row]:
    """Attention-only at equality H·d_h + d = T: 2,500 sequences for S = 2, 16, 64; `--long`: 10,000 bigrams."""
    cases: list[Case] = [(50, 2, 2, 2), (50, 2, 10, 10), (50, 16, 10, 10), (50, 64, 10, 10)]
    if long:
        cases += [(50, 16, 2, 1), (50, 64, 2, 1), (100, 2, 2, 2), (100, 2, 10, 10)]
    for case in cases:
        for precision in ("float64", "float32"):
            yield _at_equality(case, precision)


def _at_equality(case: Case, precision: str) -> Row:
    n_tokens, seq_len, dim, head_dim = case
    rng = np.random.default_rng(0)
    ids = bigrams_of(n_tokens) if seq_len == 2 else rng.integers(0, n_tokens, (n_tokens**2, seq_len))
    labels = rng.integers(0, n_tokens, len(ids))
    encoder = association_encoder(labels, n_tokens, dim)
    found, seconds = timed(
        lambda: interpolate(ids, n_tokens, encoder, rng, head_dim=head_dim, precision=precision)
    )
    right = found.network.compute_logits(ids).argmax(axis=1) == labels
    return {
        "N": n_tokens,
        "S": seq_len,
        "d": dim,
        "d_h": head_dim,
        "H": found.network.n_heads,
        "rank": found.network.n_heads * head_dim + dim,
        "sequences": len(ids),
        "precision": precision,
        "accuracy": float(right.mean()),
        "condition": found.condition,
        "seconds": round(seconds, 1),
    }


def compact(long: bool, n_seeds: int = 5) -> Iterator[Row]:
    """All 2,500 bigrams with at most 13,020 parameters over five seeds; `--long`: 10,000 bigrams (a GPU is far faster)."""
    cases = [(50, 10, 30, seed) for seed in range(n_seeds)]
    if long:
        cases.append((100, 14, 80, 0))
    for n_tokens, dim, n_heads, seed in cases:
        rng = np.random.default_rng(seed)
        ids = bigrams_of(n_tokens)
        labels = rng.integers(0, n_tokens, len(ids))
        spec = AttentionOnlySpec("float32", n_tokens, ids.shape[1], dim, n_heads, dim, dim, dim, n_tokens)
        fit = fit_compact(ids, labels, spec, rng, max_evaluations=1500)
        yield {
            "N": n_tokens,
            "d": dim,
            "H": n_heads,
            "parameters": sum(weights.size for _, weights in fit.network.parameters()),
            "seed": seed,
            "accuracy": fit.accuracy,
            "evaluations": fit.evaluations,
            "seconds": round(fit.seconds, 1),
        }


def encoders(long: bool) -> Iterator[Row]:
    """The best rank-d encoder (N = 50, 400 sequences, d = 5) by default starts against the best of 20, and the lower bound."""
    rng = np.random.default_rng(0)
    cases = {
        "near-uniform": rng.dirichlet(np.full(50, 20.0), 400),
        "sparse": rng.dirichlet(np.full(50, 0.2), 400) * 0.99 + 0.01 / 50,
        "lookup": (np.eye(50)[rng.integers(0, 50, 400)] + 0.002) / 1.1,
    }
    weights = np.full(400, 1 / 400)
    for name, p in cases.items():
        few, seconds = timed(lambda p=p: best_encoder(p, weights, 5, np.random.default_rng(1)))
        many, longer = timed(
            lambda p=p: best_encoder(p, weights, 5, np.random.default_rng(2), n_random_starts=19)
        )
        yield {
            "case": name,
            "d": 5,
            "kl": few.divergence,
            "best_of_20_restarts": min(many.by_start),
            "above_it": few.divergence - min(many.by_start),
            "best_of_20_with_hops": many.divergence,
            "lower_bound": rank_lower_bound(p, weights, 5),
            "seconds": round(seconds, 1),
            "seconds_20": round(longer, 1),
        }
