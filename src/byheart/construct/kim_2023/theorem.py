"""Sort the n tokens of a sequence in n rounds of two attention layers, one hard and one uniform, then look up the context."""

from __future__ import annotations

import numpy as np

from byheart.construct.kim_2023.string_ids import sorted_counts, string_ids
from byheart.construct.registry import Example, Method, NoOptions
from byheart.data.dataset import Dataset
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.network.exact.dyadic import Number
from byheart.network.size import Size
from byheart.process.progress import Progress, report
from byheart.program.blocks import (
    Block,
    Program,
    RegisterAttention,
    Repeat,
    Steps,
    Unit,
    clear,
    head,
    typical,
)
from byheart.program.construction import ProgramPlan
from byheart.program.count import count
from byheart.program.distinct_tokens import (
    MaybeTable,
    assume_contexts,
    assume_separated,
    distinct_tokens,
    labelled_tokens,
    project_tokens,
    table_of_shape,
)
from byheart.program.lookup import (
    ANSWER,
    KEYS_HIGH,
    KEYS_LOW,
    LABELS_HIGH,
    LOOKUP,
    X,
    memorise_points,
    plan_lookup,
)
from byheart.program.projection import IntegerPoints, LineMap, project_apart, typical_line, typical_map

NAME = "kim-2023"
MODEL_WIDTH = len(LOOKUP)
# During sorting, registers that the lookup needs later are used for other values. All are zero again when the lookup begins.
LEFT, LARGEST, IS_LARGEST, STRING_ID = KEYS_HIGH, KEYS_LOW, LABELS_HIGH, ANSWER


def memorise_by_sorting(
    data: Dataset, options: NoOptions, rng: np.random.Generator, progress: Progress | None = None
) -> ProgramPlan:
    """Compile labelled tokens: each of n rounds finds the largest remaining token and its multiplicity, then one lookup finds the
    label.

    Source:     Kim, Kim & Mozafari (2023): token-wise separated inputs, Õ(d + n + √(nN)) parameters, 2n
                attention layers. The stages are theirs: token id, string id by selecting one maximum after the other,
                context id, label. The gadgets and the handling of repeated tokens are our own.
    Assumes:    finite inputs; equal contexts carry equal labels, where a context is a token with the multiset
                of all tokens (with their positions, where order matters).
    Guarantee:  at every labelled token the output equals label + 1 exactly, over the rationals, with hard
                attention.
    In floats:  not meant for floats. With softmax in place of hardmax, an inverse temperature
                β ≥ ln(2nΣw/gap) would suffice in real numbers, if token ids are at least 1 apart. Σw is the sum of the
                weights in the string id, and gap is the smallest distance between two string ids.
    Size:       n rounds of two attention layers and one block, then a lookup of at most nN contexts, for N sequences of n
                tokens. Width 9.
    Departs:    a uniform head counts how often a maximum occurs, because this number would be lost when the maximum is erased. Both
                heads add to the string id directly. Random integer weights replace the projection lemma.
    """
    data.require_finite()
    data.require_consistent()
    tokens = distinct_tokens(data)
    line = project_tokens(tokens, rng)
    seq_len = tokens.sequences.shape[1]
    seen = [
        sorted_counts([line.values[token] for token in row], seq_len) for row in tokens.sequences.tolist()
    ]
    strings = string_ids(seen, rng)
    report(progress, 1, 2)
    labelled = labelled_tokens(data, tokens)
    contexts = {  # the label, from 1, of every context (string id, token value)
        (strings.ids[sample], line.values[token]): label
        for sample, token, label in zip(labelled.samples, labelled.tokens, labelled.labels, strict=True)
    }
    context_line = project_apart(IntegerPoints.from_fractions(list(contexts), 2), rng)
    labels = dict(zip(context_line.values, contexts.values(), strict=True))
    plan = plan_lookup(len(labels), context_line.value_bits, data.n_classes.bit_length(), MODEL_WIDTH)
    rounds = [
        step
        for weight, count_weight in zip(strings.place_weights, strings.count_weights, strict=True)
        for step in sorting_round(weight, seq_len * count_weight, line.value_bits)
    ]
    lookup = memorise_points(labels, plan)
    report(progress, 2, 2)
    return ProgramPlan(
        program=sorting_program(tokens.table, tokens.pad, line, rounds, context_line, lookup, seq_len),
        data=data,
        method=NAME,
        theorem="KKM23, contextual mapping by sorting, reconstructed",
        assumptions=(
            *assume_contexts(data, len(labels)),
            assume_separated("tokens are (r, δ)-separated", tokens.separation),
        ),
        notes={
            "contexts": len(labels),
            "word_bits": line.value_bits,
            "largest_round_weight": max(*strings.place_weights, *strings.count_weights),
            "context_key_bits": context_line.value_bits,
            "groups": plan.n_groups,
            "group_size": plan.group_size,
        },
    )


