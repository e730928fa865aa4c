"""What a linear associative memory costs, and its entry in the registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from byheart.construct.registry import Example, closed_form
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.network.attention_only.spec import AttentionOnlySpec
from byheart.network.size import Size, size_of_spec
from byheart.program.single_tokens import require_one_token
from byheart.reader import within

NAME = "linear-memory"


@dataclass(frozen=True)
class LinearMemoryOptions:
    """The options of `linear-memory`.

    dim   d; by default the number of associations
    rule  how W is found; by default the pseudo-inverse where d is as large as the number of associations, else regression
    """

    precision: Literal["float64", "float32"] = "float64"
    dim: Annotated[int, within(1, 1 << 31)] | None = None
    rule: Literal["pseudo-inverse", "hebbian", "regression"] | None = None


def size_of(shape: DataShape, options: LinearMemoryOptions) -> Size:
    """The size at d = N, where the pseudo-inverse is exact: W and the identity after it, and d numbers a token and a label.

    W is the values of one head of size 1 that has nothing to choose from, the identity its output.
    """
    n_vocab, n_items = require_one_token(NAME, shape)
    dim = options.dim or n_items
    sizes = (n_vocab, 1, dim, 1, 1, dim, dim, shape.n_classes)
    return size_of_spec(AttentionOnlySpec(options.precision, *sizes, skip=False))


METHOD = closed_form(
    NAME,
    "Cabannes, Dohmatob & Bietti 2024",
    size_of,
    precisions=("float64", "float32"),
    options=LinearMemoryOptions,
    example=lambda: Example(random_tokens(12, 1, 30, 3, seed=0)),
    statements=("DPC24-S6",),
)
