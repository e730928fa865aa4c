"""Remove rows from a data set, together with the labels and tokens that only these rows had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Int

from byheart.data.assemble import Content
from byheart.data.row_groups import flat_ranges
from byheart.data.sequences import Sequences, TokenSequences, offsets_of
from byheart.data.tokenizers import CharTokenizer, IdTokenizer, Tokenizer, WordTokenizer

C = TypeVar("C", bound=Content)


@dataclass(frozen=True)
class Known:
    """The label names and vocabulary that the caller gave, which are kept even if no row uses them.

    names           the names of the given classes
    has_vocabulary  whether the vocabulary was given too, as a `Tokenizer` or a size
    """

    names: Sequence[str] = ()
    has_vocabulary: bool = False


NOTHING = Known()


def keep_rows(content: C, keep: Bool[np.ndarray, " n_samples"], known: Known = NOTHING) -> C:
    """Return the rows that `keep` marks, with their original row numbers.

    A class that occurs only in the other rows is removed, unless it is named in `known`. If the vocabulary was derived from the
    data, tokens that no longer occur are removed from it (see `_without_lost_tokens`).
    """
    if keep.all():
        return content
    chosen = np.flatnonzero(keep)
    per_sample = content.labels_per_sample
    starts = offsets_of(per_sample)[:-1]
    labels = content.labels[flat_ranges(starts[chosen], per_sample[chosen])]
    names, stay = content.label_names, set(known.names)
    stays = np.array([name in stay for name in names], dtype=bool)
    labels, left = _renumber(labels, content.labels, stays)
    names = tuple(names[number] for number in left.tolist())
    inputs, tokenizer = content.inputs.take(chosen), content.tokenizer
    if not known.has_vocabulary:
        inputs, tokenizer = _without_lost_tokens(inputs, content.inputs, tokenizer)
    rows = chosen + 1 if content.rows is None else content.rows[chosen]
    return replace(content, inputs=inputs, labels=labels, label_names=names, tokenizer=tokenizer, rows=rows)


def _without_lost_tokens(
    inputs: Sequences, before: Sequences, tokenizer: Tokenizer | None
) -> tuple[Sequences, Tokenizer | None]:
    """Return `inputs` and `tokenizer` with a vocabulary from which the tokens that no longer occur have been removed.

    If there is no tokenizer, only ids above the largest remaining id are removed. A vocabulary that was not derived from the data
    stays unchanged. `before` holds the inputs before rows were removed.
    """
    if not isinstance(inputs, TokenSequences) or not isinstance(before, TokenSequences):
        return inputs, tokenizer
    if isinstance(tokenizer, CharTokenizer | WordTokenizer | IdTokenizer):
        ids, left = _renumber(inputs.ids, before.ids, np.zeros(before.n_vocab, dtype=bool))
        words = tuple(tokenizer.words[number] for number in left.tolist())
        return TokenSequences(ids, inputs.offsets, len(words)), type(tokenizer)(words)
    if tokenizer is None and before.n_vocab == int(before.ids.max(initial=0)) + 1:
        return TokenSequences(inputs.ids, inputs.offsets, int(inputs.ids.max(initial=0)) + 1), None
    return inputs, tokenizer


def _renumber(
    numbers: Int[np.ndarray, " n_kept"],
    before: Int[np.ndarray, " n_before"],
    stays: Bool[np.ndarray, " n_names"],
) -> tuple[Int[np.ndarray, " n_kept"], Int[np.ndarray, " n_left"]]:
    """Renumber `numbers` to close the gaps left by numbers that occur in `before` but no longer in `numbers`.

    If `stays[n]` is true, n keeps a place in the numbering even if it no longer occurs. Return the new numbers, and an array that
    maps each new number to the old one.
    """
    is_lost = np.zeros(stays.size, dtype=bool)
    is_lost[before] = True
    is_lost[numbers] = False
    is_lost &= ~stays
    place = np.cumsum(~is_lost) - 1
    return place[numbers], np.flatnonzero(~is_lost)
