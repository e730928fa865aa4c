"""Assign numbers to the distinct tokens of a data set, and compute their exact vectors and their values on a line."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TypeAlias

import numpy as np

from byheart.data.assumption import Assumption
from byheart.data.consistency import label_places
from byheart.data.dataset import Dataset
from byheart.data.row_groups import group_rows, representatives
from byheart.data.separation import Separation, separation_of_points
from byheart.data.sequences import TokenSequences, VectorSequences
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.program.blocks import TokenTable
from byheart.program.projection import IntegerPoints, Projection, project_apart

MaybeTable: TypeAlias = TokenTable | None
"""The tables that turn token ids into vectors; None if the inputs are vectors already."""


@dataclass(frozen=True, eq=False)
class DistinctTokens:
    """The distinct tokens of a data set.

    sequences   the tokens of each sample as indices into `points`, (n_samples, seq_len); short sequences are padded on the left
    points      the exact vector of each distinct token
    separation  the largest norm of a vector, the smallest distance between two vectors, and the number of vectors
    table       the tables that map ids to these vectors; None if the inputs are vectors already
    pad         the id that pads short sequences on the left; None if no sequence is padded
    """

    sequences: np.ndarray
    points: IntegerPoints
    separation: Separation
    table: MaybeTable
    pad: int | None

    @property
    def dim(self) -> int:
        return int(self.points.coordinates.shape[1])

    @property
    def pad_number(self) -> int:
        """The index of the padding token in `points`, for ids without positions.

        It is the last index, because the padding id is the largest id.
        """
        assert self.pad is not None
        return self.points.n_points - 1


def distinct_tokens(data: Dataset) -> DistinctTokens:
    """Assign numbers to the distinct tokens of `data`. If order matters, the same id at two positions counts as two tokens."""
    if isinstance(data.inputs, VectorSequences):
        return _distinct_vectors(data, data.inputs)
    return _distinct_ids(data, data.inputs)


def _distinct_vectors(data: Dataset, inputs: VectorSequences) -> DistinctTokens:
    if data.ordered:
        raise AssumptionViolated(
            "averaging attention cannot see the order of vectors, but order matters in this data set.\n"
            "  Append the position to every vector as one more coordinate, or pass ordered=False with the data "
            "(on the command line: --unordered)."
        )
    n_samples, seq_len, dim = inputs.values.shape
    flat = inputs.values.reshape(-1, dim) + 0.0  # turn -0.0 into 0.0, so that both count as one number
    numbers = group_rows(flat.view(np.int64).ravel(), np.arange(len(flat) + 1) * dim)
    distinct = flat[representatives(numbers)]
    return DistinctTokens(
        numbers.reshape(n_samples, seq_len),
        IntegerPoints.from_floats(distinct),
        separation_of_points(distinct),
        None,
        None,
    )


def _distinct_ids(data: Dataset, inputs: TokenSequences) -> DistinctTokens:
    is_ragged = int(inputs.lengths.min()) < data.seq_len
    n_places = data.seq_len if data.ordered else 1
    padded = inputs.pad(inputs.n_vocab, data.seq_len)
    values = 2 * (padded * n_places + np.arange(data.seq_len) % n_places) + 2  # as in `line_table`
    distinct, numbers = np.unique(values, return_inverse=True)
    points = distinct.astype(np.float64)[:, None]
    return DistinctTokens(
        numbers.reshape(padded.shape),
        IntegerPoints.from_floats(points),
        separation_of_points(points),
        line_table(inputs.n_vocab + is_ragged, data.seq_len if data.ordered else None),
        inputs.n_vocab if is_ragged else None,
    )


@dataclass(frozen=True)
class LabelledTokens:
    """The token that each label belongs to. All four lists have one entry per label.

    samples  the index of the sequence
    columns  the position of the token in the padded sequence
    tokens   the number of the token, as in `DistinctTokens.sequences`
    labels   the class number, counted from 1
    """

    samples: list[int]
    columns: list[int]
    tokens: list[int]
    labels: list[int]


def labelled_tokens(data: Dataset, tokens: DistinctTokens) -> LabelledTokens:
    """Return the tokens of `data` that have labels. Positions are those in the sequences after padding on the left."""
    samples, positions = label_places(data.inputs, data.task)
    columns = positions + tokens.sequences.shape[1] - data.lengths[samples]
    return LabelledTokens(
        samples.tolist(),
        columns.tolist(),
        tokens.sequences[samples, columns].tolist(),
        (data.labels + 1).tolist(),
    )


def line_table(n_vocab: int, n_places: int | None) -> TokenTable:
    """Return the table that maps token a at position k to the number 2(a·n + k) + 2, where n is `n_places`.

    If `n_places` is None, positions are ignored, and token a is mapped to 2a + 2. All numbers are at least 2, and any two differ by
    at least 2. The table has one number for each token id and one for each position.
    """
    step = 2 * (n_places or 1)
    tokens = range(2, 2 + step * n_vocab, step)
    return TokenTable((tokens,), None if n_places is None else (range(0, 2 * n_places, 2),))


def table_of_shape(shape: DataShape) -> MaybeTable:
    """Return the table of `line_table`, which maps each token at each position to a number, for data of this shape.

    It includes the padding token if lengths differ. For vectors, the result is None.
    """
    if shape.vocab is None:
        return None
    return line_table(shape.vocab + shape.ragged, shape.seq_len if shape.ordered else None)


def project_tokens(tokens: DistinctTokens, rng: np.random.Generator, factor_bits: int = 6) -> Projection:
    """Map the tokens to numbers that are at least 2 and differ by at least 2 (KS25 Lemma C.2).

    For token ids, `tokens.table` already contains such numbers, and nothing is changed. `factor_bits` is the approximate number of
    bits of the factor that scales the map (see `project_apart`).
    """
    if tokens.table is None:
        spread = largest_spread(tokens.separation, tokens.dim)
        return project_apart(tokens.points, rng, spread, factor_bits)
    places = [Fraction(int(value)) for (value,) in tokens.points.coordinates]
    return Projection((Fraction(1),), Fraction(0), places)


def assume_contexts(data: Dataset, n_contexts: int) -> tuple[Assumption, Assumption]:
    """Return the two assumptions that every construction for sequences makes, with the values found in the data.

    The first is that inputs are finite, the second that equal contexts have equal labels.
    """
    return (
        Assumption("inputs are finite", True, f"sequences: {data.n_samples}, maximum length: {data.seq_len}"),
        Assumption("equal contexts carry equal labels", True, f"distinct contexts: {n_contexts}"),
    )


def assume_separated(statement: str, separation: Separation) -> Assumption:
    """Return the assumption `statement`, which says that tokens are separated, with the separation found in the data."""
    apart = (
        "no smallest distance δ"
        if separation.delta is None
        else f"smallest distance δ = {separation.delta:.6g}"
    )
    return Assumption(
        statement,
        True,
        f"distinct tokens: {separation.n_distinct}, largest norm r = {separation.r:.6g}, {apart}",
    )


def radius_and_separation(separation: Separation) -> tuple[Fraction, Fraction]:
    """Return (r, δ) of KS25 Assumption 4.1 as rationals: the largest norm, rounded up, and the smallest distance, rounded down.

    With a single token, δ is 1.
    """
    return _root(separation.r_squared) + Fraction(1, 1 << 64), _root(separation.delta_squared or Fraction(1))


def _root(square: Fraction) -> Fraction:
    """Return √square, rounded down to a multiple of 1 / (2^64 · q), where q is the denominator of `square`."""
    scale = 1 << 64
    return Fraction(isqrt(square.numerator * square.denominator * scale**2), square.denominator * scale)


def largest_spread(separation: Separation, dim: int) -> Fraction | None:
    """Return 2 r V² √(πd/8) / δ, rounded down, for V distinct tokens of dimension d and norm at most r, at least δ apart.

    For a single token, return None.

    By KS25 Lemma G.1 there is a direction along which the range of the projections, divided by their smallest gap, is at most this
    number before rounding.
    """
    if separation.delta_squared is None:
        return None
    below_pi = Fraction(333, 106)
    square = (
        4 * separation.r_squared * separation.n_distinct**4 * below_pi * dim / 8 / separation.delta_squared
    )
    return _root(square)
