"""Input tokens as distinct words: numbered, with the exact vector each one stands for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np

from byheart.data.dataset import Dataset
from byheart.data.row_groups import group_rows, representatives
from byheart.data.separation import Separation, separation_of_points
from byheart.data.sequences import TokenSequences, VectorSequences
from byheart.errors import AssumptionViolated
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.transformer.architecture import Embedding
from byheart.program.projection import IntegerPoints
from byheart.program.weight_count import Tally, tally_of_range


@dataclass(frozen=True, eq=False)
class Words:
    """The distinct tokens of a data set.

    sequences   word numbers, (n_samples, seq_len); the last of each row carries the label
    points      the vector of each word, exactly
    separation  how large the vectors are and how far apart
    embedding   the table that turns ids into these vectors; None if the data are vectors already
    pad         the id that fills up short sequences on the left; None if there are none
    """

    sequences: np.ndarray
    points: IntegerPoints
    separation: Separation
    embedding: Embedding | None
    pad: int | None


def words_of(data: Dataset) -> Words:
    """Number the distinct tokens of `data`, positions included where order matters."""
    if isinstance(data.inputs, VectorSequences):
        return _vector_words(data, data.inputs)
    return _token_words(data, data.inputs)


def _vector_words(data: Dataset, inputs: VectorSequences) -> Words:
    if data.ordered:
        raise AssumptionViolated(
            "the order of vectors is invisible to averaging attention, and this data set asks for it.\n"
            "  Append the position to every vector as one more coordinate, or pass ordered=False."
        )
    n_samples, seq_len, dim = inputs.values.shape
    flat = inputs.values.reshape(-1, dim) + 0.0  # -0.0 and 0.0 are one number
    numbers = group_rows(flat.view(np.int64).ravel(), np.arange(len(flat) + 1) * dim)
    distinct = flat[representatives(numbers)]
    return Words(
        numbers.reshape(n_samples, seq_len),
        IntegerPoints.from_floats(distinct),
        separation_of_points(distinct),
        None,
        None,
    )


def _token_words(data: Dataset, inputs: TokenSequences) -> Words:
    seq_len = data.seq_len
    is_ragged = int(inputs.lengths.min()) < seq_len
    pad = inputs.n_vocab if is_ragged else None
    padded = inputs.padded(inputs.n_vocab, seq_len)
    embedding = line_embedding(inputs.n_vocab + is_ragged, seq_len if data.ordered else None)
    places = np.arange(seq_len) if data.ordered else np.zeros(seq_len, dtype=np.int64)
    values = _line_value(padded, places, seq_len if data.ordered else 1)
    distinct, numbers = np.unique(values, return_inverse=True)
    return Words(
        numbers.reshape(padded.shape),
        IntegerPoints.from_floats(distinct.astype(np.float64)[:, None]),
        separation_of_points(distinct.astype(np.float64)[:, None]),
        embedding,
        pad,
    )


def _line_value(ids: np.ndarray, places: np.ndarray, n_places: int) -> np.ndarray:
    values: np.ndarray = 2 * (ids * n_places + places) + 2
    return values


def line_embedding(n_vocab: int, n_places: int | None) -> Embedding:
    """Token a at place k stands at 2(a·n + k) + 2 on a line: in one dimension, at least 2 and 2 apart.

    One number per token and one per position, the smallest table that keeps all pairs distinct.
    """
    factor = n_places or 1
    tokens = SparseMatrix.of((n_vocab, 1), {(token, 0): 2 * token * factor + 2 for token in range(n_vocab)})
    if n_places is None:
        return Embedding(tokens)
    return Embedding(
        tokens, SparseMatrix.of((n_places, 1), {(place, 0): 2 * place for place in range(n_places)})
    )


def line_table_tally(n_vocab: int, n_places: int | None) -> Tally:
    """The weights of `line_embedding`; the first position is 0."""
    tokens = tally_of_range(2, 2 * (n_places or 1), n_vocab)
    return tokens if n_places is None else tokens + tally_of_range(2, 2, n_places - 1)


def radius_and_separation(separation: Separation) -> tuple[Fraction, Fraction]:
    """(r, δ) of KS25 Assumption 4.1 as rationals, r rounded up and δ rounded down; δ = 1 if there is one token only."""
    return _root(separation.r_squared) + Fraction(1, 1 << 64), _root(separation.delta_squared or Fraction(1))


def _root(square: Fraction) -> Fraction:
    """√square rounded down, to 64 bits beyond its denominator."""
    scale = 1 << 64
    return Fraction(isqrt(square.numerator * square.denominator * scale**2), square.denominator * scale)


def largest_spread(separation: Separation, dim: int) -> Fraction | None:
    """2 r V² √(πd/8) / δ, rounded down: the range over the smallest gap that Lemma G.1 promises some direction has."""
    if separation.delta_squared is None:
        return None
    below_pi = Fraction(333, 106)
    square = (
        4 * separation.r_squared * separation.n_distinct**4 * below_pi * dim / 8 / separation.delta_squared
    )
    return _root(square)
