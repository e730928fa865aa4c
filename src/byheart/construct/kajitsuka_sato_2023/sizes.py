"""How large the network of `theorem` is, without building it, and what the source promises."""

from __future__ import annotations

from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.construct.kajitsuka_sato_2023.staircase import round_to_whole
from byheart.network.size import Size
from byheart.program.construction import Statistics
from byheart.program.distinct_tokens import line_table_tally
from byheart.program.labelled_tokens import n_labelled
from byheart.program.weight_count import (
    alike,
    block_parameters,
    block_width,
    size_from,
    tally_of_steps,
    total,
)

PLACE, CONTEXT, VALUE, ANSWER = REGISTERS = ("place", "context", "value", "answer")
MODEL_WIDTH = len(REGISTERS)


def theorem_size(n_samples: int, seq_len: int, dim: int, head_size: int = 1) -> TheoremSize:
    """Corollary 1: 4(s + d) + d(2nN + d) parameters, real weights, tokens of a sequence distinct."""
    n_tokens = n_samples * seq_len
    return TheoremSize(
        name="KS23 Corollary 1",
        statement="",
        width=2 * n_tokens,
        depth=1,
        parameters=4 * (head_size + dim) + dim * (2 * n_tokens + dim),
        weight_bits=0,
        assumptions=("no token occurs twice in a sequence", "tokens are separated", "real weights"),
        source="Kajitsuka & Sato 2023, Corollary 1",
    )


def size_of(statistics: Statistics) -> Size:
    """The size `memorise_by_one_head` builds, without building.

    Everything is exact for the statistics a construction reports. Where only the shape of the data is known, everything but
    the non-zero count is exact if all contexts are distinct; that count takes no number of the data as zero.
    """
    m, n_contexts = MODEL_WIDTH, n_labelled(statistics)
    has_table = statistics.vocab is not None
    n_vocab = (statistics.vocab or 0) + (1 if statistics.ragged else 0)
    n_places = statistics.seq_len if has_table and statistics.ordered else 0
    dim = 1 if has_table else (statistics.dim or 1)
    n_bits = statistics.n_classes.bit_length()
    n_units = max(1, n_contexts - 1) + 1
    numbers = statistics.numbers
    if numbers is None:
        per_context = alike(n_contexts - 1, 64)
        numbers = {
            "axes": alike(dim, 64),
            "mixture": alike(2, 64),
            "knots": per_context,
            "slope changes": per_context,
        }
    blocks = [(1, n_units), (n_bits, 1), (n_bits, 2), *([] if has_table else [(1, 1)])]
    weights = total(
        (
            line_table_tally(n_vocab, n_places or None),
            numbers["axes"],
            alike(1 - has_table, 64),  # 3/2 is added to the places of vectors
            alike(4, 64),  # the head
            numbers["mixture"].times(n_contexts - 1) + numbers["knots"] + numbers["slope changes"],
            alike(3, 64),  # the first value, and the unit that takes the place away
            tally_of_steps(round_to_whole(VALUE, ANSWER, PLACE, n_bits)),
            alike(1, 64),  # E_out
        )
    )
    return size_from(
        n_vocab + n_places + m * dim + 4 * m + m + block_parameters(blocks, m),
        weights,
        1 + sum(n_blocks for n_blocks, _ in blocks),
        block_width(blocks, m),
        "float64",
    )
