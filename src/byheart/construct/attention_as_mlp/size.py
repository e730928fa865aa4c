"""What a hidden layer made of attention heads costs, and its entry in the registry."""

from __future__ import annotations

from byheart.construct.registry import Example, NoOptions, closed_form
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.network.attention_only.spec import AttentionOnlySpec
from byheart.network.size import Size, size_of_spec
from byheart.program.single_tokens import require_one_token

NAME = "attention-as-mlp"
DIM = 2
"""A token is its place on a line and the constant 1."""

LABEL_DIM = 2
"""Labels are points on a circle."""


def size_of(shape: DataShape, options: NoOptions) -> Size:
    """One head a token to store: query, key, value and output have two numbers each."""
    n_vocab, n_items = require_one_token(NAME, shape)
    sizes = (n_vocab, 1, DIM, n_items, 1, 1, LABEL_DIM, shape.n_classes)
    return size_of_spec(AttentionOnlySpec("float64", *sizes, skip=False, zero_token=True))


METHOD = closed_form(
    NAME,
    "Huben & Morris 2023",
    size_of,
    example=lambda: Example(random_tokens(12, 1, 30, 3, seed=0)),
    statements=("DPC24-P3",),
)
