"""A construction as small as one can be, to try the contract on: one token id a sample, and a table of labels by id.

Everything a construction brings is here. CONTRIBUTING.md walks through it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byheart.construct.registry import Example, Method
from byheart.data import Dataset
from byheart.data.generators import random_tokens
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network import Embedding, SparseMatrix, Transformer
from byheart.network.memoriser import Memoriser
from byheart.network.size import Size
from byheart.process.progress import Progress
from byheart.program.construction import Construction


@dataclass(frozen=True)
class Options:
    """A table needs no choice; `copies` only shows what an option is."""

    copies: int = 1


def size_of(shape: DataShape, options: Options) -> Size:
    """A label for each token id and for the padding, and two matrices of one entry."""
    if shape.vocab is None or shape.seq_len > 1:
        raise AssumptionViolated(
            f"a table holds one token id a sample, and these have up to {shape.seq_len} tokens.\n"
            "  Choose a construction with attention, such as kajitsuka-sato-2025."
        )
    bits = max(1, shape.n_classes.bit_length())
    return Size(shape.vocab + 3, shape.context_count + 2, 0, 1, bits, bits * shape.context_count + 2)


def plan(
    data: Dataset, options: Options, rng: np.random.Generator, progress: Progress | None
) -> Construction:
    """Deciding is the whole work: the plan holds the network already."""
    size_of(DataShape.of(data), options)  # refuses what is not taken
    data.require_consistent()
    table = {
        (int(token), 0): int(label) + 1 for token, label in zip(data.inputs.ids, data.labels, strict=True)
    }
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    embedding = Embedding(SparseMatrix.of((data.vocab + 1, 1), table))
    network = Transformer(one, (), one, 1, embedding, pad=data.vocab)
    memoriser = Memoriser(network, data.task, data.label_names, data.tokenizer, data.ordered)
    return Construction(memoriser, METHOD.name, "a table of labels", ())


def example() -> Example:
    return Example(random_tokens(12, 1, 40, 3, seed=0))


METHOD = Method(
    name="throw-away",
    source="byheart: a table",
    tasks=("next-token",),
    precisions=("exact",),
    options=Options,
    size_of=size_of,
    plan=plan,
    example=example,
    page="rivals.md",
    statements=("KS25-Tab1",),
)
