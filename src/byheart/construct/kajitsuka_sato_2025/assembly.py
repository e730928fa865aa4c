"""From a contextual mapping to a network: E_out ∘ F2 ∘ (attention or pooling) ∘ F1 ∘ E_in, and its size beforehand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from byheart.construct.kajitsuka_sato_2025.mapping import ContextualMapping
from byheart.construct.kajitsuka_sato_2025.memorise import (
    LookupPlan,
    LookupRegisters,
    Planner,
    memorise_points,
    plan_lookup,
    weigh_words,
)
from byheart.construct.kajitsuka_sato_2025.steps import Program, Step, Unit, clear, emit
from byheart.construct.registry import Statistics, statistics_of
from byheart.data.dataset import Dataset
from byheart.network.architecture import Attention, Embedding, Head, Layer, SumPool, Transformer
from byheart.network.counting import Size
from byheart.network.dyadic import Number, SparseMatrix, as_sparse

LOOKUP = LookupRegisters()
SUM = "sum"
REGISTERS = (LOOKUP.x, *LOOKUP.words, "key", "value", "hit", LOOKUP.into, SUM)
MODEL_WIDTH = len(REGISTERS)
CHANNEL = {name: number for number, name in enumerate(REGISTERS)}

Entrance = Literal["vectors", "line", "table"]
"""How tokens enter: vectors through E_in; ids on a line, φ by a network; ids with φ in the table (Theorem E.1)."""


@dataclass(frozen=True, eq=False)
class Assembled:
    """The network with the plans of its two lookups."""

    network: Transformer
    entrance: Entrance
    first: LookupPlan | None
    second: LookupPlan


def assemble(
    mapping: ContextualMapping, data: Dataset, plan: Planner = plan_lookup, *, is_sparse: bool = False
) -> Assembled:
    """The network that computes the mapping and looks the label up.

    With `is_sparse`, the sum goes through an extra token by two attention layers of n + 1 connections each (Remark 4.5).
    """
    statistics = measured_statistics(data, mapping)
    entrance = entrance_of(statistics, plan)
    first_program, first = _first_part(mapping, entrance, plan)
    second_program, second = _second_part(mapping, data, plan)
    network = Transformer(
        w_in=_w_in(mapping, entrance),
        layers=(
            *emit(first_program, REGISTERS),
            *_mixing(data, is_sparse),
            *emit(second_program, REGISTERS),
        ),
        w_out=SparseMatrix.of((1, MODEL_WIDTH), {(0, CHANNEL[LOOKUP.into]): 1}),
        seq_len=data.seq_len,
        embedding=_embedding(mapping, entrance),
        pad=mapping.words.pad,
        extra=_extra_token(mapping, entrance) if is_sparse else None,
    )
    return Assembled(network, entrance, first, second)


def _embedding(mapping: ContextualMapping, entrance: Entrance) -> Embedding | None:
    line = mapping.words.embedding
    if line is None or entrance != "table":
        return line
    # a second column holds φ: the network F1 becomes a column of the table (Theorem E.1)
    tokens = as_sparse(line.tokens)
    place = {token: value for (token, _), value in tokens.entries.items()}
    word_at = {value: word for word, value in enumerate(mapping.word_line.values)}
    entries: dict[tuple[int, int], Number] = {(token, 0): value for token, value in place.items()}
    for token, value in place.items():
        word = word_at.get(value.fraction)
        entries[token, 1] = 0 if word is None else mapping.weights.get(word, 0)
    return Embedding(SparseMatrix.of((tokens.shape[0], 2), entries))


def _w_in(mapping: ContextualMapping, entrance: Entrance) -> SparseMatrix:
    coefficients = mapping.word_line.coefficients
    entries: dict[tuple[int, int], Number] = {
        (CHANNEL[LOOKUP.x], axis): value for axis, value in enumerate(coefficients)
    }
    if entrance == "table":
        entries[CHANNEL[LOOKUP.into], 1] = 1
        return SparseMatrix.of((MODEL_WIDTH, 2), entries)
    return SparseMatrix.of((MODEL_WIDTH, len(coefficients)), entries)


def _first_part(
    mapping: ContextualMapping, entrance: Entrance, plan: Planner
) -> tuple[Program, LookupPlan | None]:
    """F1: the place of the word on its line, then φ (Lemma B.3)."""
    if entrance == "table":
        return (), None
    key_bits = mapping.word_line.value_bits
    program, chosen = weigh_words(
        mapping.word_line.values, mapping.weights, key_bits, MODEL_WIDTH, LOOKUP, plan
    )
    if entrance == "line":
        return program, chosen
    # E_in is linear; x ← ReLU(x + offset) adds the offset, and x itself is taken away by -ReLU(x) + ReLU(-x)
    x = LOOKUP.x
    shift = Step(
        (Unit({x: 1}, mapping.word_line.offset, {x: 1}), Unit({x: 1}, 0, {x: -1}), Unit({x: -1}, 0, {x: 1}))
    )
    return (shift, *program), chosen


def _mixing(data: Dataset, is_sparse: bool) -> tuple[Layer, ...]:
    """The sum of φ over the sequence: W_O·W_V scaled by n, so that the mean is the sum (erratum 8); or a deep set's pooling."""
    if data.task == "set":
        return (SumPool(),)
    head = Head(
        value=SparseMatrix.of((1, MODEL_WIDTH), {(0, CHANNEL[LOOKUP.into]): 1}),
        output=SparseMatrix.of((MODEL_WIDTH, 1), {(CHANNEL[SUM], 0): data.seq_len + is_sparse}),
    )
    if not is_sparse:
        return (Attention((head,), "uniform"),)
    # φ of the extra token is 0, so it gathers the sum of the others, and every token then reads it
    copy = Head(
        value=SparseMatrix.of((1, MODEL_WIDTH), {(0, CHANNEL[SUM]): 1}),
        output=SparseMatrix.of((MODEL_WIDTH, 1), {(CHANNEL[SUM], 0): 1}),
    )
    return Attention((head,), "uniform", "gather"), Attention((copy,), "uniform", "scatter")


