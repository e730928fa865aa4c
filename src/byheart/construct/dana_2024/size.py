"""The size of DPC24's construction, and its entry in the registry; `theorem` builds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from byheart.construct.registry import Example, Method, deferred_plan
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.attention_only.architecture import AttentionOnlySpec
from byheart.network.size import Size, size_of_spec
from byheart.records.reader import within

NAME = "dana-2024"
HEAD_DIM = 4
"""The default d_h, where d is not smaller: many small heads differ more than few large ones at the same size."""


def heads_needed(n_sequences: int, dim: int, head_dim: int, n_last_tokens: int | None = None) -> int:
    """The least H with H·d_h + d >= T (DPC24 Theorem 1).

    Departs: the skip connection sees only the last token, so with fewer than d different ones its rank is their
             number, not d, and heads must make up for it.
    """
    skip_rank = dim if n_last_tokens is None else min(dim, n_last_tokens)
    return max(0, -((skip_rank - n_sequences) // head_dim))


@dataclass(frozen=True)
class DanaOptions:
    """The options of `dana-2024`.

    mode      `theorem`: H·d_h + d >= T, one solve; `compact`: the whole model fitted, the fewest heads by bisection
    dim       d; by default 2 for associations (Corollary 1), min(N - 1, T) for distributions after T contexts (Proposition 2)
              and 10 for compact
    head_dim  d_h; by default d up to 4, and d for compact
    key_dim   theorem: the rank of W_QK, d_h unless given; 1 is enough for Lemma 2 and takes the fewest parameters
    n_heads   compact alone: heads to fit; None for the fewest found. The theorem says how many it takes.
    """

    precision: Literal["float64", "float32"] = "float64"
    mode: Literal["theorem", "compact"] = "theorem"
    dim: Annotated[int, within(1, 1 << 31)] | None = None
    head_dim: Annotated[int, within(1, 1 << 31)] | None = None
    key_dim: Annotated[int, within(1, 1 << 31)] | None = None
    n_heads: Annotated[int, within(1, 1 << 31)] | None = None

    def __post_init__(self) -> None:
        if self.mode == "theorem" and self.n_heads is not None:
            raise UsageError(
                f"n_heads={self.n_heads} goes with mode=compact; in mode theorem the data decide how many heads there are.\n"
                "  Leave it out, or add mode=compact.",
                n_heads=self.n_heads,
            )

    def sizes(self, task: str, n_outputs: int, n_contexts: int) -> tuple[int, int]:
        """d and d_h, as given or by default."""
        if self.mode == "compact":
            dim = self.dim or 10
            return dim, self.head_dim or dim
        # a circle for associations (Corollary 1), min(N - 1, T) for distributions (Proposition 2)
        dim = self.dim or (max(2, min(n_outputs - 1, n_contexts)) if task == "distribution" else 2)
        return dim, self.head_dim or min(dim, HEAD_DIM)


def size_of(shape: DataShape, options: DanaOptions) -> Size:
    """The size of mode `theorem`; an upper bound for `compact`, which looks for fewer heads."""
    if shape.vocab is None:
        raise AssumptionViolated("this construction embeds tokens, and these inputs are vectors.")
    dim, head_dim = options.sizes(shape.task, shape.n_classes, shape.sequence_count)
    n_heads = heads_needed(shape.sequence_count, dim, head_dim, shape.n_last_tokens)
    if options.mode == "compact":
        n_heads = options.n_heads or max(1, n_heads)
    key_dim = head_dim if options.mode == "compact" else options.key_dim or head_dim
    sizes = (shape.vocab, shape.context_len, dim, n_heads, key_dim, head_dim, dim, shape.n_classes)
    return size_of_spec(AttentionOnlySpec(options.precision, *sizes))


METHOD = Method(
    name=NAME,
    source="Dana, Pydi & Chevaleyre 2024, Theorem 1 and Corollary 1",
    tasks=("next-token", "distribution"),
    precisions=("float64", "float32"),
    size_of=size_of,
    plan=deferred_plan("byheart.construct.dana_2024.theorem"),
    options=DanaOptions,
    example=lambda: Example(random_tokens(20, 3, 12, 3, seed=0)),
    page="closed_forms.md",
    statements=("DPC24-T1", "DPC24-C1"),
)
