"""Remark 4.5: attention with O(n) connections, through one extra token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from byheart.construct.kajitsuka_sato_2025.sizes import size_of as size_of_dense
from byheart.construct.kajitsuka_sato_2025.theorem import Tuning, theorem_for
from byheart.construct.registry import Method
from byheart.data.dataset import Dataset
from byheart.errors import UsageError
from byheart.network.memory import Progress
from byheart.network.size import Size
from byheart.network.transformer.architecture import Attention
from byheart.program.construction import Construction, Statistics
from byheart.theorems import realises

NAME = "kajitsuka-sato-2025-sparse"


@realises("KS25-R4.5")
def memorise_through_an_extra_token(
    data: Dataset, options: Mapping[str, object], rng: np.random.Generator, progress: Progress | None = None
) -> Construction:
    """Compile seq-to-seq data with two attention layers of n + 1 connections each instead of one of n².

    Source:     KS25 Remark 4.5, after Zaheer et al. (2020) and Yun et al. (2020). The paper gives the idea in two sentences; the
                construction is ours.
    Assumes:    as `memorise_seq_to_seq`.
    Guarantee:  as `memorise_seq_to_seq`.
    Size:       `size_of`: one attention layer and one token vector more than Corollary 4.1.
    """
    if options:
        raise UsageError(f"{NAME} takes no options; got {', '.join(sorted(options))}.")
    found = theorem_for(data)(data, rng, progress, Tuning(is_sparse=True))
    n_tokens = data.seq_len + 1
    attention = [layer for layer in found.memory.transformer.layers if isinstance(layer, Attention)]
    connections = sum(layer.connections(n_tokens) for layer in attention)
    notes = {**found.notes, "connections": connections, "connections_without_extra_token": data.seq_len**2}
    return replace(found, method=NAME, theorem=f"KS25 Remark 4.5 over {found.theorem}", notes=notes)


def size_of(statistics: Statistics) -> Size:
    """The size, without building; exact where that of Corollary 4.1 is."""
    return size_of_dense(statistics, is_sparse=True)


METHOD = Method(
    name=NAME,
    source="Kajitsuka & Sato 2025, Remark 4.5",
    tasks=("seq-to-seq",),
    precisions=("exact",),
    size_of=size_of,
    build=memorise_through_an_extra_token,
)
