"""Theorem 1 of Dana et al. 2024 as code: build an attention-only Transformer with the same logits as a given encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from byheart.construct.dana_2024.bigram_heads import SHARPNESS, bigram_heads
from byheart.construct.dana_2024.encoders import EncodedSequences, SequenceEncoder
from byheart.construct.dana_2024.heads import attention_features, draw_heads, select_heads, take_heads
from byheart.construct.dana_2024.size import heads_needed
from byheart.network.attention_only.architecture import AttentionOnly, AttentionOnlySpec
from byheart.network.protocol import Precision
from byheart.network.transformer.floats import DTYPES
from byheart.program.linear_solve import SolvedNetwork, solve_least_norm
from byheart.theorems import realises

SCORE_SPREADS = (1.0, 10.0, 100.0, 1000.0)
"""Candidate scales for the attention scores. No single scale is best for all dimensions and lengths."""

POOL = {"float64": 1.0, "float32": 1.6}
"""For each precision, the number of random heads that are drawn per head of the network. In float64, every head drawn is kept. In
float32, more heads are drawn than are needed, and those that are far from linearly dependent are selected. A network of one head,
and the heads of `bigram_heads`, are not selected."""

PSEUDO_INVERSE = 1e-12
"""Singular values of a matrix count as zero if they are below this fraction of the largest one. In the matrix B, for which
`interpolate` solves, such small singular values belong to dimensions that the encoder does not use."""

DRAWS = 5
WELL_CONDITIONED = 1e12
"""Heads are redrawn if the condition number of the linear system exceeds this, because by chance a few heads may all attend to
the same token."""

REFINEMENTS = 2
PROBE = 400
"""The number of sequences on which the scales of attention scores are compared, before the linear system of all sequences is
factored."""


@realises("DPC24-T1", "DPC24-C1")
def interpolate(
    encoded: EncodedSequences,
    n_vocab: int,
    encoder: SequenceEncoder,
    rng: np.random.Generator,
    *,
    score_spreads: Sequence[float] = SCORE_SPREADS,
    precision: Precision = "float64",
    head_dim: int = 1,
    ragged: bool = False,
    key_dim: int | None = None,
) -> SolvedNetwork[AttentionOnly]:
    """Build an attention-only Transformer whose logits on these T sequences are those of `encoder`.

    It has H heads of size d_h = `head_dim` in dimension d, with H·d_h + d >= T.

    Source:     DPC24 Theorem 1 with ε = 0 and γ = 0, Corollary 1; proof in Appendix A.2.
    Assumes:    distinct sequences of one length; d_h <= d.
    Guarantee:  the logits agree up to the returned residual, computed in float64 from the weights as they are stored.
    Departs:    the skip connection is part of the solution; the paper approximates it by a head. Let x_S be the vector of the last
                token and W_V A the outputs of the heads (`attention_features`). Let the logits of the encoder be W E, with its
                embeddings E and its unembedding W. With an unknown d × d matrix B, the equation B x_S + B W_O W_V A = E is linear
                in (B, B W_O). The unembedding is then W_U = W B. Heads and their scale are chosen by the condition number.
    """
    (n_outputs, dim), seq_len = encoder.unembedding.shape, encoded.shape[1]
    n_heads = heads_needed(len(encoded), dim, head_dim, len(np.unique(encoded[:, -1])))
    sizes = (n_vocab, seq_len, dim, n_heads, key_dim or head_dim, head_dim, dim, n_outputs)
    spec = AttentionOnlySpec(precision, *sizes, ragged=ragged)
    best: SolvedNetwork[AttentionOnly] | None = None
    for _ in range(DRAWS):
        found = _draw_and_solve(encoded, encoder, spec, score_spreads, rng)
        if best is None or found.condition < best.condition:
            best = found
        if best.condition < WELL_CONDITIONED:
            break
    assert best is not None
    return best


def _draw_and_solve(
    encoded: EncodedSequences,
    encoder: SequenceEncoder,
    spec: AttentionOnlySpec,
    score_spreads: Sequence[float],
    rng: np.random.Generator,
) -> SolvedNetwork[AttentionOnly]:
    n_heads, dim, head_dim = spec.n_heads, spec.dim, spec.value_dim
    n_pool = int(np.ceil(POOL[spec.precision] * n_heads)) if n_heads > 1 else n_heads
    is_pairs = (spec.seq_len, dim, head_dim, spec.key_dim) == (2, 2, 2, 2)
    if is_pairs and n_heads > 1 and not spec.ragged:
        spread, n_pool = SHARPNESS, n_heads
        drawn = bigram_heads(encoded, spec, rng)
    else:
        spread = _best_spread(encoded, spec, score_spreads, rng)
        drawn = draw_heads(replace(spec, n_heads=n_pool), spread, rng)
    features = attention_features(drawn, encoded)
    if n_pool > n_heads:
        chosen = select_heads(features, dim, head_dim, n_heads)
        drawn = take_heads(drawn, chosen)
        columns = dim + (chosen[:, None] * head_dim + np.arange(head_dim)).ravel()
        features = features[:, np.concatenate([np.arange(dim), columns])]
    network, condition = solve_for_outputs(drawn, features, encoder, rng)
    residual = float(np.abs(_logits(network, features) - encoder.logits).max(initial=0.0))
    return SolvedNetwork(network, condition, residual, {"score_spread": spread})


def solve_for_outputs(
    drawn: AttentionOnly,
    features: Float[np.ndarray, "n_sequences n_features"],
    encoder: SequenceEncoder,
    rng: np.random.Generator,
) -> tuple[AttentionOnly, float]:
    """Complete the network `drawn`, whose heads are random, with output matrices and an unembedding. Its logits are then those of
    `encoder`, up to rounding, if the rows of `features` are linearly independent.

    The output matrices solve a linear system. `features` has a row for each sequence of the encoder (see `attention_features`).
    Return the completed network and the condition number of the linear system.
    """
    solution, condition = solve_least_norm(features, encoder.embeddings, REFINEMENTS)
    skip = _with_full_skip(solution, features[:, : drawn.dim], rng)
    return _assemble(drawn, skip, encoder.unembedding), condition


def _best_spread(
    encoded: np.ndarray, spec: AttentionOnlySpec, spreads: Sequence[float], rng: np.random.Generator
) -> float:
    """Draw heads with each of `spreads`, the standard deviations of attention scores, and evaluate them on some of the sequences.
    Return the spread at which the outputs of the heads are furthest from linearly dependent.
    """
    if len(spreads) == 1:
        return spreads[0]
    sample = encoded[rng.permutation(len(encoded))[:PROBE]]
    n_heads = heads_needed(len(sample), spec.dim, spec.value_dim, len(np.unique(sample[:, -1])))
    probe = replace(spec, precision="float64", n_heads=n_heads)
    found = []
    for spread in spreads:
        sizes = np.linalg.svd(attention_features(draw_heads(probe, spread, rng), sample), compute_uv=False)
        found.append(sizes[-1] / sizes[0])
    return spreads[int(np.argmax(found))]


def _with_full_skip(
    solution: Float[np.ndarray, "n_features dim"],
    lasts: Float[np.ndarray, "n_sequences dim"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "n_features dim"]:
    """Return the solution with its matrix B replaced if necessary. In dimension d, the first d rows of the solution are Bᵀ.

    `lasts` are the vectors of the last tokens. The linear system does not determine what B does to vectors that are orthogonal to
    all of them. The new B maps each such vector, except 0, to a vector other than 0.
    """
    dim = lasts.shape[1]
    _, sizes, axes = np.linalg.svd(lasts, full_matrices=True)
    rank = int((sizes > PSEUDO_INVERSE * sizes.max(initial=0.0)).sum())
    if rank == dim:
        return solution
    unseen = axes[rank:].T @ axes[rank:]
    size = float(np.linalg.norm(solution[:dim], 2)) or 1.0
    changed = solution.copy()
    changed[:dim] += unseen @ np.linalg.qr(rng.standard_normal((dim, dim)))[0] * size
    return changed


def _assemble(drawn: AttentionOnly, solution: np.ndarray, unembedding: np.ndarray) -> AttentionOnly:
    """Return the network that a solution of the linear system describes. The solution holds Bᵀ in its first rows and (B W_O)ᵀ in
    the others (see `interpolate`).

    The output matrices of the heads are W_O, and the unembedding of the network is `unembedding` times B. Because the unembedding
    contains B, the skip connection needs no matrix of its own.
    """
    dim, head_dim = drawn.dim, int(drawn.value.shape[1])
    dtype = DTYPES[drawn.precision]
    skip = solution[:dim]  # Bᵀ
    outputs = solution[dim:].reshape(-1, head_dim, dim)  # (B W_O^h)ᵀ
    # B is singular where the encoder does not use all d dimensions. B W_O has zero rows there too, so B⁺ inverts it.
    own = np.linalg.pinv(skip.T, rcond=PSEUDO_INVERSE) @ outputs.transpose(0, 2, 1)
    return replace(drawn, output=own.astype(dtype), unembedding=(unembedding @ skip.T).astype(dtype))


def _logits(network: AttentionOnly, features: np.ndarray) -> np.ndarray:
    """Compute logits in float64 from the stored weights and from `features`, which `attention_features` computed before."""
    dim = network.dim
    outputs = network.output.astype(np.float64).transpose(0, 2, 1).reshape(-1, dim)
    stream = features[:, :dim] + features[:, dim:] @ outputs
    return np.asarray(stream @ network.unembedding.astype(np.float64).T)


def accuracy(network: AttentionOnly, encoded: np.ndarray, labels: np.ndarray, device: str = "cpu") -> float:
    """Return the share of sequences whose label has the largest logit in the native forward pass."""
    return float((network.compute_logits(encoded, device=device).argmax(axis=1) == labels).mean())
