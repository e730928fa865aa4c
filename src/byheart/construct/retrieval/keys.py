"""Find the labelled contexts (the keys) of a data set, and convert its inputs to integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from byheart.construct.retrieval.quantiser import Quantiser, draw_quantiser
from byheart.data.consistency import context_ids, label_places
from byheart.data.dataset import Dataset
from byheart.data.row_groups import representatives
from byheart.data.sequences import TokenSequences, VectorSequences
from byheart.errors import AssumptionViolated

MAX_LEVELS_BITS = 20
"""Vectors count as lying on a grid if all coordinates are multiples of one power of two, from 2^-63 to 2^8, and at most 2^20 times
this power in magnitude."""


@dataclass(frozen=True, eq=False)
class ContextKeys:
    """The distinct labelled contexts of a data set.

    inputs      all inputs as integers: padded ids, or grid points
    last_only   whether only the last token of each input carries a label
    samples     the sample in which each context first occurs
    positions   position, in the padded input, of the token that carries the label
    labels      the class number of each context
    pad         the id that pads short sequences; None if no sequence is padded
    lowest, highest   bounds of each coordinate; empty for ids
    grid_bits   vectors are integer multiples of 2^-grid_bits
    quantiser   turns vectors that are not on a grid into integers
    """

    inputs: np.ndarray
    last_only: bool
    samples: Int[np.ndarray, " n_keys"]
    positions: Int[np.ndarray, " n_keys"]
    labels: Int[np.ndarray, " n_keys"]
    pad: int | None
    lowest: Int[np.ndarray, " dim"]
    highest: Int[np.ndarray, " dim"]
    grid_bits: int
    quantiser: Quantiser | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def largest(self) -> int:
        """The largest |coordinate| of a vector; 0 for ids."""
        return int(max(np.abs(self.lowest).max(initial=0), np.abs(self.highest).max(initial=0)))

    def pick(self, fields: Int[np.ndarray, "n_tokens n_fields"]) -> Int[np.ndarray, "n_keys n_fields"]:
        """Return the row of `fields` for each key, which is the row of the token that carries the key's label.

        `fields` has one row for each token or, if `last_only`, only one for each input, for its last token.
        """
        if self.last_only:
            return np.asarray(fields[self.samples])
        return np.asarray(fields[self.samples * self.inputs.shape[1] + self.positions])


def keys_of(data: Dataset, mantissa_bits: int, rng: np.random.Generator) -> ContextKeys:
    """Find the contexts of `data` and convert its inputs to integers. Vectors that are not on a grid are converted by a random
    quantiser.
    """
    first = representatives(data.context_ids)
    samples, positions = label_places(data.inputs, data.task)
    positions = positions + data.seq_len - data.inputs.lengths[samples]  # padded on the left
    last_only = data.task != "seq-to-seq"
    none = np.zeros(0, dtype=np.int64)
    shared = (last_only, samples[first], positions[first], data.labels[first])
    if isinstance(data.inputs, TokenSequences):
        is_ragged = len(data.inputs) > 0 and int(data.inputs.lengths.min()) < data.seq_len
        padded = data.inputs.pad(data.inputs.n_vocab, data.seq_len)
        return ContextKeys(padded, *shared, data.inputs.n_vocab if is_ragged else None, none, none, 0)
    if data.ordered:
        raise AssumptionViolated(
            "averaging attention cannot see the order of vectors, but order matters in this data set.\n"
            "  Append the position to every vector as one more coordinate, or pass ordered=False with the data."
        )
    found = grid_points(data.inputs)
    quantiser = None
    if found is None:
        quantiser = _find_quantiser(data, data.inputs, len(first), mantissa_bits, rng)
        found = quantiser.points(data.inputs.values), 0
    points, grid_bits = found
    flat = points.reshape(-1, points.shape[-1])
    return ContextKeys(points, *shared, None, flat.min(axis=0), flat.max(axis=0), grid_bits, quantiser)


def grid_points(
    inputs: VectorSequences,
) -> tuple[Int[np.ndarray, "n_samples seq_len dim"], int] | None:
    """Return the vectors times 2^grid_bits as integers, and grid_bits. Return None unless they are on a grid with few levels
    (see `MAX_LEVELS_BITS`).
    """
    grid_bits = grid_bits_of(inputs)
    if grid_bits is None:
        return None
    return np.ldexp(inputs.values, grid_bits).astype(np.int64), grid_bits


def grid_bits_of(inputs: VectorSequences) -> int | None:
    """Return the least b >= -8 for which all coordinates are integer multiples of 2^-b. Return None if the vectors are not on a
    grid with few levels (see `MAX_LEVELS_BITS`).
    """
    values = inputs.values
    largest = float(np.abs(values).max(initial=0.0))
    for grid_bits in range(-8, 64):
        if np.ldexp(largest, grid_bits) > 2.0**MAX_LEVELS_BITS:
            break
        scaled = np.ldexp(values, grid_bits)
        # the smallest floats become zero when they are scaled down
        if (scaled == np.rint(scaled)).all() and (np.ldexp(scaled, -grid_bits) == values).all():
            return grid_bits
    return None


def _find_quantiser(
    data: Dataset, inputs: VectorSequences, n_contexts: int, mantissa_bits: int, rng: np.random.Generator
) -> Quantiser:
    """Try random quantisers, which round vectors to points of an integer grid, and return the coarsest one that is suitable.

    A quantiser is suitable if different contexts stay different and no token is close to a place where the rounding changes.
    """
    for n_bits in range(5, 19):
        for _ in range(16):
            quantiser = draw_quantiser(inputs.values, n_bits, mantissa_bits, rng)
            if quantiser is None:
                continue
            points = VectorSequences(quantiser.points(inputs.values).astype(np.float64))
            if int(context_ids(points, data.task, False).max(initial=-1)) + 1 == n_contexts:
                return quantiser
    raise AssumptionViolated(
        "the vectors are not on a grid, and no rounding to a grid was found that keeps different inputs apart in floats.\n"
        f"  {'Use precision float64, round' if mantissa_bits < 53 else 'Round'} the values to fewer digits, or use the exact "
        "method kajitsuka-sato-2025.",
        mantissa_bits=mantissa_bits,
    )
