"""Draw random heads and select some of them, so that the attention features, which are the outputs of the skip connection and of
all heads, have full rank (DPC24 Lemma 2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import qr

from byheart.construct.dana_2024.encoders import EncodedSequences
from byheart.network.attention_only.architecture import AttentionOnly, AttentionOnlySpec
from byheart.network.attention_only.module import AttentionOnlyModule
from byheart.network.batches import run_in_batches
from byheart.network.transformer.floats import DTYPES
from byheart.theorems import realises


def draw_heads(spec: AttentionOnlySpec, score_spread: float, rng: np.random.Generator) -> AttentionOnly:
    """Return a network with random embeddings and heads. Its output matrices and its unembedding are still zero.

    `spec.key_dim` is the rank of the query-key matrix of each head. The proof of DPC24 Lemma 2 uses rank 1.

    DPC24 Lemma 3 needs numbers that are not a root of any integer polynomial. Gaussian numbers satisfy this with probability 1.
    The attention scores of a head have a standard deviation of about `score_spread` times a random factor between 1/e and e. Each
    head has its own factor, which makes heads less similar: the features of similar heads would be nearly linearly dependent. Value
    matrices have orthonormal rows.
    """
    size = score_spread * np.exp(rng.uniform(-1, 1, (spec.n_heads, 1, 1)))
    # a score is a sum of d² products of embeddings (variance 2) and entries of W_Qᵀ W_K, sums of key_dim products
    size = np.sqrt(size / (2 * spec.dim * np.sqrt(spec.key_dim)))
    value = np.linalg.qr(rng.standard_normal((spec.n_heads, spec.dim, spec.value_dim)))[0].transpose(0, 2, 1)
    weights = {name: np.zeros(shape) for name, shape in spec.shapes()} | {"value": value}
    for name, scale in (("embedding.tokens", 1), ("embedding.positions", 1), ("query", size), ("key", size)):
        weights[name] = rng.standard_normal(weights[name].shape) * scale
    return spec.build((array.astype(DTYPES[spec.precision]) for array in weights.values()), {})


@realises("DPC24-L2")
def attention_features(
    network: AttentionOnly, encoded: EncodedSequences
) -> Float[np.ndarray, "n_sequences n_features"]:
    """Return a row for each sequence: the skip connection and the output of every head, in float64, from the stored weights.

    DPC24 Lemma 2 (repaired): for generic heads the T rows have rank min(T, H·min(d, d_h) + min(d, L)), with H heads of size d_h in
    dimension d, if the sequences have more than one token and end in L distinct tokens.
    """
    module = AttentionOnlyModule(network).double().eval()
    per_sample = network.n_heads * max(network.seq_len, network.dim)
    return run_in_batches(module.features, encoded, per_sample).astype(np.float64)


def take_heads(network: AttentionOnly, chosen: Int[np.ndarray, " n_chosen"]) -> AttentionOnly:
    parts = {name: getattr(network, name)[chosen] for name in ("query", "key", "value", "output")}
    return replace(network, **parts)


def select_heads(
    features: Float[np.ndarray, "n_sequences n_features"], dim: int, head_dim: int, n_wanted: int
) -> Int[np.ndarray, " n_wanted"]:
    """Select `n_wanted` heads whose features are far from linearly dependent, by QR with column pivoting. Return their indices.

    The first `dim` columns of `features` belong to the skip connection, and the next ones to the heads, `head_dim` to each. QR
    chooses the columns one after the other, those of the skip connection first. The heads whose last column is chosen earliest
    are selected.
    """
    skip, rest = features[:, :dim], features[:, dim:]
    basis = np.linalg.qr(skip)[0]
    pivots = qr(rest - basis @ (basis.T @ rest), mode="r", pivoting=True, check_finite=False)[1]
    rank = np.empty(len(pivots), dtype=np.int64)
    rank[pivots] = np.arange(len(pivots))
    worst = np.sort(rank.reshape(-1, head_dim), axis=1)
    order = np.lexsort(tuple(worst[:, column] for column in range(head_dim)))
    return np.sort(order[:n_wanted])
