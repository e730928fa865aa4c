"""Mahdavi, Liao & Thrampoulidis (2023): multi-head attention memorises H(min(n, d_h) - 1) + 1 examples.

There are H heads of size d_h, and each example has n context tokens and a query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from jaxtyping import Float

from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.bounds.predecessors import MAHDAVI
from byheart.construct.registry import Example, Method
from byheart.data.assumption import Assumption
from byheart.data.dataset import Dataset
from byheart.data.generators import uniform_vectors
from byheart.data.sequences import VectorSequences
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.attention_only.architecture import AttentionOnly, AttentionOnlySpec
from byheart.network.memoriser import Memoriser
from byheart.network.size import Size, size_of_spec
from byheart.process.progress import Progress
from byheart.program.circle import circle_points
from byheart.program.construction import Construction
from byheart.program.linear_solve import ordered_sums
from byheart.records.reader import within

NAME = "mahdavi-2023"
LABEL_DIM = 2
"""The dimension of the vectors that represent classes. The vectors are points on a circle, so the linear system has two right-hand
sides."""

SCORE_SPREAD = 3.0
"""Scale of the attention scores. Values from 1 to 30 work equally well; much larger values lose precision if all examples share a
context."""


def capacity(n_heads: int, n_context: int, head_dim: int) -> int:
    """Return how many examples H heads of size d_h memorise by the theorem: H(min(n, d_h) - 1) + 1, for n context tokens."""
    return n_heads * (min(n_context, head_dim) - 1) + 1


def heads_for(n_examples: int, n_context: int, head_dim: int) -> int:
    """Return the smallest number of heads that, by the theorem, memorise `n_examples` examples."""
    step = min(n_context, head_dim) - 1
    if step < 1:
        raise AssumptionViolated(
            f"{NAME} needs at least two context tokens and heads of size at least two; here the number of context tokens is "
            f"{n_context} and head_dim is {head_dim}.\n  Use longer sequences or a larger head_dim.",
            n_context=n_context,
            head_dim=head_dim,
        )
    return max(1, -((1 - n_examples) // step))


@dataclass(frozen=True)
class MahdaviOptions:
    """The options of `mahdavi-2023`.

    head_dim  the size of a head; by default the number of context tokens or the dimension, whichever is smaller
    n_heads   the number of heads; by default the smallest number that the theorem allows
    """

    head_dim: Annotated[int, within(1, 1 << 31)] | None = None
    n_heads: Annotated[int, within(1, 1 << 31)] | None = None


@dataclass(frozen=True, eq=False)
class HeadFeatures:
    """The outputs of every head on every example (a row for each example), with their rank and condition number."""

    values: Float[np.ndarray, "n_examples n_features"]
    rank: int
    condition: float


def head_features(
    network: AttentionOnly, vectors: Float[np.ndarray, "n_examples seq_len dim"]
) -> HeadFeatures:
    """Compute the outputs of all heads on every example, with their numerical rank and condition number."""
    from byheart.network.attention_only.module import AttentionOnlyModule  # this module loads torch
    from byheart.network.batches import run_in_batches

    module = AttentionOnlyModule(network).double().eval()
    per_sample = network.n_heads * max(network.seq_len, network.dim)
    found = run_in_batches(lambda x: module.attend(x, x).flatten(1), vectors, per_sample)
    sizes = np.linalg.svd(found, compute_uv=False)
    rank = int((sizes > sizes[0] * max(found.shape) * np.finfo(np.float64).eps).sum())
    smallest = sizes[min(len(vectors), len(sizes)) - 1]
    return HeadFeatures(found, rank, float(sizes[0] / smallest) if smallest > 0 else float("inf"))


@ordered_sums()
def plan(
    data: Dataset, options: MahdaviOptions, rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile examples (n context vectors followed by a query vector) into one attention layer without skip connection.

    Source:     Mahdavi et al. (2023), Theorem 1, as restated by DPC24 section 6: T <= H(r - 1) + 1 with r = min(n, d_h), for T
                examples and H heads of size d_h. The proof is reconstructed: full rank of the matrix Z of head outputs is an
                open, analytic condition, so random heads satisfy it almost surely; then the value and output maps are one
                linear solve.
    Assumes:    n < d context vectors of full rank, in dimension d; distinct (context, query) pairs.
    Guarantee:  if Z has full rank, which is checked, every example's right label has the largest logit, unless rounding changes
                that. The answers of the built network are not checked here; `verify` checks them.
    Size:       `size_of`: H heads with 2·d_h·d + 2·d + 4 parameters each, and two numbers per class.
    """
    if not isinstance(data.inputs, VectorSequences) or data.task != "next-token":
        raise AssumptionViolated(
            f"{NAME} needs vectors with one label per sequence. Its theorem does not cover tokens: it assumes "
            "linearly independent queries (the last vectors), but sequences of tokens may end in the same token.\n"
            "  Choose another method, such as retrieval or madden-2024."
        )
    x = data.inputs.values
    n_examples, seq_len, dim = x.shape
    n_context = seq_len - 1
    _check_assumptions(x, n_context, dim)
    head_dim = options.head_dim or min(n_context, dim)
    n_heads = options.n_heads or heads_for(n_examples, n_context, head_dim)
    size = np.sqrt(SCORE_SPREAD / (dim * np.sqrt(head_dim)))
    network = AttentionOnly(
        None,
        rng.standard_normal((n_heads, head_dim, dim)) * size,
        rng.standard_normal((n_heads, head_dim, dim)) * size,
        np.zeros((n_heads, LABEL_DIM, dim)),
        np.tile(np.eye(LABEL_DIM), (n_heads, 1, 1)),
        circle_points(data.n_classes),
        seq_len,
        skip=False,
        sees_itself=False,
    )
    found = head_features(network, x)
    if found.rank < n_examples:
        raise AssumptionViolated(
            f"with n_heads={n_heads}, the outputs of the heads have only rank {found.rank}; the number of examples is "
            f"{n_examples}, and the rank must be as large.\n  Increase n_heads.",
            rank=found.rank,
        )
    maps = np.linalg.lstsq(found.values, circle_points(data.n_classes)[data.labels], rcond=None)[0]
    value = maps.reshape(n_heads, dim, LABEL_DIM).transpose(0, 2, 1)
    network = replace(network, value=np.ascontiguousarray(value))
    return Construction(
        Memoriser.of(network, data, ordered=True),
        NAME,
        "MLT23 Theorem 1",
        assumptions=(
            Assumption(
                "contexts of full rank, n < d",
                True,
                f"context vectors: n = {n_context}, dimension: d = {dim}",
            ),
            Assumption(
                "T <= H(min(n, d_h) - 1) + 1",
                n_examples <= capacity(n_heads, n_context, head_dim),
                f"{n_examples} examples, capacity {capacity(n_heads, n_context, head_dim)}",
            ),
        ),
        theorem_size=TheoremSize(
            MAHDAVI,
            width=max(dim, n_heads * head_dim),
            depth=1,
            parameters=n_heads * dim * (2 * head_dim + 2 * LABEL_DIM),
            weight_bits=0,
            assumptions=("any n queries independent", "contexts of rank n"),
        ),
        notes={"rank": found.rank, "condition": found.condition, "n_heads": n_heads, "head_dim": head_dim},
    )


