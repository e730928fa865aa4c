"""Code shared by families of networks whose weights are dense float arrays: check shapes, count weights, read model.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import TypeVar

import numpy as np

from byheart.network.protocol import MAX_COLUMNS, MAX_ENTRIES, MAX_ROWS, MAX_SEQ_LEN, Network, NetworkSpec
from byheart.network.transformer.architecture import ShapeMismatch, expect_shape
from byheart.records.fields import Fields
from byheart.records.refusals import corrupt

Spec = TypeVar("Spec", bound=NetworkSpec)
FLOATS = ("float64", "float32")
MOST = {"n_tokens": MAX_ROWS, "seq_len": MAX_SEQ_LEN}


def expect_arrays(network: Network) -> None:
    """Raise `ShapeMismatch` unless every weight has the shape in its spec, and all weights have the same type, float64 or
    float32."""
    weights = dict(network.parameters())
    for name, shape in network.spec.shapes():
        expect_shape(name, weights[name], shape)
    kinds = {str(np.asarray(array).dtype) for array in weights.values()}
    if len(kinds) != 1 or not kinds <= set(FLOATS):
        raise ShapeMismatch(
            f"all weights of a network must be float64, or all must be float32; these are {sorted(kinds)}.",
            kinds=kinds,
        )


def entries_of(shapes: Iterable[tuple[str, tuple[int, ...]]]) -> int:
    return sum(prod(shape) for _, shape in shapes)


class PadsBeyondVocabulary:
    """Base class for the shape of a network whose inputs are ids: 0 to `n_tokens` - 1 are tokens, and `n_tokens` is padding."""

    n_tokens: int

    @property
    def pad(self) -> int:
        return self.n_tokens

    @property
    def n_vocab(self) -> int:
        return self.n_tokens + 1


class ArrayShapes:
    """Base class for a spec that lists all its arrays. It computes counts, such as the number of parameters, from the list."""

    dim: int

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        raise NotImplementedError

    @property
    def model_width(self) -> int:
        return self.dim

    @property
    def n_arrays(self) -> int:
        return sum(1 for _ in self.shapes())

    @property
    def n_rows(self) -> int:
        return sum(shape[0] for _, shape in self.shapes())

    @property
    def parameters_dense(self) -> int:
        return entries_of(self.shapes())


def read_sizes(fields: Fields, names: tuple[str, ...], may_be_zero: tuple[str, ...] = ()) -> dict[str, int]:
    """Read the numbers `names` from the entry `sizes` of an architecture in model.json, and check their ranges."""
    found = fields.child("sizes")
    return {
        name: found.integer(name, 0 if name in may_be_zero else 1, MOST.get(name, MAX_COLUMNS))
        for name in names
    }


def require_possible(spec: Spec, fields: Fields) -> Spec:
    """Return `spec` unchanged. Raises `CorruptModel` if its arrays have more entries than any file could hold."""
    if spec.parameters_dense > MAX_ENTRIES:
        raise corrupt(fields.where, "the weights of this architecture would not fit into any file")
    return spec