def _extra_token(mapping: ContextualMapping, entrance: Entrance) -> SparseMatrix:
    """A vector whose place on the line is at least 2 beyond every word, so that φ is 0 there (Lemma C.1)."""
    line = mapping.word_line
    axis = next(at for at, value in enumerate(line.coefficients) if value)
    beyond = max(line.values) + 2 - line.offset
    # a whole number of the right sign: coefficient · entry >= beyond
    entry = ceil(abs(beyond) / abs(line.coefficients[axis])) * (1 if line.coefficients[axis] > 0 else -1)
    dim = 2 if entrance == "table" else len(line.coefficients)
    return SparseMatrix.of((1, dim), {(0, axis): entry})


def _second_part(mapping: ContextualMapping, data: Dataset, plan: Planner) -> tuple[Program, LookupPlan]:
    """F2: the context on its line, then its label (Lemma C.1)."""
    line = mapping.context_line
    context = (LOOKUP.into,) if data.task == "set" else (LOOKUP.into, LOOKUP.x, SUM)
    reads = {name: value for name, value in zip(context, line.coefficients, strict=True) if value}
    place = Unit(reads, line.offset, {LOOKUP.x: 1})
    # values on the line are at least 2, so ReLU changes nothing; what the first part left behind is never negative
    step = Step((place, *clear(LOOKUP.x, LOOKUP.into, *LOOKUP.words)))
    chosen = plan(len(mapping.labels), line.value_bits, data.n_classes.bit_length(), MODEL_WIDTH)
    return (step, *memorise_points(mapping.labels, chosen, LOOKUP)), chosen


def measured_statistics(data: Dataset, mapping: ContextualMapping) -> Statistics:
    """The statistics of `data`, with everything that had to be measured."""
    return replace(
        statistics_of(data),
        n_contexts=len(mapping.labels),
        n_words=len(mapping.weights),
        token_bits=mapping.word_line.value_bits,
        weighting_bits=max(mapping.weights.values(), default=0).bit_length(),
        context_bits=mapping.context_line.value_bits,
    )


