"""A linear associative memory as a network: one head that looks at the only token there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.construct.linear_memory.memories import (
    LinearMemory,
    hebbian,
    pseudo_inverse,
    random_embeddings,
    regression,
)
from byheart.construct.linear_memory.size import NAME
from byheart.construct.registry import require_known
from byheart.data.dataset import Dataset
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.attention_only.module import attention_only_logits
from byheart.network.memory import Memory, Progress
from byheart.network.transformer.architecture import Embedding
from byheart.network.transformer.floats import DTYPES
from byheart.program.construction import Assumption, Construction, statistics_of
from byheart.program.float_sizes import measured
from byheart.program.single_tokens import require_one_token
from byheart.program.targets import targets_of

Rule = Literal["pseudo-inverse", "hebbian", "regression"]
RULES = {"pseudo-inverse": pseudo_inverse, "hebbian": hebbian, "regression": regression}


@dataclass(frozen=True)
class Choices:
    """The options, checked.

    dim   d; by default the number of associations
    rule  how W is found; by default the pseudo-inverse where d is as large as the number of associations, else regression
    """

    precision: Literal["float64", "float32"] = "float64"
    dim: int | None = None
    rule: Rule | None = None

    @staticmethod
    def of(options: Mapping[str, object]) -> Choices:
        """Read options; `UsageError` names what is wrong with one."""
        require_known(NAME, options, Choices.__dataclass_fields__)
        given: dict[str, Any] = dict(options)
        choices = Choices(**given)
        if choices.rule is not None and choices.rule not in get_args(Rule):
            raise UsageError(f"rule is {choices.rule!r}; choose one of {', '.join(get_args(Rule))}.")
        if choices.dim is not None and (not isinstance(choices.dim, int) or choices.dim < 1):
            raise UsageError(f"dim is {choices.dim!r}; it must be a whole number from 1 on.")
        return choices


def memorise(
    data: Dataset, options: Mapping[str, object], rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile associations of single tokens into one matrix between random embeddings.

    Source:     Cabannes, Dohmatob & Bietti (2024), f(x) = argmax_y u_y·W e_x; N <= d by the pseudo-inverse W = U E⁺.
    Assumes:    one token a sample.
    Guarantee:  with N <= d and the pseudo-inverse W e_x = u_f(x) up to rounding, and u_y·u_y = 1 is the largest u_y'·u_y. With
                fewer dimensions nothing is promised beforehand; the native forward pass decides, and what is wrong is refused.
    Size:       `size_of`: 2 d² for W and the identity after it, d numbers for each token and each label.
    Departs:    inputs are stored once each; output vectors have length one.
    """
    choices = Choices.of(options)
    statistics = statistics_of(data)
    require_one_token(NAME, statistics)
    targets = targets_of(data)
    n_items, tokens = len(targets), targets.contexts.ids
    dim = choices.dim or n_items
    rule = choices.rule or ("pseudo-inverse" if n_items <= dim else "regression")
    inputs = random_embeddings(targets.contexts.n_vocab, dim, rng)
    outputs = random_embeddings(targets.n_outputs, dim, rng)
    outputs /= np.linalg.norm(outputs, axis=1, keepdims=True)
    memory = RULES[rule](inputs[tokens], outputs, targets.next_tokens)
    network = _network(replace(memory, inputs=inputs), DTYPES[choices.precision])
    logits = attention_only_logits(network, tokens[:, None])
    n_wrong = int((logits.argmax(axis=1) != targets.next_tokens).sum())
    if n_wrong:
        raise AssumptionViolated(
            f"a {dim} × {dim} matrix by {rule} is wrong on {n_wrong} of {n_items} associations.\n"
            f"  Give dim={n_items}, where the pseudo-inverse is exact, or rule=regression.",
            wrong=n_wrong,
        )
    if progress is not None:
        progress(1, 1)
    return Construction(
        memory=Memory(network, data.task, data.label_names, data.tokenizer, True),
        method=NAME,
        theorem="Cabannes et al. 2024",
        assumptions=(
            Assumption("one token a sample", True, f"{n_items} tokens"),
            Assumption("N <= d", n_items <= dim, f"{n_items} associations, d = {dim}"),
        ),
        theorem_size=TheoremSize(
            name="a linear memory of N associations",
            statement="d² numbers for N = d associations",
            width=n_items,
            depth=1,
            parameters=n_items**2,
            weight_bits=0,
            assumptions=("independent inputs, given and not counted",),
            source="Cabannes, Dohmatob & Bietti 2024",
        ),
        notes={"rule": rule, "dim": dim, "n_contexts": n_items},
        statistics=measured(replace(statistics, n_contexts=n_items), network, dim=dim),
    )


def _network(memory: LinearMemory, dtype: type[np.floating[Any]]) -> AttentionOnly:
    """A head that sees one token takes it whole, whatever its queries and keys; they are zero."""
    dim = memory.inputs.shape[1]
    nothing = np.zeros((1, 1, dim), dtype)
    return AttentionOnly(
        Embedding(memory.inputs.astype(dtype), np.zeros((1, dim), dtype)),
        nothing,
        nothing.copy(),
        memory.matrix.astype(dtype)[None],
        np.eye(dim, dtype=dtype)[None],
        memory.outputs.astype(dtype),
        1,
        skip=False,
    )
