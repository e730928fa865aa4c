"""Find equal contexts with different labels, and the samples that a rule for such conflicts keeps.

The context of a label is everything that a network can use to predict it. With positions (`ordered`), it is the
sequence itself and, if there is one label per token, the position. Without positions, it is the token that carries
the label and the multiset of the tokens of the sequence (Kajitsuka and Sato, 2025, Theorem 4.1, condition 1). For the task `set`,
it is the multiset alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from byheart.data.options import Rule, Task
from byheart.data.row_groups import flat_ranges, group_rows, pair_ids, representatives, sort_within_rows
from byheart.data.sequences import Sequences, TokenSequences, VectorSequences
from byheart.errors import ConflictingLabels, UsageError, amount

Labels = Int[np.ndarray, " n_labels"]


@dataclass(frozen=True, eq=False)
class Conflicts:
    """Pairs of labels that disagree although their contexts are equal.

    If a context has several labels, there is one pair of places for each label except the first: the place where the context first
    occurs, and the first place where it has this label. A place is (sample, position), with the position of the token that carries
    the label.
    """

    samples: Int[np.ndarray, "n_conflicts 2"]
    positions: Int[np.ndarray, "n_conflicts 2"]
    labels: Int[np.ndarray, "n_conflicts 2"]

    def __len__(self) -> int:
        return len(self.samples)


def context_ids(inputs: Sequences, task: Task, ordered: bool) -> Labels:
    """For each label, return a number that identifies its context. Equal contexts get equal numbers, in order of first
    appearance.
    """
    if task == "distribution":
        raise UsageError("each context of a document has a distribution, not a label; use contexts_of().")
    tokens, offsets = flat_tokens(inputs)
    if not ordered:
        whole = group_rows(sort_within_rows(tokens, offsets), offsets)
    elif isinstance(inputs, VectorSequences):
        words = inputs.values.reshape(-1).view(np.int64)
        whole = group_rows(words, offsets * inputs.dim)
    else:
        whole = group_rows(tokens, offsets)
    lengths = np.diff(offsets)
    if task == "set" or (task == "next-token" and ordered):
        return whole
    if task == "next-token":
        return pair_ids(whole, tokens[offsets[1:] - 1])
    within = flat_ranges(np.zeros_like(lengths), lengths)
    return pair_ids(np.repeat(whole, lengths), within if ordered else tokens)


def flat_tokens(inputs: Sequences) -> tuple[Int[np.ndarray, " n_tokens"], Int[np.ndarray, " n_offsets"]]:
    """Return the tokens of all sequences as numbers in one array, and the offsets of the sequences.

    If tokens are vectors, they are numbered so that equal vectors get equal numbers.
    """
    if isinstance(inputs, TokenSequences):
        return inputs.ids, inputs.offsets
    return inputs.token_ids.reshape(-1), np.arange(len(inputs) + 1) * inputs.seq_len


def label_places(inputs: Sequences, task: Task) -> tuple[Labels, Labels]:
    """For each label, return its sample and the position of its token in this sample. For `seq-to-seq`, every token has a label.
    For `next-token` and `set`, only the last token has one. In documents, every token but the last has one: the next token.
    """
    samples = np.arange(len(inputs))
    lengths = inputs.lengths
    if task in ("next-token", "set"):
        return samples, lengths - 1
    positions = flat_ranges(np.zeros_like(lengths), lengths)
    samples = np.repeat(samples, lengths)
    if task == "seq-to-seq":
        return samples, positions
    later = positions > 0  # documents: the token at position t is the label of the tokens before it
    return samples[later], positions[later] - 1


def find_conflicts(inputs: Sequences, labels: Labels, task: Task, contexts: Labels) -> Conflicts:
    """Find labels that disagree although their contexts are equal. `contexts` are the numbers that `context_ids` returns."""
    first_with_label = np.sort(representatives(pair_ids(contexts, labels)))
    first = representatives(contexts)[contexts[first_with_label]]
    other = first != first_with_label
    pairs = np.stack([first[other], first_with_label[other]], axis=1)
    samples, positions = label_places(inputs, task)
    return Conflicts(samples[pairs], positions[pairs], labels[pairs])


def conflicting_labels(conflict: str, n_rows: int, remedy: str, **facts: object) -> ConflictingLabels:
    """Return the error for data with conflicting labels. `conflict` describes the first conflict.

    n_rows: the number of rows whose label differs from the label of the first row with the same input.
    """
    return ConflictingLabels(
        f"{conflict}; in all, the label of {amount(n_rows, 'row')} differs from that of the first equal input.\n"
        f"  No function can return both, so nothing can memorise this data set.\n  {remedy}",
        n_conflicts=n_rows,
        **facts,
    )


def samples_to_keep(
    inputs: Sequences, labels: Labels, task: Task, contexts: Labels, rule: Rule
) -> Bool[np.ndarray, " n_samples"]:
    """Return which samples to keep under `rule` so that equal contexts have equal labels.

    `first`, `last` and `majority` choose one label for each context and drop the samples with another label. If labels are equally
    frequent, `majority` chooses the first of them. `drop` drops every sample whose context has conflicting labels.
    """
    winner = _winning_labels(labels, contexts, rule)
    agrees = labels == winner[contexts]
    if rule == "drop":
        disputed = np.zeros(winner.size, dtype=bool)
        disputed[contexts[~agrees]] = True
        agrees = ~disputed[contexts]
    samples, _ = label_places(inputs, task)
    keep = np.ones(len(inputs), dtype=bool)
    keep[samples[~agrees]] = False
    return keep


def _winning_labels(labels: Labels, contexts: Labels, rule: Rule) -> Int[np.ndarray, " n_contexts"]:
    if rule in ("first", "drop"):
        return np.asarray(labels[representatives(contexts)])
    if rule == "last":
        return np.asarray(labels[contexts.size - 1 - representatives(contexts[::-1])])
    pairs = pair_ids(contexts, labels)
    example = representatives(pairs)
    # Sort by (count, earliness) and assign in that order: the last assignment to each context is the best label.
    order = np.lexsort((-example, np.bincount(pairs)))
    winner = np.empty(int(contexts.max(initial=-1)) + 1, dtype=np.int64)
    winner[contexts[example[order]]] = labels[example[order]]
    return winner
