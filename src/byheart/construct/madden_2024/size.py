"""What MFT24's constructions cost, and their entries in the registry; building them is left to `theorem`."""

from __future__ import annotations

from typing import Literal

from byheart.bounds.madden_2024 import theorem_5_parameters, theorem_7_parameters
from byheart.construct.registry import Method, Statistics, deferred
from byheart.errors import AssumptionViolated
from byheart.network.counting import FLOAT_BITS, Size

Kind = Literal["attention", "averaging"]
METHOD_NAMES: dict[Kind, str] = {"attention": "madden-2024", "averaging": "madden-2024-averaging"}


def size_of(kind: Kind, statistics: Statistics) -> Size:
    """The size of the step solution in float64: n neurons, embeddings of dimension 1."""
    if statistics.vocab is None:
        raise AssumptionViolated("this construction embeds tokens, and these inputs are vectors.")
    seq_len = statistics.seq_len - (1 if statistics.task == "distribution" else 0)
    n_contexts = statistics.n_contexts
    if n_contexts is None:  # every prefix of every document may be a context of its own
        n_contexts = statistics.n_samples * (seq_len if statistics.task == "distribution" else 1)
    size = theorem_5_parameters if kind == "attention" else theorem_7_parameters
    dense = size(n_contexts, statistics.vocab, seq_len, statistics.n_classes).value
    assert isinstance(dense, int)
    word = FLOAT_BITS["float64"]
    return Size(dense, dense, 2, max(1, n_contexts), word, word * dense)


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
