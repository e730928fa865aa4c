"""A linear associative memory as a network: one head that attends to the only token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from byheart.bounds.bound import Theorem
from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.construct.registry import Example, Method
from byheart.data.assumption import Assumption
from byheart.data.dataset import Dataset
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.attention_only.architecture import AttentionOnlySpec
from byheart.network.memoriser import Memoriser
from byheart.network.protocol import Precision
from byheart.network.size import Size, size_of_spec
from byheart.network.transformer.floats import DTYPES
from byheart.process.progress import Progress
from byheart.program.construction import Construction
from byheart.program.linear_solve import ordered_sums
from byheart.program.single_samples import count_wrong, require_one_token
from byheart.program.targets import targets_of
from byheart.records.reader import within

NAME = "linear-memory"


@dataclass(frozen=True)
class LinearMemoryOptions:
    """The options of `linear-memory`.

    dim   the dimension d of embeddings; by default the number of associations
    rule  the rule for the matrix W; by default the pseudo-inverse if d is at least the number of associations, otherwise regression
    """

    precision: Literal["float64", "float32"] = "float64"
    dim: Annotated[int, within(1, 1 << 31)] | None = None
    rule: Literal["pseudo-inverse", "hebbian", "regression"] | None = None


@ordered_sums()
def plan(
    data: Dataset, options: LinearMemoryOptions, rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile associations of single tokens into one matrix between random embeddings.

    Source:     Cabannes, Dohmatob & Bietti (2024): f(x) = argmax_y u_y·W e_x, where e_x is the embedding of the input x, and u_y
                that of the label y, in dimension d. For N <= d associations, W = U E⁺ with the pseudo-inverse E⁺ of E. The
                columns of E and U are the embeddings of the N inputs and of their labels.
    Assumes:    one token per sample.
    Guarantee:  with N <= d and the pseudo-inverse, W e_x = u_f(x) up to rounding. Outputs have length one, so u_y·u_y = 1
                exceeds every other u_y'·u_y, and the argmax is the label. With fewer dimensions there is no guarantee in advance:
                the native forward pass checks every answer, and a network with a wrong answer is rejected.
    Size:       `size_of`: 2 d² for W and the identity after it, d numbers for each token and each label, and 3 d zeros for the
                position, the query and the key.
    Departs:    each input is stored once; output vectors have length one.
    """
    from byheart.construct.linear_memory.memories import RULES, random_embeddings  # this module loads torch

    require_one_token(NAME, DataShape.of(data))
    targets = targets_of(data)
    n_items, tokens = len(targets), targets.contexts.ids
    dim = options.dim or n_items
    rule = options.rule or ("pseudo-inverse" if n_items <= dim else "regression")
    inputs = random_embeddings(targets.contexts.n_vocab, dim, rng)
    outputs = random_embeddings(targets.n_outputs, dim, rng)
    outputs /= np.linalg.norm(outputs, axis=1, keepdims=True)
    matrix = RULES[rule](inputs[tokens], outputs, targets.next_tokens)
    # a head gives a single token weight 1 for any queries and keys, so queries and keys are zero
    asked = np.zeros((1, 1, dim))
    weights = (inputs, np.zeros((1, dim)), asked, asked, matrix[None], np.eye(dim)[None], outputs)
    spec = _spec(options.precision, len(inputs), dim, len(outputs))
    network = spec.build((part.astype(DTYPES[options.precision]) for part in weights), {})
    n_wrong = count_wrong(network, tokens, targets.next_tokens)
    if n_wrong:
        raise AssumptionViolated(
            f"a {dim} × {dim} matrix found by {rule} gives wrong labels for {n_wrong} of {n_items} associations.\n"
            f"  Leave out dim and rule to get dim={n_items} and the pseudo-inverse, which is exact up to rounding"
            f"{'' if rule == 'regression' else ', or use rule=regression'}.",
            wrong=n_wrong,
        )
    return Construction(
        Memoriser.of(network, data, ordered=True),
        NAME,
        "Cabannes et al. 2024",
        theorem_size=TheoremSize(
            Theorem("a linear memory of N associations", "DPC24-S6", "Cabannes, Dohmatob & Bietti 2024"),
            width=n_items,
            depth=1,
            parameters=n_items**2,
            weight_bits=0,
            assumptions=("the input embeddings are linearly independent, and are not counted as parameters",),
        ),
        assumptions=(
            Assumption("one token per sample", True, f"{n_items} tokens"),
            Assumption("N <= d", n_items <= dim, f"{n_items} associations, d = {dim}"),
        ),
        notes={"rule": rule, "dim": dim, "n_contexts": n_items},
    )


def size_of(shape: DataShape, options: LinearMemoryOptions) -> Size:
    """Return the size: two d × d matrices, d numbers per token and per label, and 3 d zeros. By default d is the number of
    associations.

    The matrices are the memory W, which is the value matrix of a single head, and the head's output matrix, which is the
    identity. The zeros are the embedding of the only position, the query and the key.
    """
    n_vocab, n_items = require_one_token(NAME, shape)
    return size_of_spec(_spec(options.precision, n_vocab, options.dim or n_items, shape.n_classes))


def _spec(precision: Precision, n_vocab: int, dim: int, n_classes: int) -> AttentionOnlySpec:
    return AttentionOnlySpec(precision, n_vocab, 1, dim, 1, 1, dim, dim, n_classes, skip=False)


METHOD = Method(
    name=NAME,
    source="Cabannes, Dohmatob & Bietti 2024",
    tasks=("next-token",),
    precisions=("float64", "float32"),
    size_of=size_of,
    plan=plan,
    options=LinearMemoryOptions,
    example=lambda: Example(random_tokens(12, 1, 30, 3, seed=0)),
    page="closed_forms.md",
    statements=("DPC24-S6",),
)
