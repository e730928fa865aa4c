"""What the construction of Mahdavi et al. (2023) holds and costs, and its entry in the registry."""

from __future__ import annotations

from byheart.construct.registry import Method, deferred
from byheart.errors import AssumptionViolated
from byheart.network.size import Size
from byheart.program.construction import Statistics
from byheart.program.float_sizes import count_of, float_size

NAME = "mahdavi-2023"
LABEL_DIM = 2
"""Classes are points on a circle, so two numbers are solved for."""


def capacity(n_heads: int, n_context: int, head_dim: int) -> int:
    """H(min(n, d_h) - 1) + 1, the theorem's number of examples."""
    return n_heads * (min(n_context, head_dim) - 1) + 1


def shared_context_capacity(n_heads: int, n_context: int) -> int:
    """H(n - 1) + 1, the true ceiling where all examples share a context: softmax patterns sum to one."""
    return n_heads * (n_context - 1) + 1


def heads_for(n_examples: int, n_context: int, head_dim: int) -> int:
    """The least H of the theorem."""
    step = min(n_context, head_dim) - 1
    if step < 1:
        raise AssumptionViolated(
            f"{NAME} needs at least two context tokens and heads of size two; here {n_context} tokens, size {head_dim}."
        )
    return max(1, -((1 - n_examples) // step))


def size_of(statistics: Statistics) -> Size:
    """The size for d_h = min(n, d), or for what building has settled (`Construction.statistics`)."""
    if statistics.dim is None or statistics.seq_len < 3 or statistics.seq_len - 1 >= statistics.dim:
        raise AssumptionViolated(
            f"{NAME} is for vectors: a query after n context vectors, 2 <= n < d, one label a sequence."
        )
    n_context, dim = statistics.seq_len - 1, statistics.dim
    head_dim = count_of(statistics, "head_dim", min(n_context, dim))
    n_heads = count_of(statistics, "heads", heads_for(statistics.n_samples, n_context, head_dim))
    dense = n_heads * (2 * head_dim * dim + LABEL_DIM * dim + LABEL_DIM**2) + LABEL_DIM * statistics.n_classes
    return float_size(statistics, dense, 1, max(dim, n_heads * max(head_dim, LABEL_DIM)))


METHOD = Method(
    name=NAME,
    source="Mahdavi, Liao & Thrampoulidis 2023, Theorem 1",
    tasks=("next-token",),
    precisions=("float64",),
    size_of=size_of,
    build=deferred("byheart.construct.mahdavi_2023.theorem"),
)
