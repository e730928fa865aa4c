"""DPC24 Corollary 2: with fewer heads than all sequences need, reach an accuracy at least as high as the corollary's bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from scipy.linalg import qr

from byheart.bounds.bound import Bound
from byheart.bounds.dana_2024 import AttentionOnlyShape, corollary_2
from byheart.construct.dana_2024.encoders import EncodedSequences, Labels, association_encoder
from byheart.construct.dana_2024.head_solver import SCORE_SPREADS, accuracy, solve_for_outputs
from byheart.construct.dana_2024.heads import attention_features, draw_heads
from byheart.errors import AssumptionViolated
from byheart.network.attention_only.architecture import AttentionOnly, AttentionOnlySpec
from byheart.theorems import realises

ATTEMPTS = 40
"""The maximum number of draws of the heads. Each draw reaches the bound with probability about one half, because the sequences
that are not memorised are answered as if at random."""


@dataclass(frozen=True, eq=False)
class PartialMemory:
    """A network, the indices `kept` of the sequences that it memorises, its accuracy on all sequences, and Corollary 2's bound."""

    network: AttentionOnly
    kept: Int[np.ndarray, " n_kept"]
    accuracy: float
    bound: Bound


@realises("DPC24-C2")
def memorise_in_part(
    encoded: EncodedSequences,
    labels: Labels,
    n_tokens: int,
    rng: np.random.Generator,
    *,
    n_heads: int,
    dim: int = 2,
    head_dim: int = 2,
) -> PartialMemory:
    """Build an attention-only Transformer of the given size whose accuracy is at least the bound of Corollary 2.

    Source:     DPC24 Corollary 2: H heads of size d_h in dimension d memorise H·d_h + d sequences. For each other sequence, the
                answer is right with probability 1/N, for N tokens.
    Assumes:    distinct sequences over `n_tokens` tokens; labels are tokens too (Assumption 1); d >= 2, as Corollary 2 needs.
    Guarantee:  the native forward pass measures the accuracy. A network is returned only if the accuracy reaches the bound and all
                `kept` sequences are right. The paper's bound holds in expectation over the labels that are not memorised, not for
                every data set. If none of `ATTEMPTS` draws of the heads gives such a network, `AssumptionViolated` is raised.
    Departs:    the sequences to memorise are chosen by QR with column pivoting, so that their features are far from linearly
                dependent. Heads are drawn again until the other sequences are answered correctly at least as often as
                expected by chance.
    """
    n_last = len(np.unique(encoded[:, -1]))
    shape = AttentionOnlyShape(n_tokens, encoded.shape[1], dim, head_dim, n_heads, n_last)
    bound = corollary_2(shape, len(encoded))
    spec = AttentionOnlySpec(
        "float64", n_tokens, encoded.shape[1], dim, n_heads, head_dim, head_dim, dim, n_tokens
    )
    n_kept, highest = min(shape.rank, len(encoded)), 0.0
    for attempt in range(ATTEMPTS):
        spread = SCORE_SPREADS[attempt % len(SCORE_SPREADS)]
        drawn = draw_heads(spec, spread, rng)
        features = attention_features(drawn, encoded)
        kept = np.sort(qr(features.T, mode="r", pivoting=True)[1][:n_kept])
        encoder = association_encoder(labels[kept], n_tokens, dim)
        network = solve_for_outputs(drawn, features[kept], encoder, rng)[0]
        found = PartialMemory(network, kept, accuracy(network, encoded, labels), bound)
        if found.accuracy >= bound.value and accuracy(network, encoded[kept], labels[kept]) == 1:
            return found
        highest = max(highest, found.accuracy)
    raise AssumptionViolated(
        f"with n_heads = {n_heads}, none of {ATTEMPTS} random draws of the heads gives a network that is right on all "
        f"{n_kept} sequences that it should memorise and on at least {float(bound.value):.2%} of all sequences. "
        "(This bound of Corollary 2 holds only on average over the labels of the other sequences.) "
        f"The highest accuracy on all sequences is {highest:.2%}.\n"
        "  Pass a generator with another seed, or a larger n_heads.",
        n_kept=n_kept,
        accuracy=highest,
    )
