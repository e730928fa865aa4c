"""The digest of a network: a SHA-256 over what it is, not over how a file lays it out."""

from __future__ import annotations

import hashlib

import numpy as np

from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.protocol import Network


def weights_digest(network: Network) -> str:
    """SHA-256, in hexadecimal, of the canonical content of `network`.

    The content is text: the precision, sequence length and padding, its traits, and every
    parameter in the order of `parameters()` by name, shape and value. Exact weights are written
    as "row col mantissa exponent", float weights as their little-endian bytes. One changed bit changes it.
    """
    digest = hashlib.sha256()
    pad = "none" if network.pad is None else network.pad
    head = f"byheart weights 1\n{network.precision} {network.seq_len} {pad}\n{' '.join(network.traits())}\n"
    digest.update(head.encode())
    for name, weights in network.parameters():
        digest.update(f"{name} {'x'.join(map(str, weights.shape))}\n".encode())
        digest.update(_content(weights))
    return digest.hexdigest()


def _content(weights: Weights) -> bytes:
    if isinstance(weights, SparseMatrix):
        return "".join(
            f"{row} {col} {value.mantissa:x} {value.exponent}\n"
            for (row, col), value in weights.entries.items()
        ).encode()
    return np.ascontiguousarray(weights, dtype=weights.dtype.newbyteorder("<")).tobytes()
