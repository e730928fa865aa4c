"""The contextual mapping (KS25 section 4.2.2): a number for every word, every sequence and every labelled context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from byheart.construct.kajitsuka_sato_2025.sequence_ids import distinguishing_words, sequence_weights
from byheart.data.dataset import Dataset
from byheart.network.memory import Progress
from byheart.program.distinct_tokens import Words, largest_spread, words_of
from byheart.program.projection import IntegerPoints, Projection, project_apart
from byheart.theorems import realises

_STAGES = 5


@dataclass(frozen=True, eq=False)
class ContextualMapping:
    """Where every word and every context lies on its line, and what the contexts are labelled.

    word_line     Lemma C.2 for the words
    weights       f of Lemma B.2 for the words that are counted (Lemma B.1), by word number
    sequence_ids  Σ φ over the words of each sample
    context_line  Lemma C.2 for the contexts: (φ(word), place of the word, sequence id), or the sequence id alone for sets
    labels        label of each context by its value on the line, from 1 to C
    """

    words: Words
    word_line: Projection
    weights: Mapping[int, int]
    sequence_ids: tuple[int, ...]
    context_line: Projection
    labels: Mapping[Fraction, int]


@realises("KS25-D4.1")
def contextual_mapping(
    data: Dataset, rng: np.random.Generator, progress: Progress | None = None, factor_bits: int = 6
) -> ContextualMapping:
    """Give every word, every sequence and every context its own number (KS25 Definition 4.1).

    Assumes:    `data` is finite and consistently labelled.
    Guarantee:  contexts with different labels, indeed all different contexts, lie at least 2 apart on the line; the
                mapping is a contextual mapping in the sense of the definition with δ = 2.
    """

    def done(stage: int) -> None:
        if progress is not None:
            progress(stage, _STAGES)

    words = words_of(data)
    done(1)
    multisets = [Counter(row) for row in words.sequences.tolist()]
    distinct = list({frozenset(counts.items()): counts for counts in multisets}.values())
    counted = distinguishing_words(distinct)
    done(2)
    weights = sequence_weights(distinct, counted, rng)
    sequence_ids = tuple(
        sum(weights.get(word, 0) * count for word, count in counts.items()) for counts in multisets
    )
    done(3)
    word_line = _word_line(words, rng, factor_bits)
    done(4)
    contexts: dict[tuple[Fraction, ...], int] = {}
    for sample, word, label in _labelled_tokens(data, words):
        place = (Fraction(weights.get(word, 0)), word_line.values[word]) if data.task != "set" else ()
        contexts[*place, Fraction(sequence_ids[sample])] = label + 1
    n_coordinates = 1 if data.task == "set" else 3
    points = IntegerPoints.from_fractions(list(contexts), n_coordinates)
    context_line = project_apart(points, rng, factor_bits=factor_bits)
    done(5)
    return ContextualMapping(
        words,
        word_line,
        weights,
        sequence_ids,
        context_line,
        dict(zip(context_line.values, contexts.values(), strict=True)),
    )


def _word_line(words: Words, rng: np.random.Generator, factor_bits: int) -> Projection:
    if words.embedding is None:
        spread = largest_spread(words.separation, words.points.coordinates.shape[1])
        return project_apart(words.points, rng, spread, factor_bits)
    # the embedding has placed the words on a line already
    return Projection((Fraction(1),), Fraction(0), [Fraction(int(v)) for (v,) in words.points.coordinates])


def _labelled_tokens(data: Dataset, words: Words) -> list[tuple[int, int, int]]:
    """(sample, word, label) for every label: the last token's, or every token's for seq-to-seq."""
    if data.task != "seq-to-seq":
        samples = np.arange(data.n_samples)
        last = words.sequences[:, -1]
    else:
        lengths = np.asarray(data.lengths)
        samples = np.repeat(np.arange(data.n_samples), lengths)
        is_token = np.arange(words.sequences.shape[1]) >= words.sequences.shape[1] - lengths[:, None]
        last = words.sequences[is_token]
    return list(zip(samples.tolist(), last.tolist(), data.labels.tolist(), strict=True))
