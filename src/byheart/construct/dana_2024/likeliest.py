"""DPC24 Theorems 1 and 3 with ε > 0: store only the likeliest sequences, and bound the error on the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from byheart.construct.dana_2024.encoders import (
    EncodedSequences,
    SequenceEncoder,
    Shares,
    Table,
    encoder_divergence,
    encoder_of_logits,
)
from byheart.construct.dana_2024.head_solver import interpolate
from byheart.construct.dana_2024.lookup_encoder import approximating_encoder
from byheart.errors import UsageError
from byheart.network.attention_only.architecture import AttentionOnly
from byheart.theorems import realises


@realises("DPC24-T1")
def likeliest_sequences(weights: Shares, epsilon: float) -> Int[np.ndarray, " n_kept"]:
    """Return the indices of the likeliest sequences: the fewest whose weights add up to more than 1 - `epsilon` of the total.

    DPC24 calls the number of these sequences T_ε. If `epsilon` is 0, return the indices of all sequences whose weight is not zero.
    """
    order = np.argsort(-weights, kind="stable")
    if epsilon <= 0:
        return order[weights[order] > 0]
    reached = np.cumsum(weights[order]) / weights.sum()
    return order[: int(np.searchsorted(reached, 1 - epsilon, side="right")) + 1]


@dataclass(frozen=True, eq=False)
class LikeliestMemory:
    """A network that has the encoder's logits on the sequences `kept`, and measurements of it on all sequences.

    divergence          the weighted mean of KL(π ‖ network) over all sequences, where π are the distributions of the data and the
                        native forward pass gives those of the network
    encoder_divergence  the weighted mean of KL(π ‖ encoder) over all sequences
    constant            C of Theorem 1: twice the largest difference between the logits of network and encoder on a sequence
                        left out, divided by ‖WE‖
    scale               ‖WE‖: the largest absolute value of the encoder's logits, or 1 if all of them are 0
    gamma               γ of Theorem 1: twice the largest difference between the logits of network and encoder on `kept`
    """

    network: AttentionOnly
    kept: Int[np.ndarray, " n_kept"]
    divergence: float
    encoder_divergence: float
    constant: float
    scale: float
    gamma: float

    def ceiling(self, epsilon: float) -> float:
        """Return the upper bound of DPC24 Theorem 1 on the divergence: encoder_divergence + constant · epsilon · scale + gamma.

        `epsilon` must not be smaller than the one with which the network was built.
        """
        return self.encoder_divergence + self.constant * epsilon * self.scale + self.gamma


@realises("DPC24-T1")
def memorise_likeliest(
    encoded: EncodedSequences,
    probabilities: Table,
    weights: Shares,
    encoder: SequenceEncoder,
    rng: np.random.Generator,
    *,
    epsilon: float,
    n_vocab: int,
    head_dim: int = 1,
) -> LikeliestMemory:
    """Build an attention-only Transformer whose divergence from `probabilities` is close to the divergence of `encoder`.

    It has H heads of size d_h in dimension d, with H·d_h + d >= T_ε, the number of `likeliest_sequences`. The two divergences
    differ by at most C·ε·‖WE‖ + γ (see `LikeliestMemory`). The encoder may have any dimension d.

    Source:     DPC24 Theorem 1. Use `best_encoder` to get the encoder of least divergence.
    Assumes:    distinct sequences of one length, weights that sum to 1, d_h <= d. The dimension d may be below N - 1, for N
                output tokens.
    Guarantee:  the divergence is at most `ceiling(epsilon)`. If two rows of logits differ by at most x, the divergences of a
                sequence under them differ by at most 2x, and the sequences left out have a total weight below ε (eq. 14).
    Departs:    C is computed from the network as the smallest constant for which the proof works. The paper has a fixed C.
    """
    kept = likeliest_sequences(weights, epsilon)
    chosen = SequenceEncoder(encoder.unembedding, encoder.embeddings[kept])
    network = interpolate(encoded[kept], n_vocab, chosen, rng, head_dim=head_dim).network
    logits = network.compute_logits(encoded).astype(np.float64)
    missed = np.abs(logits - encoder.logits).max(axis=1)
    is_left = np.ones(len(encoded), dtype=bool)
    is_left[kept] = False
    scale = float(np.abs(encoder.logits).max()) or 1.0
    return LikeliestMemory(
        network,
        kept,
        encoder_divergence(probabilities, weights, logits),
        encoder_divergence(probabilities, weights, encoder.logits),
        2 * float(missed[is_left].max(initial=0.0)) / scale,
        scale,
        2 * float(missed[kept].max(initial=0.0)),
    )


@realises("DPC24-T3", "DPC24-D2")
def memorise_approximately(
    encoded: EncodedSequences,
    probabilities: Table,
    weights: Shares,
    rng: np.random.Generator,
    *,
    epsilon: float,
    n_vocab: int,
    head_dim: int = 1,
) -> LikeliestMemory:
    """Store the distributions of the `likeliest_sequences`, with logits of size O(log 1/ε) (DPC24 Theorem 3).

    The distributions may contain zeros. `epsilon` must be above 0.

    Source:     DPC24 Theorem 3. This is Theorem 1, applied to the encoder f_ε of Definition 2 (`approximating_encoder`), whose
                dimension is the number of output tokens minus 1.
    Guarantee:  as for `memorise_likeliest`. The largest logit ‖WE‖ is O(log 1/ε) by Lemma 4, so the divergence is at most
                ε + C·ε·O(log 1/ε) + γ, with C and γ of Theorem 1 (see `LikeliestMemory`).
    """
    if not epsilon > 0:
        raise UsageError(f"epsilon must be above 0; got {epsilon:g}.", epsilon=epsilon)
    encoder = encoder_of_logits(approximating_encoder(probabilities, epsilon))
    return memorise_likeliest(
        encoded, probabilities, weights, encoder, rng, epsilon=epsilon, n_vocab=n_vocab, head_dim=head_dim
    )