def _check_assumptions(x: Float[np.ndarray, "n_examples seq_len dim"], n_context: int, dim: int) -> None:
    if n_context < 2 or n_context >= dim:
        raise AssumptionViolated(
            f"{NAME} needs n context vectors before the query, with 2 <= n < d in dimension d; here n = {n_context} "
            f"and d = {dim}.\n"
            "  Change the length of the sequences or the dimension, or choose another method, such as kajitsuka-sato-2023.",
            n_context=n_context,
            dim=dim,
        )
    flat = x.reshape(len(x), -1)
    if len(np.unique(flat, axis=0)) < len(flat):
        raise AssumptionViolated(
            f"{NAME} needs distinct examples; a (context, query) pair occurs twice.\n  Keep each pair only once."
        )
    ranks = np.linalg.matrix_rank(x[:, :-1])
    if (ranks < n_context).any():
        row = int(np.argmax(ranks < n_context))
        raise AssumptionViolated(
            f"{NAME} needs linearly independent context vectors; those of sample {row + 1} have rank "
            f"{int(ranks[row])} < {n_context}.\n"
            "  Choose another method, such as kajitsuka-sato-2023.",
            n_context=n_context,
        )


def size_of(shape: DataShape, options: MahdaviOptions) -> Size:
    """Return the size: 2·d_h·d + 2·d + 4 parameters for each head of size d_h in dimension d, and two numbers per class."""
    if shape.dim is None or shape.seq_len < 3 or shape.seq_len - 1 >= shape.dim:
        raise AssumptionViolated(
            f"{NAME} needs n context vectors, then a query vector, in a dimension d with 2 <= n < d, "
            "and one label per sequence."
        )
    n_context, dim = shape.seq_len - 1, shape.dim
    head_dim = options.head_dim or min(n_context, dim)
    n_heads = options.n_heads or heads_for(shape.n_samples, n_context, head_dim)
    sizes = (0, shape.seq_len, dim, n_heads, head_dim, LABEL_DIM, LABEL_DIM, shape.n_classes)
    return size_of_spec(AttentionOnlySpec("float64", *sizes, skip=False, sees_itself=False))


METHOD = Method(
    name=NAME,
    source="Mahdavi, Liao & Thrampoulidis 2023, Theorem 1",
    tasks=("next-token",),
    precisions=("float64",),
    size_of=size_of,
    plan=plan,
    options=MahdaviOptions,
    example=lambda: Example(uniform_vectors(8, 4, 6, 3, seed=0)),
    page="closed_forms.md",
    statements=("DPC24-S6", "DPC24-P3"),
)
