"""What MFT24's constructions cost, and their entries in the registry; building them is left to `theorem`."""

from __future__ import annotations

from typing import Literal

from byheart.construct.registry import Method, deferred
from byheart.errors import AssumptionViolated
from byheart.network.size import Size
from byheart.program.construction import Statistics
from byheart.program.float_sizes import count_of, float_size

Kind = Literal["attention", "averaging"]
METHOD_NAMES: dict[Kind, str] = {"attention": "madden-2024", "averaging": "madden-2024-averaging"}


DIM = 16
"""The embedding dimension of every solver but steps, which have dimension 1."""

OVERSAMPLING = {"float64": (1, 1), "float32": (5, 4)}
"""Neurons per context, as a fraction: as the theorem has it, and with a quarter more, which keeps the output matrix small
enough for float32."""


def neurons_for(n_contexts: int, precision: str) -> int:
    """The neurons that random features take by default."""
    times, over = OVERSAMPLING[precision]
    return -(-n_contexts * times // over)


def size_of(kind: Kind, statistics: Statistics) -> Size:
    """The size of the solver `auto`: the step solution in float64, of dimension 1, and random features in float32.

    Where building has settled otherwise (`Construction.statistics`), the size of what it built.
    """
    if statistics.vocab is None:
        raise AssumptionViolated("this construction embeds tokens, and these inputs are vectors.")
    seq_len = statistics.seq_len - (1 if statistics.task == "distribution" else 0)
    n_contexts = statistics.n_contexts
    if n_contexts is None:  # every prefix of every document may be a context of its own
        n_contexts = statistics.n_samples * (seq_len if statistics.task == "distribution" else 1)
    in_steps = statistics.precision != "float32"
    dim = count_of(statistics, "dim", 1 if in_steps else DIM)
    n_heads = count_of(statistics, "heads", 1)
    default = n_contexts if in_steps else neurons_for(n_contexts, "float32")
    n_neurons = count_of(statistics, "neurons", default)
    mixing = seq_len if kind == "averaging" else seq_len * dim + 4 * n_heads * dim**2
    dense = statistics.vocab * dim + mixing + n_neurons * (dim + 1 + statistics.n_classes)
    width = max(dim, n_neurons, n_heads * dim if kind == "attention" else 0)
    return float_size(statistics, dense, 2, width)


def method(kind: Kind) -> Method:
    """The registry's entry of one of the two theorems."""
    theorem = {"attention": "Theorem 5", "averaging": "Theorem 7"}[kind]
    return Method(
        name=METHOD_NAMES[kind],
        source=f"Madden, Fox & Thrampoulidis 2024, {theorem}",
        tasks=("distribution", "next-token"),
        precisions=("float64", "float32"),
        size_of=lambda statistics: size_of(kind, statistics),
        build=deferred("byheart.construct.madden_2024.theorem", kind=kind),
    )
