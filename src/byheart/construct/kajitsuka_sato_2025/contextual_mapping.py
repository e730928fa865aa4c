"""The contextual mapping (KS25 section 4.2.2): a number for every token, every sequence and every labelled context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from byheart.construct.kajitsuka_sato_2025.sequence_ids import (
    distinguishing_tokens,
    sequence_id,
    sequence_weights,
)
from byheart.data.dataset import Dataset
from byheart.data.multiset import Multiset
from byheart.process.progress import Progress
from byheart.program.distinct_tokens import DistinctTokens, distinct_tokens, labelled_tokens, project_tokens
from byheart.program.projection import IntegerPoints, Projection, project_apart
from byheart.theorems import realises

_STAGES = 5


@dataclass(frozen=True, eq=False)
class ContextualMapping:
    """The values of tokens and contexts on their lines, and the labels of the contexts.

    token_line    the map of Lemma C.2 for the distinct tokens
    weights       maps the number of each token that is counted (Lemma B.1) to its weight φ(token) from Lemma B.2; φ is 0 for all
                  other tokens
    sequence_ids  the sum Σ φ over the tokens of each sample
    context_line  the map of Lemma C.2 for the contexts. A context is (φ(token), value of the token, sequence id), or for sets
                  only the sequence id
    labels        maps the value of each context on its line to the label of the context, from 1 to C
    """

    tokens: DistinctTokens
    token_line: Projection
    weights: Mapping[int, int]
    sequence_ids: tuple[int, ...]
    context_line: Projection
    labels: Mapping[Fraction, int]


@realises("KS25-D4.1")
def contextual_mapping(
    data: Dataset, rng: np.random.Generator, progress: Progress | None = None, factor_bits: int = 6
) -> ContextualMapping:
    """Assign a number to every token, every sequence and every context (KS25 Definition 4.1).

    Assumes:    `data` is finite and consistently labelled.
    Guarantee:  the numbers of different contexts are at least 2 apart, whether or not their labels differ. The mapping is a
                contextual mapping in the sense of the definition with δ = 2.
    """

    def done(stage: int) -> None:
        if progress is not None:
            progress(stage, _STAGES)

    tokens = distinct_tokens(data)
    done(1)
    multisets = [Multiset.of(row) for row in tokens.sequences.tolist()]
    if data.task == "set" and tokens.pad is not None:
        # padding is not an element of a set: it has no weight, so φ is 0 there, and Σ φ is that of the set itself
        multisets = [each.restrict(each.support - {tokens.pad_number}) for each in multisets]
    distinct = list(dict.fromkeys(multisets))
    counted = distinguishing_tokens(distinct)
    done(2)
    weights = sequence_weights(distinct, counted, rng)
    sequence_ids = tuple(sequence_id(multiset, weights) for multiset in multisets)
    done(3)
    token_line = project_tokens(tokens, rng, factor_bits)
    done(4)
    labelled = labelled_tokens(data, tokens)
    contexts: dict[tuple[Fraction, ...], int] = {}
    for sample, token, label in zip(labelled.samples, labelled.tokens, labelled.labels, strict=True):
        place = (Fraction(weights.get(token, 0)), token_line.values[token]) if data.task != "set" else ()
        contexts[*place, Fraction(sequence_ids[sample])] = label
    n_coordinates = 1 if data.task == "set" else 3
    points = IntegerPoints.from_fractions(list(contexts), n_coordinates)
    context_line = project_apart(points, rng, factor_bits=factor_bits)
    done(5)
    return ContextualMapping(
        tokens,
        token_line,
        weights,
        sequence_ids,
        context_line,
        dict(zip(context_line.values, contexts.values(), strict=True)),
    )
