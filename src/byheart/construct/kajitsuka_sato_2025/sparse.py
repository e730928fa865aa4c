"""Remark 4.5 of Kajitsuka & Sato 2025: attention through one extra token, with O(n) connections among n tokens instead of n²."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from byheart.construct.kajitsuka_sato_2025.lookup_split import Tuning
from byheart.construct.kajitsuka_sato_2025.theorem import estimate, theorem_for
from byheart.construct.registry import Example, Method, NoOptions
from byheart.data.dataset import Dataset
from byheart.data.generators import random_tokens
from byheart.process.progress import Progress
from byheart.program.blocks import RegisterAttention
from byheart.program.construction import ProgramPlan
from byheart.theorems import realises

NAME = "kajitsuka-sato-2025-sparse"
SPARSE = Tuning(attention="sparse")


@realises("KS25-R4.5")
def memorise_through_an_extra_token(
    data: Dataset, options: NoOptions, rng: np.random.Generator, progress: Progress | None = None
) -> ProgramPlan:
    """Compile seq-to-seq data with two attention layers that have O(n) connections, for n tokens per sequence.

    `memorise_seq_to_seq` has one attention layer with n² connections instead.

    Source:     KS25 Remark 4.5, after Zaheer et al. (2020) and Yun et al. (2020). The paper states the idea in two sentences;
                the construction is ours.
    Assumes:    finite inputs; equal contexts carry equal labels (see `memorise_seq_to_seq`).
    Guarantee:  for every token of every sample the output equals its label + 1 exactly.
    Size:       one attention layer and one token vector more than Corollary 4.1 (`memorise_seq_to_seq`).
    """
    plan = theorem_for(data)(data, rng, progress, SPARSE)
    attention = [step for step in plan.program.steps if isinstance(step, RegisterAttention)]
    assert all(layer.pattern != "full" for layer in attention)
    n_tokens = data.seq_len + 1
    # gather: the extra token reads all tokens, and all tokens read it (2n + 1); scatter: all tokens read it (n + 1)
    connections = 3 * n_tokens - 1
    notes = {**plan.notes, "connections": connections, "connections_without_extra_token": data.seq_len**2}
    return replace(plan, method=NAME, theorem=f"KS25 Remark 4.5 applied to {plan.theorem}", notes=notes)


METHOD = Method(
    name=NAME,
    source="Kajitsuka & Sato 2025, Remark 4.5",
    tasks=("seq-to-seq",),
    precisions=("exact",),
    statements=("KS25-R4.5",),
    page="how-it-works.md",
    plan=memorise_through_an_extra_token,
    size_of=lambda shape, options: estimate(shape, SPARSE),
    example=lambda: Example(random_tokens(12, 4, 20, seed=0, task="seq-to-seq")),
)
