"""Training targets: the distribution of the tokens that follow each context, and finite logits that approximate these
distributions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int

from byheart.data.dataset import Dataset
from byheart.data.row_groups import group_rows, representatives
from byheart.data.sequences import TokenSequences
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.divergence import divergences

EncodedContexts: TypeAlias = Int[np.ndarray, "n_contexts seq_len"]
"""Token ids of every context, padded on the left."""

Logits: TypeAlias = Float[np.ndarray, "n_contexts n_outputs"]

LOGIT_MARGIN = {"float64": 40.0, "float32": 22.0}
"""The argument `margin` of `NextTokenTargets.logits` for each precision: the number that is added to the logits of the tokens
that can follow a context. With these logits, the divergence from the data is about ω·e^-margin, where ω is the size of the
vocabulary."""

ALLOWED_DIVERGENCE = 1e-3
"""The largest allowed divergence in nats, for one context, of the model's distribution from the data. With the float32 logits of
`LOGIT_MARGIN` and a vocabulary of a few thousand tokens, the divergence is about a thousandth of this."""


@dataclass(frozen=True, eq=False)
class NextTokenTargets:
    """The distinct contexts, and for each the probabilities of the tokens that follow it, as sparse rows.

    counts  how often each context occurs; this is its weight in the loss

    The other three arrays are parallel: token `next_tokens[e]` follows context `rows[e]` with probability `probabilities[e]`.
    """

    contexts: TokenSequences
    counts: Int[np.ndarray, " n_contexts"]
    rows: Int[np.ndarray, " n_entries"]
    next_tokens: Int[np.ndarray, " n_entries"]
    probabilities: Float[np.ndarray, " n_entries"]
    n_outputs: int

    def __len__(self) -> int:
        return len(self.contexts)

    def logits(self, margin: float) -> Logits:
        """Return the logits of every context: log π̂ + `margin` for each token of probability π̂ > 0, and 0 for the other tokens.

        These logits are finite, and their softmax differs from π̂ by at most (ω - s)·e^-margin, where ω is the size of the
        vocabulary and s the number of tokens of positive probability. Among the tokens with π̂ > 0, the margin cancels in the
        softmax, so their probabilities keep the ratios of π̂. Each other token gets a probability of about e^-margin.
        """
        table = np.zeros((len(self), self.n_outputs))
        table[self.rows, self.next_tokens] = np.log(self.probabilities) + margin
        return table

    def divergences(self, logits: Logits) -> Float[np.ndarray, " n_contexts"]:
        """Return KL(π̂_i ‖ softmax(logits_i)) in nats for every context i, where π̂_i are its target probabilities."""
        return divergences(self.rows, self.next_tokens, self.probabilities, logits)

    @property
    def entropy_nats(self) -> float:
        """The entropy of the targets in nats, summed over all occurrences of the contexts.

        It is the smallest loss that any model can have (MFT24 Lemma 2).
        """
        weight = self.counts[self.rows] * self.probabilities
        return float(-(weight * np.log(self.probabilities)).sum())

    def gap_nats(self, divergence: Float[np.ndarray, " n_contexts"]) -> float:
        """Return the loss minus the entropy in nats, summed over all occurrences: Σ counts[i] · divergence[i]."""
        return float(self.counts @ divergence)


def targets_of(data: Dataset) -> NextTokenTargets:
    """Return the contexts of `data` and their targets.

    For the task `distribution`, contexts are all prefixes of documents. For `next-token`, they are the distinct sequences.
    """
    if not isinstance(data.inputs, TokenSequences):
        raise AssumptionViolated(
            "this construction embeds token ids, but these inputs are vectors.\n"
            "  Choose a construction for vectors, such as kajitsuka-sato-2025."
        )
    if data.task == "distribution":
        found = data.contexts()
        return NextTokenTargets(
            found.as_sequences(),
            found.counts,
            found.successor_contexts,
            found.next_tokens,
            found.probabilities,
            data.n_classes,
        )
    if data.task != "next-token":
        raise UsageError(
            f"this construction is for the tasks `next-token` and `distribution`, not for `{data.task}`.\n"
            "  Choose another construction; `byheart methods` lists the tasks of each.",
            task=data.task,
        )
    data.require_consistent()
    numbers = group_rows(data.inputs.ids, data.inputs.offsets)
    first = representatives(numbers)
    return NextTokenTargets(
        data.inputs.take(first),
        np.bincount(numbers),
        np.arange(len(first)),
        data.labels[first],
        np.ones(len(first)),
        data.n_classes,
    )
