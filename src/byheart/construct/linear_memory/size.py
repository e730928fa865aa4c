"""What a linear associative memory costs, and its entry in the registry."""

from __future__ import annotations

from byheart.construct.registry import Method, deferred
from byheart.network.size import Size
from byheart.program.construction import Statistics
from byheart.program.float_sizes import count_of, float_size
from byheart.program.single_tokens import require_one_token

NAME = "linear-memory"


def size_of(statistics: Statistics) -> Size:
    """The size at d = N, where the pseudo-inverse is exact: W and the identity after it, and d numbers a token and a label."""
    n_items = require_one_token(NAME, statistics)
    assert statistics.vocab is not None
    dim = count_of(statistics, "dim", n_items)
    # one head of size 1 that has nothing to choose from, W as its values, the identity as its output
    dense = dim * (statistics.vocab + 1 + 2 + 2 * dim + statistics.n_classes)
    return float_size(statistics, dense, 1, dim)


METHOD = Method(
    name=NAME,
    source="Cabannes, Dohmatob & Bietti 2024",
    tasks=("next-token",),
    precisions=("float64", "float32"),
    size_of=size_of,
    build=deferred("byheart.construct.linear_memory.theorem"),
)
