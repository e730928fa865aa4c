"""Measure the context ids of Definition 4.1: run a built network and read the id that it computes for every token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from byheart.construct.kajitsuka_sato_2025.network_program import REGISTERS
from byheart.data.dataset import Dataset
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.memoriser import Memoriser
from byheart.network.transformer.architecture import FeedForward, Transformer
from byheart.network.transformer.evaluator import ExactValues, evaluate
from byheart.program.lookup import X
from byheart.theorems import realises


def cut_after_contexts(network: Transformer) -> Transformer:
    """Return the network without the layers that follow the first block after attention.

    The output of the shorter network is the id of each context: the context's value on a line.
    """
    mixing = max(at for at, layer in enumerate(network.layers) if not isinstance(layer, FeedForward))
    w_out = SparseMatrix.of(network.w_out.shape, {(0, REGISTERS.index(X)): 1})
    return replace(network, layers=network.layers[: mixing + 2], w_out=w_out)


@dataclass(frozen=True)
class ContextIds:
    """The measured (r, δ) of a contextual mapping: the largest id, and the smallest distance between two ids that must differ.

    separation     None if there is only one context; if a context has several ids, only the smallest of them is compared
    is_consistent  whether equal contexts have equal ids
    """

    radius: Fraction
    separation: Fraction | None
    is_consistent: bool


@realises("KS25-D4.1")
def measure_context_ids(memoriser: Memoriser, data: Dataset) -> ContextIds:
    """Run the built network of `data` up to its context ids and measure both conditions of Definition 4.1.

    Source:     KS25 Definition 4.1. All ids are at most r in absolute value. The ids of two tokens are at least δ apart if the
                tokens differ or their sequences are not permutations of one another.
    Assumes:    a network of Corollary 4.1 or of Theorem 4.1. In next-token prediction only the last token of a sequence needs
                an id, and only these ids are measured.
    Guarantee:  exact. No information comes from the compiler: the data set alone determines which contexts differ.
    """
    network = memoriser.network
    assert isinstance(network, Transformer)
    values = evaluate(cut_after_contexts(network), memoriser.encode(data.inputs))
    ids = _labelled_ids(values, data)
    by_context: dict[int, set[Fraction]] = {}
    for context, value in zip(data.context_ids.tolist(), ids, strict=True):
        by_context.setdefault(context, set()).add(value)
    firsts = sorted(min(found) for found in by_context.values())
    return ContextIds(
        max(map(abs, ids)),
        min((after - before for before, after in pairwise(firsts)), default=None),
        all(len(found) == 1 for found in by_context.values()),
    )


def _labelled_ids(values: ExactValues, data: Dataset) -> list[Fraction]:
    """Return the ids of the labelled tokens, without the padding of short sequences."""
    if data.task != "seq-to-seq":
        return [values.distinct[at] for at in values.index[:, -1]]
    is_token = np.arange(values.index.shape[1]) >= values.index.shape[1] - np.asarray(data.lengths)[:, None]
    return [values.distinct[at] for at in values.index[is_token]]
