"""Check how far a network's next-token distributions diverge from those in the data (MFT24 Lemma 2).

MFT24 is the paper by Madden, Fox and Thrampoulidis (2024).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from byheart.data.contexts import Contexts
from byheart.data.dataset import Dataset
from byheart.network.divergence import divergences
from byheart.network.memoriser import UNKNOWN, Memoriser
from byheart.process.progress import Progress
from byheart.verify.certificate import Distributional, DistributionRule, Findings, WrongSample
from byheart.verify.encoded_inputs import Drawn, EncodedInputs, draw_samples, encode_inputs

ALLOWED_DIVERGENCE = 1e-3
"""The largest divergence, in nats, for which a context counts as right."""

ALLOWED_GAP = 0.01
"""How far the loss may exceed the entropy, as a share of the entropy. This limit is that of the paper MFT24."""

N_RECHECKED_CONTEXTS = 8
"""The number of contexts whose logits are computed a second time, from the model's equations instead of by its PyTorch module."""


def check_distributions(
    memoriser: Memoriser,
    dataset: Dataset,
    *,
    rule: DistributionRule = "contexts",
    allowed_gap: float = ALLOWED_GAP,
    n_shown: int,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Findings:
    """Run `memoriser` on every distinct context (beginning of a document) of `dataset`, and compare the softmax of its logits with
    the next tokens in the data.

    A context is right if it can be encoded, the KL divergence of the softmax from the distribution in the data is at most
    `ALLOWED_DIVERGENCE`, and, if only one token follows it in the data, that token is the most likely one. All other contexts are
    counted as wrong. This does not depend on `rule`. With the rule `total-gap`, the result also has `fitted`, which is true if
    loss - entropy ≤ allowed_gap · entropy. A value of `allowed_gap` above `ALLOWED_GAP` is reduced to `ALLOWED_GAP`. The caller
    chooses the rule; a rule in the model's record is ignored. The result describes the first `n_shown` wrong contexts.
    """
    contexts = dataset.contexts()
    asked = encode_inputs(memoriser, contexts.as_sequences(), dataset.tokenizer)
    found = np.full(len(contexts), np.inf)
    is_other_token = np.zeros(len(contexts), dtype=bool)
    n_rechecked, problems = 0, []
    if len(asked.asked):
        logits = memoriser.network.compute_logits(asked.encoded, device=device, progress=progress)
        found[asked.asked] = _divergences(memoriser, dataset, contexts, asked, logits)
        is_other_token[asked.asked] = _other_tokens(memoriser, dataset, contexts, asked, logits)
        drawn = draw_samples(len(asked.asked), N_RECHECKED_CONTEXTS)
        n_rechecked, problems = len(drawn), _disagreements(memoriser, dataset, contexts, asked, logits, drawn)
    entropy = contexts.entropy_nats
    gap = float(contexts.counts @ found)
    allowed_gap = min(allowed_gap, ALLOWED_GAP)
    numbers = Distributional(
        n_contexts=len(contexts),
        max_divergence=_finite(float(found.max(initial=0.0))),
        mean_divergence=_finite(gap / contexts.n_predictions),
        loss_nats=_finite(entropy + gap),
        entropy_nats=entropy,
        gap_nats=_finite(gap),
        gap_percent=_finite(100 * gap / entropy) if entropy > 0 else None,
        allowed_divergence=ALLOWED_DIVERGENCE,
        allowed_gap_percent=None if rule == "contexts" else 100 * allowed_gap,
        wrong_tokens=int(is_other_token.sum()),
    )
    is_wrong = ~(found <= ALLOWED_DIVERGENCE) | is_other_token
    wrong = np.flatnonzero(is_wrong)
    fitted = None if rule == "contexts" else numbers.is_within_gap
    shown = tuple(_wrong(dataset, contexts, asked, int(i), float(found[i])) for i in wrong[:n_shown])
    return Findings(len(contexts), len(wrong), shown, tuple(problems), n_rechecked, numbers, fitted)


def _other_tokens(
    memoriser: Memoriser, dataset: Dataset, contexts: Contexts, asked: EncodedInputs, logits: np.ndarray
) -> Bool[np.ndarray, " n_asked"]:
    """Return, for each encoded context, whether it has only one next token in the data and the network prefers another."""
    known = {name: index for index, name in enumerate(memoriser.label_names)}
    likeliest = logits.argmax(axis=1)
    starts, n_successors = contexts.offsets[asked.asked], np.diff(contexts.offsets)[asked.asked]
    certain = [known.get(dataset.label_names[int(token)], UNKNOWN) for token in contexts.next_tokens[starts]]
    return np.asarray((n_successors == 1) & (likeliest != np.array(certain)))


def _disagreements(
    memoriser: Memoriser,
    dataset: Dataset,
    contexts: Contexts,
    asked: EncodedInputs,
    logits: np.ndarray,
    drawn: Drawn,
) -> list[str]:
    """Compare `logits` for the contexts in `drawn` with those that a second evaluator computes from the model's equations.

    Return a sentence for each context whose logits differ by more than rounding errors.
    """
    again = memoriser.network.bound_logits(asked.encoded[drawn])
    is_apart = ~(np.abs(logits[drawn] - again.value) <= 2 * again.radius).all(axis=1)
    return [
        "the PyTorch module and the NumPy evaluation of the equations disagree on context "
        f"{_text(dataset, contexts, int(asked.asked[at]))} by more than rounding errors."
        for at in drawn[is_apart]
    ]


def _divergences(
    memoriser: Memoriser, dataset: Dataset, contexts: Contexts, asked: EncodedInputs, logits: np.ndarray
) -> Float[np.ndarray, " n_asked"]:
    """Return, for each encoded context, the KL divergence of the softmax of its logits from the distribution in the data.

    It is infinite if a logit is not finite, or if the model has no label or no logit for a token that follows the context in the
    data.
    """
    known = {name: index for index, name in enumerate(memoriser.label_names[: logits.shape[1]])}
    names = np.array([known.get(name, UNKNOWN) for name in dataset.label_names], dtype=np.int64)
    row_of = np.full(len(contexts), -1, dtype=np.int64)
    row_of[asked.asked] = np.arange(len(asked.asked))
    rows, columns = row_of[contexts.successor_contexts], names[contexts.next_tokens]
    use: Bool[np.ndarray, " n_successors"] = (rows >= 0) & (columns != UNKNOWN)
    found = divergences(rows[use], columns[use], contexts.probabilities[use], logits)
    found[~np.isfinite(logits).all(axis=1)] = np.inf
    found[rows[(rows >= 0) & (columns == UNKNOWN)]] = np.inf
    return found


def _wrong(
    dataset: Dataset, contexts: Contexts, asked: EncodedInputs, number: int, divergence: float
) -> WrongSample:
    entries = slice(int(contexts.offsets[number]), int(contexts.offsets[number + 1]))
    likeliest = contexts.next_tokens[entries][int(np.argmax(contexts.next_counts[entries]))]
    return WrongSample(
        number=dataset.row(int(contexts.documents[number])),
        input=_text(dataset, contexts, number),
        expected=dataset.label_names[int(likeliest)],
        got=None,
        reason=asked.refused.get(
            number,
            "the next-token distribution diverges from that of the data"
            + (
                f" by {divergence:.3g} nats"
                if np.isfinite(divergence)
                else ": the model has no logit for a token that follows in the data, or a logit is not finite"
            ),
        ),
    )


def _text(dataset: Dataset, contexts: Contexts, number: int) -> str:
    """Return the beginning of a context, for display."""
    ids = contexts[number].tolist()
    text = " ".join(map(str, ids)) if dataset.tokenizer is None else dataset.tokenizer.decode(ids)
    return repr(text[:60])


def _finite(value: float) -> float:
    """Replace infinity, which JSON cannot express, by the largest float. In a certificate that holds, all numbers are much
    smaller.
    """
    return min(value, 1.7976931348623157e308)