def size_of(shape: DataShape, options: NoOptions) -> Size:
    """Return the estimated size for data of this shape.

    The numbers to which tokens and contexts are mapped are assumed to have as many bits as expected for random data. The ends
    of intervals, and the numbers that pack several keys or labels, are assumed to have their full length. The non-zero count
    assumes that no entry of a projection is zero.
    """
    n, table = shape.seq_len, table_of_shape(shape)
    key_bits = 2 * shape.context_count.bit_length() + 1
    token_bits = 2 * (shape.n_samples * n).bit_length() + 1
    if shape.vocab is not None:
        token_bits = (2 * (shape.vocab + shape.ragged) * n).bit_length()
    line = typical_line(shape, token_bits)
    plan = plan_lookup(shape.context_count, key_bits, shape.n_classes.bit_length(), MODEL_WIDTH)
    weight = typical(n.bit_length() + 2)
    rounds = Repeat(n, sorting_round(weight, weight, token_bits))
    return count(sorting_program(table, None, line, [rounds], typical_map(2, key_bits), plan.outline(), n))


def sorting_program(
    table: MaybeTable,
    pad: int | None,
    token_line: LineMap,
    rounds: Steps,
    context_line: LineMap,
    lookup: Steps,
    seq_len: int,
) -> Program:
    """Build the program that copies the token's value, sorts in rounds, maps the context to a number on a line, and looks up its
    label.
    """
    places = token_line.coefficients
    # add the offset to both copies, because E_in cannot add it
    shift = Block((Unit({}, 0, {}),), {X: token_line.offset, LEFT: token_line.offset})
    steps = (*(() if table is not None else (shift,)), *rounds, context_block(context_line), *lookup)
    return Program(LOOKUP, {X: places, LEFT: places}, steps, ANSWER, seq_len, table, pad)


def sorting_round(
    weight: Number, count_weight: Number, place_bits: int
) -> tuple[Block | RegisterAttention, ...]:
    """Return the steps of one round. They find the largest remaining value, count how often it occurs, and erase it. They add the
    value and the count, each times its weight, to the string id (the number of the whole sequence).

    The keys are the remaining values. The query is the token's own value, which is positive, so every token attends to the
    largest key. `count_weight` includes the factor n that turns the mean of a uniform head into a sum.
    """
    largest = head(value={LEFT: 1}, output={LARGEST: 1, STRING_ID: weight}, key={LEFT: 1}, query={X: 1})
    count = head(value={IS_LARGEST: 1}, output={STRING_ID: count_weight})
    return (
        RegisterAttention((largest,), "hardmax"),
        erasing_block(1 << place_bits),
        RegisterAttention((count,), "uniform"),
    )


def erasing_block(above_all: int) -> Block:
    """Return the block that marks and erases the tokens with the largest value M. Different values differ by at least 2.

    For a token with value z, ReLU(z - M + 1) is 1 if z = M, and 0 otherwise. With B = `above_all`, ReLU(z - B·(M - z)) is z if
    z = M, and 0 otherwise, because B·2 exceeds every value. When all values are erased, z = M = 0 marks every token, as
    `sorted_counts` expects.
    """
    return Block(
        (
            Unit({LEFT: 1, LARGEST: -1}, 1, {IS_LARGEST: 1}),
            Unit({LEFT: 1 + above_all, LARGEST: -above_all}, 0, {LEFT: -1}),
            *clear(LARGEST, IS_LARGEST),
        )
    )


def context_block(line: LineMap) -> Block:
    """Return the block that maps each context (string id, token value) to its own number on a line."""
    return Block((line.unit((STRING_ID, X), X), *clear(X, STRING_ID, IS_LARGEST)))


METHOD = Method(
    name=NAME,
    source="Kim, Kim & Mozafari 2023",
    page="rivals.md",
    statements=("KS25-L C.1", "KS25-eq12"),
    plan=memorise_by_sorting,
    size_of=size_of,
    tasks=("seq-to-seq", "next-token"),
    precisions=("exact",),
    example=lambda: Example(random_tokens(12, 3, 9, seed=0, task="seq-to-seq")),
)
