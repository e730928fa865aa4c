"""What a hidden layer made of attention heads costs, and its entry in the registry."""

from __future__ import annotations

from byheart.construct.registry import Method, deferred
from byheart.network.size import Size
from byheart.program.construction import Statistics
from byheart.program.float_sizes import float_size
from byheart.program.single_tokens import require_one_token

NAME = "attention-as-mlp"
DIM = 2
"""A token is its place on a line and the constant 1."""

LABEL_DIM = 2
"""Labels are points on a circle."""


def size_of(statistics: Statistics) -> Size:
    """One head a token to store: query, key, value and output have two numbers each."""
    n_items = require_one_token(NAME, statistics)
    assert statistics.vocab is not None
    dense = DIM * (statistics.vocab + 1) + n_items * (3 * DIM + LABEL_DIM) + LABEL_DIM * statistics.n_classes
    return float_size(statistics, dense, 1, max(DIM, n_items))


METHOD = Method(
    name=NAME,
    source="Huben & Morris 2023",
    tasks=("next-token",),
    precisions=("float64",),
    size_of=size_of,
    build=deferred("byheart.construct.attention_as_mlp.theorem"),
)
