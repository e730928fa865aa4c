"""Convert exact weights to floats with the same values, or raise an error that names the first weight that cannot be
converted."""

from __future__ import annotations

from typing import Any

import numpy as np

from byheart.errors import InexactWeights
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.transformer.architecture import Precision, Transformer

DTYPES: dict[str, type[np.floating[Any]]] = {"float64": np.float64, "float32": np.float32}


def as_floats(network: Transformer, precision: Precision = "float64") -> Transformer:
    """Convert every weight of `network` to a float of the same value. Raises `InexactWeights` if that is impossible."""
    if network.precision == precision:
        return network
    arrays = (_dense(name, weights, precision) for name, weights in network.parameters())
    return network.spec.with_floats(precision).build(arrays, {})


def _dense(name: str, weights: Weights, precision: Precision) -> np.ndarray:
    """Return `weights` as an array of floats with the same values. A bias becomes an array with one axis."""
    wanted = DTYPES[precision]
    if isinstance(weights, SparseMatrix):
        array = np.zeros(weights.shape, dtype=wanted)
        for (row, col), value in weights.entries.items():
            if not (value.is_float64 and float(wanted(float(value))) == float(value)):
                raise InexactWeights(
                    f"entry ({row}, {col}) of {name} needs {value.bits} bits and cannot be represented in {precision}, so this\n"
                    "  network cannot run natively in that type. Evaluate it exactly (model.predict), or compile with a\n"
                    "  construction whose weights are floats.",
                    name=name,
                    row=row,
                    col=col,
                    bits=value.bits,
                )
            array[row, col] = float(value)
    else:
        array = weights.astype(wanted)
        if (array.astype(weights.dtype) != weights).any():
            raise InexactWeights(f"a weight of {name} cannot be represented in {precision}.", name=name)
    return array[:, 0].copy() if name.endswith((".b1", ".b2")) and array.ndim == 2 else array
