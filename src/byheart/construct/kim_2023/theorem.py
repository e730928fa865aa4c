"""Sort the tokens of a sequence by hard attention, 2n attention layers, then look the context up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from byheart.construct.kim_2023.sizes import size_of
from byheart.construct.kim_2023.sort_rounds import (
    LEFT,
    LOOKUP,
    MODEL_WIDTH,
    REGISTERS,
    context_step,
    shift,
    sorting,
)
from byheart.construct.kim_2023.string_ids import StringIds, sorted_counts, string_ids
from byheart.construct.registry import Method
from byheart.data.dataset import Dataset
from byheart.network.exact.dyadic import Number, SparseMatrix
from byheart.network.memory import Memory, Progress
from byheart.network.transformer.architecture import Layer, Transformer
from byheart.program.construction import Assumption, Construction, statistics_of
from byheart.program.distinct_tokens import (
    Words,
    largest_spread,
    words_of,
)
from byheart.program.emit import emit_layers
from byheart.program.labelled_tokens import Labelled, labelled_tokens
from byheart.program.lookup import memorise_points, plan_lookup
from byheart.program.lookup_size import (
    lookup_numbers,
)
from byheart.program.projection import IntegerPoints, Projection, project_apart
from byheart.program.single_vectors import refuse_options
from byheart.program.weight_count import (
    tally,
)

NAME = "kim-2023"


def memorise_by_sorting(
    data: Dataset, options: Mapping[str, object], rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile a label for every token: n rounds find the largest word and its multiplicity, one lookup does the rest.

    Source:     Kim, Kim & Mozafari (2023): token-wise separated inputs, Õ(d + n + √(nN)) parameters, 2n
                attention layers. The stages (token id, string id by selecting one maximum after the other,
                context id, label) are theirs; the gadgets and the treatment of repeated words are
                reconstructed.
    Assumes:    finite inputs; equal contexts carry equal labels, where a context is a token with the multiset
                of all tokens (with their positions, where order matters).
    Guarantee:  at every labelled token the output equals label + 1 exactly, over the rationals, with hard
                attention.
    In floats:  not meant for floats. With softmax in place of hardmax, an inverse temperature β ≥
                ln(2nΣw/gap) would do in real numbers.
    Size:       `size_of`. n rounds of two attention layers and one block, then a lookup of nN contexts. Width
                9.
    Departs:    multiplicities are counted by a uniform head, since erasing a maximum would forget them. Both
                heads write the string id directly. Random integer weights replace the projection lemma.
    """
    refuse_options(NAME, options)
    data.require_finite()
    data.require_consistent()
    words = words_of(data)
    line = _word_line(words, rng)
    seq_len = words.sequences.shape[1]
    rounds = [sorted_counts([line.values[word] for word in row], seq_len) for row in words.sequences.tolist()]
    strings = string_ids(rounds, rng)
    if progress is not None:
        progress(1, 2)
    labelled = labelled_tokens(data, words)
    contexts = _contexts(labelled, line, strings)
    context_line = project_apart(IntegerPoints.from_fractions(list(contexts), 2), rng)
    labels = dict(zip(context_line.values, contexts.values(), strict=True))
    plan = plan_lookup(len(labels), context_line.value_bits, data.n_classes.bit_length(), MODEL_WIDTH)
    layers = (
        *shift(words, line),
        *sorting(strings, line.value_bits, seq_len),
        *emit_layers((context_step(context_line), *memorise_points(labels, plan, LOOKUP)), REGISTERS),
    )
    if progress is not None:
        progress(2, 2)
    return Construction(
        memory=Memory(
            _network(words, line, layers, seq_len), data.task, data.label_names, data.tokenizer, data.ordered
        ),
        method=NAME,
        theorem="KKM23, contextual mapping by sorting, reconstructed",
        assumptions=_assumptions(data, words, len(labels)),
        theorem_size=None,
        notes={
            "contexts": len(labels),
            "word_bits": line.value_bits,
            "largest_round_weight": max(*strings.place_weights, *strings.count_weights),
            "context_key_bits": context_line.value_bits,
            "groups": plan.n_groups,
            "group_size": plan.group_size,
        },
        statistics=replace(
            statistics_of(data),
            n_contexts=len(labels),
            token_bits=line.value_bits,
            context_bits=context_line.value_bits,
            numbers={
                "token axes": tally(line.coefficients),
                "token offset": tally([line.offset]),
                "round weights": tally(
                    (*strings.place_weights, *(seq_len * weight for weight in strings.count_weights))
                ),
                "context axes": tally(context_line.coefficients),
                "context offset": tally([context_line.offset]),
                **lookup_numbers(labels, plan),
            },
        ),
    )


def _word_line(words: Words, rng: np.random.Generator) -> Projection:
    if words.embedding is not None:  # it has placed the words on a line already
        return Projection(
            (Fraction(1),), Fraction(0), [Fraction(int(v)) for (v,) in words.points.coordinates]
        )
    return project_apart(
        words.points, rng, largest_spread(words.separation, words.points.coordinates.shape[1])
    )


def _contexts(
    labelled: Labelled, line: Projection, strings: StringIds
) -> dict[tuple[Fraction, Fraction], int]:
    """Label, from 1, of every context (string id, place of the token)."""
    return {
        (strings.ids[sample], line.values[word]): label
        for sample, word, label in zip(labelled.samples, labelled.words, labelled.labels, strict=True)
    }


def _network(words: Words, line: Projection, layers: tuple[Layer, ...], seq_len: int) -> Transformer:
    rows = (REGISTERS.index(LOOKUP.x), REGISTERS.index(LEFT))
    entries: dict[tuple[int, int], Number] = {
        (row, axis): value for row in rows for axis, value in enumerate(line.coefficients)
    }
    return Transformer(
        w_in=SparseMatrix.of((MODEL_WIDTH, len(line.coefficients)), entries),
        layers=layers,
        w_out=SparseMatrix.of((1, MODEL_WIDTH), {(0, REGISTERS.index(LOOKUP.into)): 1}),
        seq_len=seq_len,
        embedding=words.embedding,
        pad=words.pad,
    )


def _assumptions(data: Dataset, words: Words, n_contexts: int) -> tuple[Assumption, ...]:
    separation = words.separation
    apart = "one distinct token" if separation.delta is None else f"δ = {separation.delta:.6g}"
    return (
        Assumption("inputs are finite", True, f"{data.n_samples} sequences of at most {data.seq_len} tokens"),
        Assumption("equal contexts carry equal labels", True, f"{n_contexts} distinct contexts"),
        Assumption(
            "tokens are (r, δ)-separated",
            True,
            f"{separation.n_distinct} distinct tokens, r = {separation.r:.6g}, {apart}",
        ),
    )


METHOD = Method(
    name=NAME,
    source="Kim, Kim & Mozafari 2023",
    tasks=("seq-to-seq", "next-token"),
    precisions=("exact",),
    size_of=size_of,
    build=memorise_by_sorting,
)
