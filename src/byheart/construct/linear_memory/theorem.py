"""A linear associative memory as a network: one head that looks at the only token there is."""

from __future__ import annotations

import numpy as np

from byheart.assumption import Assumption
from byheart.bounds.bound import Theorem
from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.construct.linear_memory.memories import hebbian, pseudo_inverse, random_embeddings, regression
from byheart.construct.linear_memory.size import NAME, LinearMemoryOptions
from byheart.data.dataset import Dataset
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.memory import Progress
from byheart.network.transformer.architecture import Embedding
from byheart.network.transformer.floats import DTYPES
from byheart.program.construction import BuiltPlan, built_plan
from byheart.program.single_tokens import count_wrong, require_one_token
from byheart.program.targets import targets_of

RULES = {"pseudo-inverse": pseudo_inverse, "hebbian": hebbian, "regression": regression}


def plan(
    data: Dataset, options: LinearMemoryOptions, rng: np.random.Generator, progress: Progress | None = None
) -> BuiltPlan:
    """Compile associations of single tokens into one matrix between random embeddings.

    Source:     Cabannes, Dohmatob & Bietti (2024), f(x) = argmax_y u_y·W e_x; N <= d by the pseudo-inverse W = U E⁺.
    Assumes:    one token a sample.
    Guarantee:  with N <= d and the pseudo-inverse W e_x = u_f(x) up to rounding, and u_y·u_y = 1 is the largest u_y'·u_y. With
                fewer dimensions nothing is promised beforehand; the native forward pass decides, and what is wrong is refused.
    Size:       `size_of`: 2 d² for W and the identity after it, d numbers for each token and each label.
    Departs:    inputs are stored once each; output vectors have length one.
    """
    require_one_token(NAME, DataShape.of(data))
    targets = targets_of(data)
    n_items, tokens = len(targets), targets.contexts.ids
    dim = options.dim or n_items
    rule = options.rule or ("pseudo-inverse" if n_items <= dim else "regression")
    inputs = random_embeddings(targets.contexts.n_vocab, dim, rng)
    outputs = random_embeddings(targets.n_outputs, dim, rng)
    outputs /= np.linalg.norm(outputs, axis=1, keepdims=True)
    matrix = RULES[rule](inputs[tokens], outputs, targets.next_tokens)
    # a head that sees one token takes it whole, whatever its queries and keys; they are zero
    asked, dtype = np.zeros((1, 1, dim)), DTYPES[options.precision]
    embedding = Embedding(inputs.astype(dtype), np.zeros((1, dim), dtype))
    parts = (asked, asked, matrix[None], np.eye(dim)[None], outputs)
    network = AttentionOnly(embedding, *(part.astype(dtype) for part in parts), 1, skip=False)
    n_wrong = count_wrong(network, tokens, targets.next_tokens)
    if n_wrong:
        raise AssumptionViolated(
            f"a {dim} × {dim} matrix by {rule} is wrong on {n_wrong} of {n_items} associations.\n"
            f"  Give dim={n_items}, where the pseudo-inverse is exact, or rule=regression.",
            wrong=n_wrong,
        )
    return built_plan(
        network,
        data,
        NAME,
        "Cabannes et al. 2024",
        assumptions=(
            Assumption("one token a sample", True, f"{n_items} tokens"),
            Assumption("N <= d", n_items <= dim, f"{n_items} associations, d = {dim}"),
        ),
        theorem_size=TheoremSize(
            Theorem(
                "a linear memory of N associations",
                "d² numbers for N = d associations",
                "Cabannes, Dohmatob & Bietti 2024",
            ),
            width=n_items,
            depth=1,
            parameters=n_items**2,
            weight_bits=0,
            assumptions=("independent inputs, given and not counted",),
        ),
        notes={"rule": rule, "dim": dim, "n_contexts": n_items},
    )
