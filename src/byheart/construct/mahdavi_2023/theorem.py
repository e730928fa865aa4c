"""Mahdavi, Liao & Thrampoulidis (2023): multi-head attention memorises H(min(n, d_h) - 1) + 1 examples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from byheart.assumption import Assumption
from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.bounds.predecessors import MAHDAVI
from byheart.construct.mahdavi_2023.size import LABEL_DIM, NAME, MahdaviOptions, capacity, heads_for
from byheart.data.dataset import Dataset
from byheart.data.sequences import VectorSequences
from byheart.errors import AssumptionViolated
from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.attention_only.module import AttentionOnlyModule
from byheart.network.batches import run_in_batches
from byheart.network.memory import Progress
from byheart.program.circle import circle_points
from byheart.program.construction import BuiltPlan, built_plan

SCORE_SPREAD = 3.0
"""Scores of order 1 to 30 serve alike; much larger ones lose digits where all examples share a context."""


@dataclass(frozen=True, eq=False)
class HeadFeatures:
    """Z: what every head brings on every example, (T, H·d), with its rank and condition number."""

    values: Float[np.ndarray, "n_examples n_features"]
    rank: int
    condition: float


def head_features(
    network: AttentionOnly, vectors: Float[np.ndarray, "n_examples seq_len dim"]
) -> HeadFeatures:
    """The attention before output of every example and its numerical rank."""
    module = AttentionOnlyModule(network).double().eval()
    per_sample = network.n_heads * max(network.seq_len, network.dim)
    found = run_in_batches(lambda x: module.attend(x, x).flatten(1), vectors, per_sample)
    sizes = np.linalg.svd(found, compute_uv=False)
    rank = int((sizes > sizes[0] * max(found.shape) * np.finfo(np.float64).eps).sum())
    smallest = sizes[min(len(vectors), len(sizes)) - 1]
    return HeadFeatures(found, rank, float(sizes[0] / smallest) if smallest > 0 else float("inf"))


def plan(
    data: Dataset, options: MahdaviOptions, rng: np.random.Generator, progress: Progress | None = None
) -> BuiltPlan:
    """Compile examples (context vectors and, last, a query vector) into one layer of attention without skip connection.

    Source:     Mahdavi et al. (2023), Theorem 1, as restated by DPC24 section 6: T <= H(r - 1) + 1 with r = min(n, d_h).
                This proof is reconstructed: full rank of Z is an open, analytic condition, so random heads have it almost
                surely; then the value and output maps are one linear solve.
    Assumes:    n < d context vectors of full rank; distinct (context, query) pairs.
    Guarantee:  the largest logit is the right one, checked natively; the rank of Z is checked before.
    Size:       `size_of`: H heads with 2·d_h·d + 2·d + 4 parameters, and two numbers a class.
    """
    if not isinstance(data.inputs, VectorSequences) or data.task != "next-token":
        raise AssumptionViolated(
            f"{NAME} is for vectors with one label a sequence: its queries must be independent, and tokens repeat.\n"
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
            f"{n_heads} heads have rank {found.rank} on these {n_examples} examples.\n  Give more heads with n_heads.",
            rank=found.rank,
        )
    maps = np.linalg.lstsq(found.values, circle_points(data.n_classes)[data.labels], rcond=None)[0]
    value = maps.reshape(n_heads, dim, LABEL_DIM).transpose(0, 2, 1)
    network = replace(network, value=np.ascontiguousarray(value))
    return built_plan(
        network,
        data,
        NAME,
        "MLT23 Theorem 1",
        assumptions=(
            Assumption("contexts of full rank, n < d", True, f"n = {n_context}, d = {dim}"),
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
            f"{NAME} needs contexts of 2 to d - 1 tokens; here n = {n_context} tokens before the query and d = {dim}.\n"
            "  Give vectors of a higher dimension, or choose another method, such as kajitsuka-sato-2023."
        )
    flat = x.reshape(len(x), -1)
    if len(np.unique(flat, axis=0)) < len(flat):
        raise AssumptionViolated(
            f"{NAME} needs distinct examples; some (context, query) pair occurs twice.\n  Give each pair once."
        )
    ranks = np.linalg.matrix_rank(x[:, :-1])
    if (ranks < n_context).any():
        row = int(np.argmax(ranks < n_context))
        raise AssumptionViolated(
            f"{NAME} needs independent context vectors; those of sample {row + 1} have rank {int(ranks[row])} < {n_context}.\n"
            "  Choose another method, such as kajitsuka-sato-2023."
        )
