"""Check the assumptions of theorems that depend on the data themselves and not only on their shape.

Some theorems assume that any k vectors of a set, such as the last tokens of all samples, are linearly independent. This is checked
in exact arithmetic for each choice of k vectors. If there are more than `MOST_CHOICES` choices, or k is above `MOST_DIMENSIONS`,
the choices are not checked, and bounds with this assumption are not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np

from byheart.data.dataset import Dataset
from byheart.data.dataset_pieces import DatasetPieces
from byheart.data.row_groups import group_rows, representatives
from byheart.data.sequences import VectorSequences

MOST_CHOICES = 2_000
MOST_DIMENSIONS = 12
"""The most vectors that are checked together. Elimination is exact, so its cost grows with more than the cube of this number."""

Vector = Sequence[Fraction]


@dataclass(frozen=True)
class DataChecks:
    """For each assumption, the reason why it does not hold or was not checked. The reason is empty if the assumption holds, or if
    these data need no check.

    general_position    no D + 1 distinct samples, read as vectors of dimension D, lie on a hyperplane; if there are at most D
                        distinct samples, they are affinely independent
    independent_tokens  the n tokens of each sample are linearly independent, and so are the last tokens of any n distinct samples.
                        This never holds if n is above the dimension of the tokens. In this case the reason is empty too, because
                        `bounds.table` detects it from the shape of the data
    full_support        every token follows every context with positive probability
    """

    general_position: str = ""
    independent_tokens: str = ""
    full_support: str = ""


ASSUMED = DataChecks()
"""Used if there is nothing to check. Every assumption is then taken for granted, and each bound states its assumptions."""


_UNCHECKED = (
    "it was not checked whether vectors are linearly independent, because the data are read in pieces"
)
NOT_IN_MEMORY = DataChecks(general_position=_UNCHECKED, independent_tokens=_UNCHECKED)


def check_assumptions(data: Dataset | DatasetPieces) -> DataChecks:
    """Check whether these data meet the assumptions that `DataChecks` lists, and return the reasons why some are not met.

    Whether vectors are independent is not checked if the data are read in pieces.
    """
    if isinstance(data, DatasetPieces):
        return ASSUMED if data.dim is None else NOT_IN_MEMORY
    if data.task == "distribution":
        contexts = data.contexts()
        n_absent = len(contexts) * data.n_classes - contexts.next_tokens.size
        support = (
            f"some tokens never occur after some contexts (missing pairs: {n_absent:,}), "
            "so the distributions do not have full support"
        )
        return DataChecks(full_support=support if n_absent else "")
    if not isinstance(data.inputs, VectorSequences) or data.task != "next-token":
        return ASSUMED
    return DataChecks(
        general_position=_hyperplanes(data.inputs), independent_tokens=_dependent_tokens(data.inputs)
    )


def _hyperplanes(inputs: VectorSequences) -> str:
    rows = inputs.values.reshape(len(inputs), -1)
    width = rows.shape[1]
    distinct = representatives(group_rows(rows.reshape(-1).view(np.int64), np.arange(len(rows) + 1) * width))
    # D + 1 points lie on a hyperplane iff their vectors, each extended by a coordinate 1, are dependent
    if _are_too_many(len(distinct), width + 1):
        return _not_checked(comb(len(distinct), width + 1), width + 1)
    lifted = [[Fraction(1), *map(Fraction, row)] for row in rows[distinct].tolist()]
    return _dependent_choice(
        lifted, width + 1, "samples are affinely dependent, so the data are not in general position"
    )


def _dependent_tokens(inputs: VectorSequences) -> str:
    if inputs.seq_len > inputs.dim:
        return ""  # `table` gives this reason itself
    if len(inputs) > MOST_CHOICES or inputs.seq_len > MOST_DIMENSIONS:
        return _not_checked(len(inputs), inputs.seq_len)
    for number, sample in enumerate(inputs.values.tolist(), start=1):
        if _is_dependent([list(map(Fraction, token)) for token in sample]):
            return f"the tokens of row {number} are linearly dependent"
    # repeated samples count once; if two samples end in the same token, two columns are equal and the Kruskal rank is 1
    samples = dict.fromkeys(tuple(map(tuple, sample)) for sample in inputs.values.tolist())
    last = [list(map(Fraction, sample[-1])) for sample in samples]
    if inputs.seq_len > 1 and len(set(map(tuple, last))) < len(last):
        return "two samples end in the same token, but last tokens must be linearly independent"
    return _dependent_choice(last, inputs.seq_len, "last tokens are linearly dependent")


def _dependent_choice(vectors: Sequence[Vector], size: int, what: str) -> str:
    """Check whether every choice of `size` of these vectors is linearly independent. Return an empty text if this is so.

    Otherwise return a message: some choice is dependent, or there are too many choices to check. If there are fewer than `size`
    vectors, all of them are checked together. The message about a dependent choice is its number of vectors, followed by `what`.
    """
    if _are_too_many(len(vectors), size):
        return _not_checked(comb(len(vectors), size), size)
    if any(_is_dependent(chosen) for chosen in combinations(vectors, min(size, len(vectors)))):
        return f"{min(size, len(vectors))} {what}"
    return ""


def _are_too_many(n_vectors: int, size: int) -> bool:
    return comb(n_vectors, size) > MOST_CHOICES or size > MOST_DIMENSIONS


def _not_checked(n_choices: int, size: int) -> str:
    many = (
        f"at most {MOST_DIMENSIONS} vectors are checked together"
        if size > MOST_DIMENSIONS
        else f"there are {n_choices:,} choices"
    )
    return f"it was not checked whether every choice of {size} vectors is linearly independent: {many}"


def _is_dependent(vectors: Sequence[Vector]) -> bool:
    """Return whether the vectors are linearly dependent, by exact Gaussian elimination."""
    rows = [list(vector) for vector in vectors]
    for step in range(len(rows)):
        pivot = next(
            ((i, j) for i in range(step, len(rows)) for j in range(len(rows[i])) if rows[i][j] != 0), None
        )
        if pivot is None:
            return True
        i, column = pivot
        rows[step], rows[i] = rows[i], rows[step]
        head = rows[step]
        for row in rows[step + 1 :]:
            factor = row[column] / head[column]
            if factor:
                row[:] = [value - factor * other for value, other in zip(row, head, strict=True)]
    return False
