"""The digest of a network: a SHA-256 over what it is, not over how a file lays it out."""

from __future__ import annotations

import hashlib

import numpy as np

from byheart.network.decoder.architecture import Decoder
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.families import Network
from byheart.network.transformer.architecture import Attention, Layer, Transformer


def weights_digest(network: Network) -> str:
    """SHA-256, in hexadecimal, of the canonical content of `network`.

    The content is text: the precision, sequence length and padding, the kind of every layer, and every
    parameter in the order of `Transformer.parameters()` by name, shape and value. Exact weights are written
    as "row col mantissa exponent", float weights as their little-endian bytes. One changed bit changes it.
    """
    digest = hashlib.sha256()
    kinds = _kinds(network)
    pad = "none" if network.pad is None else network.pad
    head = f"byheart weights 1\n{network.precision} {network.seq_len} {pad}\n{' '.join(kinds)}\n"
    digest.update(head.encode())
    for name, weights in network.parameters():
        digest.update(f"{name} {'x'.join(map(str, weights.shape))}\n".encode())
        digest.update(_content(weights))
    return digest.hexdigest()


def _kinds(network: Network) -> list[str]:
    if isinstance(network, Transformer):
        return [_kind(layer) for layer in network.layers]
    if isinstance(network, Decoder):
        return ["decoder", type(network.mixing).__name__, network.activation]
    seen = "all" if network.sees_itself else "others"
    lengths = "ragged" if network.ragged else "one-length"
    zero = ["zero-token"] if network.zero_token else []
    return ["attention-only", "skip" if network.skip else "no-skip", seen, lengths, *zero]


def _kind(layer: Layer) -> str:
    if not isinstance(layer, Attention):
        return type(layer).__name__
    return layer.kind if layer.pattern == "full" else f"{layer.kind}-{layer.pattern}"


def _content(weights: Weights) -> bytes:
    if isinstance(weights, SparseMatrix):
        return "".join(
            f"{row} {col} {value.mantissa:x} {value.exponent}\n"
            for (row, col), value in weights.entries.items()
        ).encode()
    return np.ascontiguousarray(weights, dtype=weights.dtype.newbyteorder("<")).tobytes()
