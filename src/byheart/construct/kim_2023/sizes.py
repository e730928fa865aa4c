"""How large the network of `theorem` is, without building it."""

from __future__ import annotations

from byheart.construct.kim_2023.sort_rounds import MODEL_WIDTH, erasing_step
from byheart.network.size import Size
from byheart.program.construction import Statistics
from byheart.program.distinct_tokens import line_table_tally
from byheart.program.labelled_tokens import n_labelled
from byheart.program.lookup import plan_lookup
from byheart.program.lookup_size import expected_lookup_numbers, lookup_tally
from byheart.program.weight_count import (
    NOTHING,
    alike,
    block_parameters,
    block_width,
    size_from,
    tally_of_steps,
    total,
)


def size_of(statistics: Statistics) -> Size:
    """The size `memorise_by_sorting` builds, without building.

    Everything is exact for the statistics a construction reports. Where only the shape of the data is known, the bits of
    tokens and contexts are taken as random data have them, the non-zero count takes the projections as full, and the bits
    take every packed word and every edge at full length.
    """
    n, m = statistics.seq_len, MODEL_WIDTH
    has_table = statistics.vocab is not None
    n_vocab = (statistics.vocab or 0) + (1 if statistics.ragged else 0)
    n_places = n if statistics.ordered and has_table else 0
    dim = 1 if has_table else (statistics.dim or 1)
    n_contexts = n_labelled(statistics)
    guess = (2 * n_vocab * n).bit_length() if has_table else 2 * (statistics.n_samples * n).bit_length() + 1
    token_bits = statistics.token_bits or guess
    key_bits = statistics.context_bits or 2 * n_contexts.bit_length() + 1
    plan = plan_lookup(n_contexts, key_bits, statistics.n_classes.bit_length(), m)
    numbers = statistics.numbers
    if numbers is None:
        numbers = {
            "token axes": alike(1, 1) if has_table else alike(dim, token_bits),
            "token offset": NOTHING if has_table else alike(1, token_bits),
            "round weights": alike(2 * n, n.bit_length() + 2),
            "context axes": alike(2, key_bits),
            "context offset": alike(1, key_bits),
            **expected_lookup_numbers(plan),
        }
    blocks = [(n, 4), (1, 4), *plan.blocks(), *([] if has_table else [(1, 1)])]
    weights = total(
        (
            line_table_tally(n_vocab, n_places or None),
            (numbers["token axes"] + numbers["token offset"]).times(2),  # two copies of a token's place
            tally_of_steps([erasing_step(1 << token_bits)]).times(n),
            alike(5 * n, 1) + numbers["round weights"],  # two heads a round
            numbers["context axes"] + numbers["context offset"] + alike(1 + 2 * 3, 1),
            lookup_tally(plan, numbers),
            alike(1, 1),  # E_out
        )
    )
    return size_from(
        n_vocab + n_places + m * dim + m + n * 6 * m + block_parameters(blocks, m),
        weights,
        2 * n + sum(n_blocks for n_blocks, _ in blocks),
        block_width(blocks, m),
    )
