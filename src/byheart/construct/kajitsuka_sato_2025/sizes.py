"""How large the networks of KS25 are, without building them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from byheart.construct.kajitsuka_sato_2025.registers import LOOKUP, MODEL_WIDTH, Entrance
from byheart.network.size import Size
from byheart.program.construction import Statistics
from byheart.program.distinct_tokens import line_table_tally
from byheart.program.lookup import LookupPlan, Planner, plan_lookup
from byheart.program.lookup_size import expected_lookup_numbers, lookup_tally
from byheart.program.weight_count import (
    NOTHING,
    Tally,
    alike,
    block_parameters,
    block_width,
    size_from,
    tally,
    total,
)


@dataclass(frozen=True)
class Plans:
    """How tokens enter, and how the two lookups are split into groups; the first is None where no network weighs words."""

    entrance: Entrance
    first: LookupPlan | None
    second: LookupPlan


def plans_of(statistics: Statistics, plan: Planner = plan_lookup) -> Plans:
    """The plans for these statistics; what was not measured is guessed."""
    known = guessed(statistics)
    assert known.n_contexts is not None
    assert known.context_bits is not None
    first = _first_plan(known, plan)
    entrance = _entrance(known, first)
    second = plan(known.n_contexts, known.context_bits, known.n_classes.bit_length(), MODEL_WIDTH)
    return Plans(entrance, None if entrance == "table" else first, second)


def _entrance(statistics: Statistics, network: LookupPlan | None) -> Entrance:
    """The smaller way in for token ids without positions: φ as a column of the table, or as a network."""
    if statistics.vocab is None:
        return "vectors"
    if statistics.ordered or network is None:
        return "line"
    column = statistics.vocab + statistics.ragged + MODEL_WIDTH
    return "table" if column <= network.parameters(MODEL_WIDTH) else "line"


def _first_plan(statistics: Statistics, plan: Planner) -> LookupPlan | None:
    assert statistics.n_words is not None
    assert statistics.token_bits is not None
    assert statistics.weighting_bits is not None
    if not statistics.n_words:
        return None
    return plan(statistics.n_words, statistics.token_bits, statistics.weighting_bits, MODEL_WIDTH)


def guessed(statistics: Statistics) -> Statistics:
    """`statistics` with what was not measured taken as random data would have it."""
    n_places = statistics.seq_len if statistics.ordered else 1
    n_tokens = statistics.n_samples * statistics.seq_len
    n_labels = n_tokens if statistics.task == "seq-to-seq" else statistics.n_samples
    token_bits = 2 * n_tokens.bit_length() + 1
    if statistics.vocab is not None:
        n_words = (statistics.vocab + statistics.ragged) * n_places
        n_tokens = min(n_tokens, n_words)
        token_bits = (2 * n_words).bit_length()
    counted = min(max(0, statistics.n_samples - 1), n_tokens)
    weighting_bits = (2 * counted).bit_length()
    context_bits = (2 * statistics.seq_len).bit_length() + weighting_bits
    if (
        statistics.task == "seq-to-seq"
    ):  # the word as well as its sequence; random points need about their number squared
        context_bits = min(context_bits + token_bits, 2 * n_labels.bit_length() + 1)

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


def expected_numbers(statistics: Statistics, plans: Plans) -> dict[str, Tally]:
    """The numbers of the data, where they have not been seen: as many as there can be, of the usual length."""
    known = guessed(statistics)
    assert known.n_words is not None
    assert known.token_bits is not None
    assert known.weighting_bits is not None
    assert known.context_bits is not None
    is_line = plans.entrance != "vectors"
    return {
        "token axes": alike(1, 1) if is_line else alike(known.dim or 1, known.token_bits),
        "token offset": alike(1, known.token_bits),
        "token weights": alike(known.n_words, known.weighting_bits),
        "context axes": alike(1 if known.task == "set" else 3, known.context_bits),
        "context offset": alike(1, known.context_bits),
        "extra token": alike(1, known.token_bits),
        **named("first", expected_lookup_numbers(plans.first)),
        **named("second", expected_lookup_numbers(plans.second)),
    }


def named(part: str, numbers: Mapping[str, Tally]) -> dict[str, Tally]:
    """The numbers of one part of a network, under its name."""
    return {f"{part} {kind}": tally for kind, tally in numbers.items()}


def _of_part(part: str, numbers: Mapping[str, Tally]) -> dict[str, Tally]:
    return {
        kind.removeprefix(f"{part} "): tally for kind, tally in numbers.items() if kind.startswith(f"{part} ")
    }


def size_of(statistics: Statistics, plan: Planner = plan_lookup, *, is_sparse: bool = False) -> Size:
    """The size `assemble` builds, without building.

    Everything is exact for the statistics a construction reports. Where only the shape of the data is known, counts and
    bits of words and contexts are taken as random data have them; the non-zero count then takes every coordinate of a
    projection as non-zero, and the bits take every packed word and every edge at full length: both are upper estimates
    for those counts.
    """
    plans, known = plans_of(statistics, plan), guessed(statistics)
    numbers = expected_numbers(known, plans) if known.numbers is None else known.numbers
    lookups = [each for each in (plans.first, plans.second) if each is not None]
    blocks = [block for each in lookups for block in each.blocks()] + [(1, 3 + len(LOOKUP.words))]
    if plans.entrance == "vectors":
        blocks.append((1, 3))
    dim = {"vectors": known.dim or 1, "line": 1, "table": 2}[plans.entrance]
    n_vocab = 0 if known.vocab is None else known.vocab + known.ragged
    n_places = known.seq_len if known.ordered and known.vocab is not None else 0
    n_attention = 0 if known.task == "set" else 1 + is_sparse
    n_outside = n_vocab * dim + n_places + is_sparse * dim + MODEL_WIDTH * (dim + 1 + 2 * n_attention)
    weights = total(
        (
            _entrance_tally(known, plans.entrance, numbers),
            _mixing_tally(known, numbers, is_sparse),
            NOTHING if plans.first is None else lookup_tally(plans.first, _of_part("first", numbers)),
            # the context's own number, and what is cleared: the place, the sum of weights, four words
            numbers["context axes"] + numbers["context offset"] + alike(1 + 2 * (2 + len(LOOKUP.words)), 1),
            lookup_tally(plans.second, _of_part("second", numbers)),
            alike(1, 1),  # E_out
        )
    )
    return size_from(
        n_outside + block_parameters(blocks, MODEL_WIDTH),
        weights,
        n_attention + sum(n for n, _ in blocks),
        block_width(blocks, MODEL_WIDTH),
        known.precision,
    )


def _entrance_tally(statistics: Statistics, entrance: Entrance, numbers: Mapping[str, Tally]) -> Tally:
    """Tables, E_in, and the block that adds the offset."""
    if entrance == "vectors":
        return numbers["token axes"] + numbers["token offset"] + alike(6, 1)
    assert statistics.vocab is not None
    n_vocab = statistics.vocab + statistics.ragged
    table = line_table_tally(n_vocab, statistics.seq_len if statistics.ordered else None)
    if entrance == "line":
        return table + alike(1, 1)
    return table + numbers["token weights"] + alike(2, 1)


def _mixing_tally(statistics: Statistics, numbers: Mapping[str, Tally], is_sparse: bool) -> Tally:
    """One head that sums the weights; with an extra token, that token and the head that copies from it."""
    if statistics.task == "set":
        return NOTHING
    head = tally((1, statistics.seq_len + is_sparse))
    return head + numbers["extra token"] + alike(2, 1) if is_sparse else head
