"""How far a network's next-token distributions are from the empirical ones (MFT24 Lemma 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from byheart.data.contexts import Contexts
from byheart.data.dataset import Dataset
from byheart.network.divergence import divergences
from byheart.network.memory import UNKNOWN, Memory, Progress
from byheart.verify.certificate import Distributional, WrongSample
from byheart.verify.encoded_inputs import Questions, questions

ALLOWED_DIVERGENCE = 1e-3
"""Nats by which a context may diverge where the record of a model asks for nothing else."""

ALLOWED_GAP = 0.01
"""Share of the entropy that the loss may lie above it: MFT24's own rule."""


@dataclass(frozen=True, eq=False)
class Checked:
    """What was found: the numbers, which contexts are wrong, the first few of them, and the problems in words."""

    numbers: Distributional
    wrong: Int[np.ndarray, " n_wrong"]
    shown: tuple[WrongSample, ...]
    problems: tuple[str, ...]


def check_distributions(
    memory: Memory,
    dataset: Dataset,
    record: Mapping[str, Any],
    *,
    n_shown: int,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Checked:
    """Ask `memory` every distinct context of `dataset` and compare its softmax with what follows in the data.

    A context is wrong if it cannot be asked or if its divergence is above what is allowed. The record of a model may
    ask for a gap to the entropy instead (notes `allowed_divergence` null and `allowed_gap`); the numbers are stated
    either way.
    """
    contexts = dataset.contexts()
    asked = questions(memory, contexts.as_sequences(), dataset.tokenizer)
    found = np.full(len(contexts), np.inf)
    if len(asked.asked):
        logits = memory.logits(asked.encoded, device=device, progress=progress)
        found[asked.asked] = _divergences(memory, dataset, contexts, asked, logits)
    allowed, allowed_gap = _allowed(record)
    entropy = contexts.entropy_nats
    gap = float(contexts.counts @ found)
    numbers = Distributional(
        n_contexts=len(contexts),
        max_divergence=_finite(float(found.max(initial=0.0))),
        mean_divergence=_finite(gap / contexts.n_predictions),
        loss_nats=_finite(entropy + gap),
        entropy_nats=entropy,
        gap_nats=_finite(gap),
        gap_percent=_finite(100 * gap / entropy) if entropy > 0 else None,
        allowed_divergence=allowed,
        allowed_gap_percent=None if allowed is not None else 100 * allowed_gap,
    )
    wrong = np.flatnonzero(found > (math.inf if allowed is None else allowed))
    wrong = np.union1d(wrong, np.flatnonzero(~np.isfinite(found)))
    problems = []
    if len(wrong):
        problems.append(f"{len(wrong):,} of {len(contexts):,} contexts have another next-token distribution.")
    reference = entropy if entropy > 0 else contexts.n_predictions * math.log(max(2, dataset.n_classes))
    if allowed is None and not gap <= allowed_gap * reference:
        problems.append(
            f"the loss lies {gap:.6g} nats above the entropy of {entropy:.6g}; allowed were {100 * allowed_gap:g}%."
        )
    shown = tuple(_wrong(dataset, contexts, asked, int(i), float(found[i])) for i in wrong[:n_shown])
    return Checked(numbers, wrong, shown, tuple(problems))


def _allowed(record: Mapping[str, Any]) -> tuple[float | None, float]:
    notes = record.get("notes")
    notes = notes if isinstance(notes, Mapping) else {}
    if "allowed_divergence" not in notes:
        return ALLOWED_DIVERGENCE, ALLOWED_GAP
    allowed, gap = notes["allowed_divergence"], notes.get("allowed_gap", ALLOWED_GAP)
    is_number = isinstance(allowed, int | float) and not isinstance(allowed, bool)
    gap = float(gap) if isinstance(gap, int | float) else ALLOWED_GAP
    # a record can ask for less than our own rules, not for more
    return (
        (min(float(allowed), ALLOWED_DIVERGENCE), ALLOWED_GAP) if is_number else (None, min(gap, ALLOWED_GAP))
    )


def _divergences(
    memory: Memory, dataset: Dataset, contexts: Contexts, asked: Questions, logits: np.ndarray
) -> Float[np.ndarray, " n_asked"]:
    """KL of each context that was asked, infinite where something follows that the model has no name for."""
    known = {name: index for index, name in enumerate(memory.label_names)}
    names = np.array([known.get(name, UNKNOWN) for name in dataset.label_names], dtype=np.int64)
    place = np.full(len(contexts), -1, dtype=np.int64)
    place[asked.asked] = np.arange(len(asked.asked))
    rows, columns = place[contexts.successor_contexts], names[contexts.next_tokens]
    use: Bool[np.ndarray, " n_successors"] = (rows >= 0) & (columns != UNKNOWN)
    found = divergences(rows[use], columns[use], contexts.probabilities[use], logits)
    found[~np.isfinite(logits).all(axis=1)] = np.inf
    found[rows[(rows >= 0) & (columns == UNKNOWN)]] = np.inf
    return found


def _wrong(
    dataset: Dataset, contexts: Contexts, asked: Questions, number: int, divergence: float
) -> WrongSample:
    ids = contexts[number].tolist()
    text = " ".join(map(str, ids)) if dataset.tokenizer is None else dataset.tokenizer.decode(ids)
    entries = slice(int(contexts.offsets[number]), int(contexts.offsets[number + 1]))
    likeliest = contexts.next_tokens[entries][int(np.argmax(contexts.next_counts[entries]))]
    return WrongSample(
        number=dataset.row(int(contexts.documents[number])),
        input=repr(text[:60]),
        expected=dataset.label_names[int(likeliest)],
        got=None,
        reason=asked.refused.get(
            number, f"the distribution of what follows diverges by {divergence:.3g} nats"
        ),
    )


def _finite(value: float) -> float:
    """JSON has no infinity; the largest float stands for it, and nothing that holds comes near it."""
    return min(value, 1.7976931348623157e308)
