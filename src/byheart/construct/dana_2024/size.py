"""The size of DPC24's construction, and its entry in the registry. The module `theorem` builds the network."""

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
"""The default head size d_h in mode `theorem`, unless the dimension d is smaller. For the same number of parameters, the outputs
of many small heads are further from linearly dependent than those of a few large heads."""


def heads_needed(n_sequences: int, dim: int, head_dim: int, n_last_tokens: int | None = None) -> int:
    """Return the smallest number of heads H with H·d_h + d >= T: head size d_h, dimension d, T sequences (DPC24 Theorem 1).

    Departs: the skip connection sees only the last token. If there are fewer than d distinct last tokens, the rank of the skip
    connection is only the number of distinct last tokens, and more heads are needed.
    """
    skip_rank = dim if n_last_tokens is None else min(dim, n_last_tokens)
    return max(0, -((skip_rank - n_sequences) // head_dim))


@dataclass(frozen=True)
class DanaOptions:
    """The options of `dana-2024`, for T contexts over N tokens, and H heads of size d_h in dimension d.

    mode      `theorem`: enough heads for H·d_h + d >= T; one linear solve gives their output matrices. `compact`: all
              weights are fitted, and bisection searches for the fewest heads
    dim       d. Default: 2 for associations (Corollary 1); min(N - 1, T), but at least 2, for distributions (Proposition 2); 10 for
              compact
    head_dim  d_h. Default: d but at most 4; d for compact
    key_dim   only for mode theorem: the rank of the query-key matrix. Default: d_h. Rank 1 suffices for Lemma 2 and takes the
              fewest parameters
    n_heads   only for mode compact: the number of heads to fit. Default: the fewest that are found to suffice
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
                f"n_heads={self.n_heads} needs mode=compact; with mode=theorem, the data determine the number of heads.\n"
                "  Leave n_heads out, or add mode=compact.",
                n_heads=self.n_heads,
            )

    def sizes(self, task: str, n_outputs: int, n_contexts: int) -> tuple[int, int]:
        """Return the dimension d and the head size d_h, as given or by default."""
        if self.mode == "compact":
            dim = self.dim or 10
            return dim, self.head_dim or dim
        # a circle for associations (Corollary 1), min(N - 1, T) for distributions (Proposition 2)
        dim = self.dim or (max(2, min(n_outputs - 1, n_contexts)) if task == "distribution" else 2)
        return dim, self.head_dim or min(dim, HEAD_DIM)


def require_dimensions(dim: int, head_dim: int) -> None:
    """Raise `UsageError` unless the dimension is at least 2 (DPC24 Proposition 3), and that of the heads from 1 to `dim`."""
    if dim < 2 or not 1 <= head_dim <= dim:
        raise UsageError(
            f"dim must be at least 2, and head_dim from 1 to dim; got dim = {dim} and head_dim = {head_dim}.",
            dim=dim,
            head_dim=head_dim,
        )


def require_rank(n_tokens: int, n_sequences: int, dim: int) -> None:
    """Raise `AssumptionViolated` if every sequence has one token and there are more than `dim` sequences.

    With one token, a head's output is a linear function of the vector of this token. So heads add nothing to the rank of the
    linear system, which is at most `dim`.
    """
    if n_tokens == 1 and n_sequences > dim:
        raise AssumptionViolated(
            f"in sequences of one token there is nothing to attend to, so {n_sequences:,} sequences need dim >= {n_sequences}.\n"
            f"  Use dim = {n_sequences}, mode compact, or another method.",
            n_sequences=n_sequences,
            dim=dim,
        )


def size_of(shape: DataShape, options: DanaOptions) -> Size:
    """Return the size of mode `theorem`. For `compact` this is an upper bound, because that mode searches for fewer heads."""
    if shape.vocab is None:
        raise AssumptionViolated(
            "this construction embeds token ids, but these inputs are vectors.\n"
            "  Choose a construction for vectors, such as kajitsuka-sato-2025."
        )
    dim, head_dim = options.sizes(shape.task, shape.n_classes, shape.sequence_count)
    n_heads = heads_needed(shape.sequence_count, dim, head_dim, shape.n_last_tokens)
    if options.mode == "theorem":
        require_dimensions(dim, head_dim)
        require_rank(shape.context_len, shape.sequence_count, dim)
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