def guessed(statistics: Statistics) -> Statistics:
    """`statistics` with what was not measured taken as random data would have it."""
    n_places = statistics.seq_len if statistics.ordered else 1
    n_tokens = statistics.n_samples * statistics.seq_len
    token_bits = 2 * n_tokens.bit_length() + 1
    if statistics.vocab is not None:
        n_words = (statistics.vocab + statistics.ragged) * n_places
        n_tokens = min(n_tokens, n_words)
        token_bits = (2 * n_words).bit_length()
    n_labels = n_tokens if statistics.task == "seq-to-seq" else statistics.n_samples
    counted = min(max(0, statistics.n_samples - 1), n_tokens)
    weighting_bits = (2 * counted).bit_length()
    context_bits = (2 * statistics.seq_len).bit_length() + weighting_bits
    if statistics.task == "seq-to-seq":  # the word as well as its sequence
        context_bits += token_bits

    def known(measured: int | None, guess: int) -> int:
        return guess if measured is None else measured

    return replace(
        statistics,
        n_contexts=known(statistics.n_contexts, n_labels),
        n_words=known(statistics.n_words, counted),
        token_bits=known(statistics.token_bits, token_bits),
        weighting_bits=known(statistics.weighting_bits, weighting_bits),
        context_bits=known(statistics.context_bits, context_bits),
    )


def entrance_of(statistics: Statistics, plan: Planner = plan_lookup) -> Entrance:
    """The smaller way in for token ids without positions: φ as a column of the table, or as a network."""
    if statistics.vocab is None:
        return "vectors"
    if statistics.ordered:
        return "line"
    network = _first_plan(guessed(statistics), plan)
    column = statistics.vocab + statistics.ragged + MODEL_WIDTH
    return "table" if network is not None and column <= network.parameters(MODEL_WIDTH) else "line"


def _first_plan(statistics: Statistics, plan: Planner) -> LookupPlan | None:
    assert statistics.n_words is not None
    assert statistics.token_bits is not None
    assert statistics.weighting_bits is not None
    if not statistics.n_words:
        return None
    return plan(statistics.n_words, statistics.token_bits, statistics.weighting_bits, MODEL_WIDTH)


def size_of(statistics: Statistics, plan: Planner = plan_lookup, *, is_sparse: bool = False) -> Size:
    """The size `assemble` builds, without building.

    Parameters (dense), depth and width are exact if all statistics are measured. Numbers that were not measured are
    taken as random data would have them. The non-zero count and the bits are upper estimates.
    """
    known = guessed(statistics)
    assert known.n_contexts is not None
    assert known.context_bits is not None
    entrance = entrance_of(known, plan)
    plans = [plan(known.n_contexts, known.context_bits, known.n_classes.bit_length(), MODEL_WIDTH)]
    first = None if entrance == "table" else _first_plan(known, plan)
    if first is not None:
        plans.append(first)
    blocks = [block for each in plans for block in each.blocks()] + [(1, 3 + len(LOOKUP.words))]
    if entrance == "vectors":
        blocks.append((1, 3))
    dim = {"vectors": known.dim or 1, "line": 1, "table": 2}[entrance]
    n_vocab = 0 if known.vocab is None else known.vocab + known.ragged
    table = n_vocab * dim + (known.seq_len if known.ordered and known.vocab is not None else 0)
    n_attention = 0 if known.task == "set" else 1 + is_sparse
    outside = table + is_sparse * dim + MODEL_WIDTH * dim + MODEL_WIDTH + 2 * MODEL_WIDTH * n_attention
    n_dense = outside + sum(n * (2 * MODEL_WIDTH * units + units + MODEL_WIDTH) for n, units in blocks)
    n_nonzero = table + dim + 3 + sum(4 * n * units for n, units in blocks)
    word_bits = max(
        each.group_size * max(each.key_bits, each.label_bits) + each.key_bits + 2 for each in plans
    )
    return Size(
        parameters_dense=n_dense,
        parameters_nonzero=n_nonzero,
        depth=n_attention + sum(n for n, _ in blocks),
        width=max(MODEL_WIDTH, *(units for n, units in blocks if n)),
        weight_bits=word_bits,
        total_bits=n_nonzero * word_bits,
    )
