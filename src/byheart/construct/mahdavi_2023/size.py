"""What the construction of Mahdavi et al. (2023) holds and costs, and its entry in the registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from byheart.construct.registry import Example, closed_form
from byheart.data.generators import uniform_vectors
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.attention_only.spec import AttentionOnlySpec
from byheart.network.size import Size, size_of_spec
from byheart.reader import within

NAME = "mahdavi-2023"
LABEL_DIM = 2
"""Classes are points on a circle, so two numbers are solved for."""


def capacity(n_heads: int, n_context: int, head_dim: int) -> int:
    """H(min(n, d_h) - 1) + 1, the theorem's number of examples."""
    return n_heads * (min(n_context, head_dim) - 1) + 1


def heads_for(n_examples: int, n_context: int, head_dim: int) -> int:
    """The least H of the theorem."""
    step = min(n_context, head_dim) - 1
    if step < 1:
        raise AssumptionViolated(
            f"{NAME} needs at least two context tokens and heads of size two; here {n_context} tokens, size {head_dim}."
        )
    return max(1, -((1 - n_examples) // step))


@dataclass(frozen=True)
class MahdaviOptions:
    """The options of `mahdavi-2023`: d_h, by default min(n, d), and H, by default the least of the theorem."""

    head_dim: Annotated[int, within(1, 1 << 31)] | None = None
    n_heads: Annotated[int, within(1, 1 << 31)] | None = None


def size_of(shape: DataShape, options: MahdaviOptions) -> Size:
    """H heads with 2·d_h·d + 2·d + 4 parameters, and two numbers a class."""
    if shape.dim is None or shape.seq_len < 3 or shape.seq_len - 1 >= shape.dim:
        raise AssumptionViolated(
            f"{NAME} is for vectors: a query after n context vectors, 2 <= n < d, one label a sequence."
        )
    n_context, dim = shape.seq_len - 1, shape.dim
    head_dim = options.head_dim or min(n_context, dim)
    n_heads = options.n_heads or heads_for(shape.n_samples, n_context, head_dim)
    sizes = (0, shape.seq_len, dim, n_heads, head_dim, LABEL_DIM, LABEL_DIM, shape.n_classes)
    return size_of_spec(AttentionOnlySpec("float64", *sizes, skip=False, sees_itself=False))


METHOD = closed_form(
    NAME,
    "Mahdavi, Liao & Thrampoulidis 2023, Theorem 1",
    size_of,
    options=MahdaviOptions,
    example=lambda: Example(uniform_vectors(8, 4, 6, 3, seed=0)),
    statements=("DPC24-S6", "DPC24-P3"),
)
