"""Exact weights as floats: the same numbers in a floating-point type, or an error that names the first that does not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from byheart.errors import InexactWeights
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.transformer.architecture import Attention, FeedForward, Head, Layer, Transformer

DTYPES: dict[str, type[np.floating[Any]]] = {"float64": np.float64, "float32": np.float32}


def as_floats(network: Transformer, precision: str = "float64") -> Transformer:
    """`network` with every weight as a float of the same value; `InexactWeights` if one has none."""

    def layer_as_floats(name: str, layer: Layer) -> Layer:
        if isinstance(layer, FeedForward):
            return FeedForward(
                dense(f"{name}.w1", layer.w1, precision),
                dense(f"{name}.b1", layer.b1, precision, vector=True),
                dense(f"{name}.w2", layer.w2, precision),
                dense(f"{name}.b2", layer.b2, precision, vector=True),
            )
        if isinstance(layer, Attention):
            heads = (
                Head(
                    **{
                        part: dense(f"{name}.{part}", weights, precision)
                        for part, weights in head.parameters()
                    }
                )
                for head in layer.heads
            )
            return replace(layer, heads=tuple(heads))
        return layer

    embedding = network.embedding
    if embedding is not None:
        positions = embedding.positions
        embedding = replace(
            embedding,
            tokens=dense("embedding.tokens", embedding.tokens, precision),
            positions=None if positions is None else dense("embedding.positions", positions, precision),
        )
    return replace(
        network,
        w_in=dense("w_in", network.w_in, precision),
        layers=tuple(layer_as_floats(f"layers.{at}", layer) for at, layer in enumerate(network.layers)),
        w_out=dense("w_out", network.w_out, precision),
        embedding=embedding,
        extra=None if network.extra is None else dense("extra", network.extra, precision),
    )


def dense(name: str, weights: Weights, precision: str, *, vector: bool = False) -> np.ndarray:
    """`weights` as an array of floats with the same values; a bias (`vector`) has one axis."""
    wanted = DTYPES[precision]
    if isinstance(weights, SparseMatrix):
        array = np.zeros(weights.shape, dtype=wanted)
        for (row, col), value in weights.entries.items():
            if not (value.is_float64 and float(wanted(float(value))) == float(value)):
                raise InexactWeights(
                    f"entry ({row}, {col}) of {name} needs {value.bits} bits and is no {precision}, so this network\n"
                    "  cannot run natively in that type. Evaluate it exactly (model.predict), or compile with a\n"
                    "  construction of float precision.",
                    name=name,
                    row=row,
                    col=col,
                    bits=value.bits,
                )
            array[row, col] = float(value)
    else:
        array = weights.astype(wanted)
        if (array.astype(weights.dtype) != weights).any():
            raise InexactWeights(f"a weight of {name} is no {precision}.", name=name)
    return array[:, 0].copy() if vector and array.ndim == 2 else array
