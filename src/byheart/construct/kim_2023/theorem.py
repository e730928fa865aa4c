"""Sort the tokens of a sequence by hard attention, 2n attention layers, then look the context up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from byheart.construct.contexts import Labelled, labelled_tokens, n_labelled
from byheart.construct.kajitsuka_sato_2025.memorise import LookupRegisters, memorise_points, plan_lookup
from byheart.construct.kajitsuka_sato_2025.projection import IntegerPoints, Projection, project_apart
from byheart.construct.kajitsuka_sato_2025.steps import Step, Unit, clear, emit
from byheart.construct.kajitsuka_sato_2025.words import Words, largest_spread, words_of
from byheart.construct.kim_2023.string_ids import StringIds, sorted_counts, string_ids
from byheart.construct.registry import Assumption, Construction, Method, Statistics, statistics_of
from byheart.construct.single_vectors import Blocks, refuse_options
from byheart.construct.vardi_2022 import lookup_blocks
from byheart.data.dataset import Dataset
from byheart.network.architecture import Attention, Head, Layer, Transformer
from byheart.network.counting import Size
from byheart.network.dyadic import Number, SparseMatrix
from byheart.network.memory import Memory, Progress

NAME = "kim-2023"
LOOKUP = LookupRegisters()
REGISTERS = (LOOKUP.x, *LOOKUP.words, "key", "value", "hit", LOOKUP.into)
MODEL_WIDTH = len(REGISTERS)
# While sorting, registers that the lookup needs later do other work; all are zero again when it begins.
LEFT, LARGEST, IS_LARGEST, STRING_ID = LOOKUP.keys_high, LOOKUP.keys_low, LOOKUP.labels_high, LOOKUP.into


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
        *_shift(words, line),
        *_sorting(strings, line.value_bits, seq_len),
        *emit((_context_step(context_line), *memorise_points(labels, plan, LOOKUP)), REGISTERS),
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


def _shift(words: Words, line: Projection) -> tuple[Layer, ...]:
    """Both copies of the token's place move by the offset, which E_in cannot add."""
    if words.embedding is not None:
        return ()
    return emit((Step((Unit({}, 0, {}),), {LOOKUP.x: line.offset, LEFT: line.offset}),), REGISTERS)


def _sorting(strings: StringIds, place_bits: int, seq_len: int) -> Iterator[Layer]:
    """n rounds: find the largest place left, erase it, count it."""
    channel = {name: number for number, name in enumerate(REGISTERS)}

    def row(name: str) -> SparseMatrix:
        return SparseMatrix.of((1, MODEL_WIDTH), {(0, channel[name]): 1})

    def column(entries: Mapping[str, Number]) -> SparseMatrix:
        return SparseMatrix.of((MODEL_WIDTH, 1), {(channel[name], 0): v for name, v in entries.items()})

    (erase,) = emit((_erasing_step(1 << place_bits),), REGISTERS)
    for weight, count_weight in zip(strings.place_weights, strings.count_weights, strict=True):
        # keys are the places left; the query is the token's own place, positive, so every token sees the
        # largest
        largest = Head(
            value=row(LEFT),
            output=column({LARGEST: 1, STRING_ID: weight}),
            key=row(LEFT),
            query=row(LOOKUP.x),
        )
        yield Attention((largest,), "hardmax")
        yield erase
        count = Head(value=row(IS_LARGEST), output=column({STRING_ID: seq_len * count_weight}))
        yield Attention((count,), "uniform")


def _erasing_step(above_all: int) -> Step:
    """Mark and erase the largest place M: z <= M, and places differ by at least 2.

    ReLU(z - M + 1) is [z = M]. ReLU(z - B·(M - z)) is z if z = M, and 0 otherwise, because B·2 exceeds every
    place. When all is erased, z = M = 0 marks every token, which the sorted counts expect.
    """
    return Step(
        (
            Unit({LEFT: 1, LARGEST: -1}, 1, {IS_LARGEST: 1}),
            Unit({LEFT: 1 + above_all, LARGEST: -above_all}, 0, {LEFT: -1}),
            *clear(LARGEST, IS_LARGEST),
        )
    )


def _context_step(line: Projection) -> Step:
    """The context (string id, place) goes to its own number on the line."""
    reads = dict(zip((STRING_ID, LOOKUP.x), line.coefficients, strict=True))
    place = Unit({name: value for name, value in reads.items() if value}, line.offset, {LOOKUP.x: 1})
    return Step((place, *clear(LOOKUP.x, STRING_ID, IS_LARGEST)))


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


def size_of(statistics: Statistics) -> Size:
    """The size `memorise_by_sorting` builds, without building.

    Dense parameters, depth and width are exact if all statistics are measured; the non-zero count takes the
    projections as full; bits are estimates.
    """
    n, m = statistics.seq_len, MODEL_WIDTH
    n_contexts = n_labelled(statistics)
    has_table = statistics.vocab is not None
    n_vocab = (statistics.vocab or 0) + (1 if statistics.ragged else 0)
    table = n_vocab + (n if statistics.ordered else 0) if has_table else 0
    dim = 1 if has_table else (statistics.dim or 1)
    guess = (2 * n_vocab * n).bit_length() if has_table else 2 * (statistics.n_samples * n).bit_length() + 1
    token_bits = statistics.token_bits or guess
    key_bits = statistics.context_bits or 2 * n_contexts.bit_length() + 1
    plan = plan_lookup(n_contexts, key_bits, statistics.n_classes.bit_length(), m)
    blocks = [
        Blocks(n, 4, 11, n * (2 * token_bits + 12)),
        Blocks(1, 4, 10, 4 * key_bits),
        *lookup_blocks(plan),
    ]
    if not has_table:
        blocks.append(Blocks(1, 1, 2, 2 * token_bits))
    n_dense = table + m * dim + m + n * 6 * m
    n_dense += sum(b.count * (2 * m * b.hidden + b.hidden + m) for b in blocks)
    n_nonzero = table + 2 * dim + 1 + 7 * n + sum(b.count * b.nonzero for b in blocks)
    longer = max(plan.key_bits, plan.label_bits)
    word = max(plan.group_size * longer + longer + 1, token_bits + (1 if has_table else 53))
    total_bits = (table + 2 * dim) * token_bits + 7 * n + sum(b.bits for b in blocks)
    return Size(
        n_dense,
        n_nonzero,
        2 * n + sum(b.count for b in blocks),
        max(m, *(b.hidden for b in blocks)),
        word,
        total_bits,
    )


METHOD = Method(
    name=NAME,
    source="Kim, Kim & Mozafari 2023",
    tasks=("seq-to-seq", "next-token"),
    precisions=("exact",),
    size_of=size_of,
    build=memorise_by_sorting,
)
