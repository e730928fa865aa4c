"""From a contextual mapping to a network: E_out ∘ F2 ∘ (attention or pooling) ∘ F1 ∘ E_in. Its size is in `sizes`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from byheart.construct.kajitsuka_sato_2025.contextual_mapping import ContextualMapping
from byheart.construct.kajitsuka_sato_2025.registers import (
    CHANNEL,
    LOOKUP,
    MODEL_WIDTH,
    REGISTERS,
    SUM,
    Entrance,
)
from byheart.construct.kajitsuka_sato_2025.sizes import named, plans_of
from byheart.data.dataset import Dataset
from byheart.network.exact.dyadic import Number, SparseMatrix, as_sparse
from byheart.network.transformer.architecture import Attention, Embedding, Head, Layer, SumPool, Transformer
from byheart.program.blocks import Block, Blocks, Unit, clear
from byheart.program.construction import Statistics, statistics_of
from byheart.program.emit import emit_layers
from byheart.program.lookup import (
    LookupPlan,
    Planner,
    memorise_points,
    plan_lookup,
    weigh_words,
)
from byheart.program.lookup_size import lookup_numbers
from byheart.program.projection import Projection
from byheart.program.weight_count import tally


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
    entrance = plans_of(_counted(data, mapping), plan).entrance
    first_program, first = _first_part(mapping, entrance, plan)
    second_program, second = _second_part(mapping, data, plan)
    network = Transformer(
        w_in=_w_in(mapping, entrance),
        layers=(
            *emit_layers(first_program, REGISTERS),
            *_mixing(data, is_sparse),
            *emit_layers(second_program, REGISTERS),
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
) -> tuple[Blocks, LookupPlan | None]:
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
    shift = Block(
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
    axis, entry = _beyond(mapping.word_line)
    dim = 2 if entrance == "table" else len(mapping.word_line.coefficients)
    return SparseMatrix.of((1, dim), {(0, axis): entry})


def _beyond(line: Projection) -> tuple[int, int]:
    """(axis, entry) of a vector that lies at least 2 beyond every point of the line."""
    axis = next(at for at, value in enumerate(line.coefficients) if value)
    beyond = max(line.values) + 2 - line.offset
    # a whole number of the right sign: coefficient · entry >= beyond
    return axis, ceil(abs(beyond) / abs(line.coefficients[axis])) * (1 if line.coefficients[axis] > 0 else -1)


def _second_part(mapping: ContextualMapping, data: Dataset, plan: Planner) -> tuple[Blocks, LookupPlan]:
    """F2: the context on its line, then its label (Lemma C.1)."""
    line = mapping.context_line
    context = (LOOKUP.into,) if data.task == "set" else (LOOKUP.into, LOOKUP.x, SUM)
    reads = {name: value for name, value in zip(context, line.coefficients, strict=True) if value}
    place = Unit(reads, line.offset, {LOOKUP.x: 1})
    # values on the line are at least 2, so ReLU changes nothing; what the first part left behind is never negative
    step = Block((place, *clear(LOOKUP.x, LOOKUP.into, *LOOKUP.words)))
    chosen = plan(len(mapping.labels), line.value_bits, data.n_classes.bit_length(), MODEL_WIDTH)
    return (step, *memorise_points(mapping.labels, chosen, LOOKUP)), chosen


def measured_statistics(data: Dataset, mapping: ContextualMapping, plan: Planner = plan_lookup) -> Statistics:
    """The statistics of `data`, with everything that had to be measured: `size_of` of these is what `assemble` builds."""
    counted = _counted(data, mapping)
    plans = plans_of(counted, plan)
    words, contexts = mapping.word_line, mapping.context_line
    weights: dict[Fraction, int] = {words.values[word]: weight for word, weight in mapping.weights.items()}
    return replace(
        counted,
        numbers={
            "token axes": tally(words.coefficients),
            "token offset": tally([words.offset]),
            "token weights": tally(mapping.weights.values()),
            "context axes": tally(contexts.coefficients),
            "context offset": tally([contexts.offset]),
            "extra token": tally([_beyond(words)[1]]),
            **named("first", lookup_numbers(weights, plans.first)),
            **named("second", lookup_numbers(mapping.labels, plans.second)),
        },
    )


def _counted(data: Dataset, mapping: ContextualMapping) -> Statistics:
    """The statistics that the plans depend on."""
    return replace(
        statistics_of(data),
        n_contexts=len(mapping.labels),
        n_words=len(mapping.weights),
        token_bits=mapping.word_line.value_bits,
        weighting_bits=max(mapping.weights.values(), default=0).bit_length(),
        context_bits=mapping.context_line.value_bits,
    )
