"""Decide whether a decoder of a given width can memorise a corpus, by building one or by proving that none exists.

Some cases remain undecided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from byheart.bounds.bound import Bound
from byheart.bounds.madden_2024 import DecoderShape, theorem_1
from byheart.bounds.rank_gap import excess_loss
from byheart.construct.madden_2024.size import MaddenOptions
from byheart.construct.madden_2024.theorem import plan
from byheart.data.contexts import Contexts
from byheart.data.dataset import Dataset
from byheart.errors import AssumptionViolated, UsageError
from byheart.program.construction import Construction
from byheart.program.targets import ALLOWED_DIVERGENCE, targets_of
from byheart.theorems import realises


@dataclass(frozen=True, eq=False)
class CapacityDecision:
    """Whether decoders with a given number of neurons reach the entropy of a corpus. The verdict is one of three:

    reached       a decoder was built whose distribution is right for every context; `construction` holds it
    out of reach  for all weights the loss exceeds the entropy by at least `excess`, in nats
    undecided     neither was shown; `construction` then holds a decoder that was built but is not close enough, if there is one
    """

    verdict: Literal["reached", "out of reach", "undecided"]
    construction: Construction | None = None
    excess: Bound | None = None


@realises("MFT24-Def1")
def decide_capacity(data: Dataset, hidden_width: int, rng: np.random.Generator) -> CapacityDecision:
    """Decide whether the one-layer decoder of MFT24 eq. (2) with `hidden_width` neurons memorises all contexts of the documents.

    Source:     MFT24 Definition 1: a model memorises contexts if the infimum of its loss is the entropy of their next tokens.
    Guarantee:  "reached" comes with a decoder whose distribution for every context is as close to that of the documents as `verify`
                requires. "out of reach" holds for all weights, activations, dimensions and numbers of heads, because it uses only
                that the rank of the logits is at most the number of neurons. If neither can be shown, the result is "undecided".
                This can happen, for example, if there are fewer neurons than contexts (Theorem 5 needs one per context), but at
                least as many as the rank of the wanted logits.
    """
    if data.task != "distribution":
        raise UsageError(
            "capacity can be decided only for documents.\n  Read the data with task='distribution'."
        )
    contexts = data.contexts()
    if hidden_width >= len(contexts):
        options = MaddenOptions(hidden_width=hidden_width, solver="random-features")
        try:
            construction = plan(data, options, rng, kind="attention").emit()
        except AssumptionViolated:
            return CapacityDecision("undecided")
        return CapacityDecision("reached" if _is_met(construction, data) else "undecided", construction)
    minor = full_rank_minor(contexts, hidden_width + 2)
    if minor is not None:
        excess = excess_loss(*minor)
        if excess.value > 0:
            return CapacityDecision("out of reach", excess=excess)
    return CapacityDecision("undecided")


def _is_met(construction: Construction, data: Dataset) -> bool:
    """Whether the forward pass of the network gives every context its distribution, as closely as `verify` requires."""
    targets, memoriser = targets_of(data), construction.memoriser
    logits = memoriser.network.compute_logits(memoriser.encode(targets.contexts))
    return bool((targets.divergences(logits.astype(np.float64)) <= ALLOWED_DIVERGENCE).all())


def full_rank_minor(contexts: Contexts, size: int) -> tuple[list[list[int]], list[int]] | None:
    """Find `size` contexts and `size` tokens whose matrix of log frequencies seems to have full rank.

    Return how often each of the tokens follows each of the contexts, and how often each context occurs; or None if no such contexts
    and tokens are found. The search is an elimination with full pivoting in floats. It considers the tokens that follow the most
    contexts, and only the contexts that all of these tokens follow.
    """
    table = np.zeros((len(contexts), contexts.n_vocab), dtype=np.int64)
    table[contexts.successor_contexts, contexts.next_tokens] = contexts.next_counts
    common = np.argsort(-(table > 0).sum(axis=0), kind="stable")
    for n_tokens in range(size, contexts.n_vocab + 1):
        tokens = common[:n_tokens]
        rows = np.flatnonzero((table[:, tokens] > 0).all(axis=1))
        if len(rows) < size:
            return None
        picked = _pivots(np.log(table[np.ix_(rows, tokens)] / contexts.counts[rows, None]), size)
        if picked is not None:
            chosen, columns = rows[picked[0]], tokens[picked[1]]
            return table[np.ix_(chosen, columns)].tolist(), contexts.counts[chosen].tolist()
    return None


def _pivots(
    matrix: Float[np.ndarray, "n_rows n_columns"], size: int
) -> tuple[Int[np.ndarray, " size"], Int[np.ndarray, " size"]] | None:
    """Return the rows and columns of the first `size` pivots of an elimination, or None if the rank seems smaller."""
    left, largest = matrix.copy(), np.abs(matrix).max(initial=0.0)
    rows, columns = [], []
    for _ in range(size):
        row, column = np.unravel_index(np.abs(left).argmax(), left.shape)
        if abs(left[row, column]) <= 1e-9 * largest:
            return None
        rows.append(int(row))
        columns.append(int(column))
        left = left - np.outer(left[:, column], left[row]) / left[row, column]
    return np.array(rows), np.array(columns)


@realises("MFT24-T1")
def witness_corpus(shape: DecoderShape) -> Dataset:
    """Build documents with one context more than the upper bound of Theorem 1: this decoder cannot memorise all of them.

    It is proved that the decoder cannot reach the entropy of the documents, whatever its weights.

    Source:     MFT24 Theorem 1 proves that such a corpus exists, by counting dimensions. The corpus built here is explicit: for
                m neurons, the log frequencies of the next tokens of m + 2 contexts form a matrix of full rank m + 2
                (`excess_loss`).
    Assumes:    a vocabulary of at least m + 2 tokens, and contexts of at most two tokens.
    """
    size, vocab = shape.hidden_width + 2, shape.vocab
    n_contexts = int(theorem_1(shape.parameters, vocab).value) + 1
    # this many tokens are contexts of their own; the other contexts are pairs
    n_firsts = min(vocab, n_contexts // 2)
    n_pairs = n_contexts - n_firsts
    if shape.seq_len != 2 or size > vocab:
        raise AssumptionViolated(
            f"a witness corpus for hidden_width = {shape.hidden_width} needs seq_len = 2 and a vocabulary of at least "
            f"{size} tokens; the decoder has seq_len = {shape.seq_len} and a vocabulary of {vocab}.",
            n_contexts=n_contexts,
        )
    if not size <= n_pairs <= n_firsts * vocab:
        raise AssumptionViolated(
            f"a witness corpus for hidden_width = {shape.hidden_width} would have {n_pairs} contexts of two tokens, but their "
            f"number must be at least {size}, and at most the {n_firsts * vocab} that are possible with a vocabulary of {vocab}.",
            n_contexts=n_contexts,
            n_pairs=n_pairs,
        )
    documents = []
    for number in range(n_pairs):
        first, second = number % n_firsts, number // n_firsts
        # each token follows once, and the context's own token twice more: with totals t > 3, ln 3·I - ln t·J has full rank
        following = [*range(vocab), *([number] * 2 if number < size else [])]
        documents += [[first, second, third] for third in sorted(following)]
    return Dataset.from_documents([" ".join(f"t{token:03d}" for token in each) for each in documents])
