"""What DPC24's construction costs, and its entry in the registry; building it is left to `theorem`."""

from __future__ import annotations

from byheart.construct.registry import Method, deferred
from byheart.errors import AssumptionViolated
from byheart.network.size import Size
from byheart.program.construction import Statistics
from byheart.program.float_sizes import count_of, float_size

NAME = "dana-2024"
HEAD_DIM = 4
"""The default d_h, where d is not smaller: many small heads differ more than few large ones at the same size."""


def default_dim(task: str, n_outputs: int) -> int:
    """d unless asked otherwise: a circle for associations (Corollary 1), N - 1 for distributions (Proposition 2)."""
    return max(2, n_outputs - 1) if task == "distribution" else 2


def heads_needed(n_sequences: int, dim: int, head_dim: int, n_last_tokens: int | None = None) -> int:
    """The least H with H·d_h + d >= T (DPC24 Theorem 1).

    Departs: the skip connection sees only the last token, so with fewer than d different ones its rank is their
             number, not d, and heads must make up for it.
    """
    skip_rank = dim if n_last_tokens is None else min(dim, n_last_tokens)
    return max(0, -((skip_rank - n_sequences) // head_dim))


def size_of(statistics: Statistics) -> Size:
    """The size of mode `theorem` by default, if there are as many different last tokens as dimensions.

    Where building has settled otherwise (`Construction.statistics`), the size of what it built.
    """
    if statistics.vocab is None:
        raise AssumptionViolated("this construction embeds tokens, and these inputs are vectors.")
    is_distribution = statistics.task == "distribution"
    seq_len = statistics.seq_len - (1 if is_distribution else 0)
    n_sequences = statistics.n_contexts
    if n_sequences is None:
        n_sequences = statistics.n_samples * (seq_len if is_distribution else 1)
    dim = count_of(statistics, "dim", default_dim(statistics.task, statistics.n_classes))
    head_dim = count_of(statistics, "head_dim", min(dim, HEAD_DIM))
    n_heads = count_of(statistics, "heads", heads_needed(n_sequences, dim, head_dim))
    dense = dim * (seq_len + statistics.vocab + statistics.n_classes + 4 * head_dim * n_heads)
    return float_size(statistics, dense, 1, max(dim, head_dim * n_heads))


METHOD = Method(
    name=NAME,
    source="Dana, Pydi & Chevaleyre 2024, Theorem 1 and Corollary 1",
    tasks=("next-token", "distribution"),
    precisions=("float64", "float32"),
    size_of=size_of,
    build=deferred("byheart.construct.dana_2024.theorem"),
)
