"""How large a network is, by every measure the project prints."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from byheart.network.exact.dyadic import SparseMatrix, nonzero_values
from byheart.network.families import LogitNetwork, Network
from byheart.network.transformer.architecture import Attention, FeedForward, SumPool, Transformer
from byheart.theorems import realises


@dataclass(frozen=True)
class Size:
    """Counts of one network.

    parameters_dense    every entry of every weight matrix the architecture has, embeddings and biases included
    parameters_nonzero  those that are not zero
    depth               layers: feed-forward blocks and attention layers (KS25's number of blocks)
    width               max(m, s·H, q) over all layers (KS25 section 3.2)
    weight_bits         bit complexity of the largest weight (KS25 section 3.3); 64 or 32 for floats
    total_bits          bits that store the model: over the non-zero weights if exact, over all of them if floats
    """

    parameters_dense: int
    parameters_nonzero: int
    depth: int
    width: int
    weight_bits: int
    total_bits: int


FLOAT_BITS = {"float64": 64, "float32": 32}


@realises("KS25-bits", "KS25-eq4")
def size_of_network(network: Network) -> Size:
    """Count the parameters, layers and bits of `network`."""
    if not isinstance(network, Transformer):
        return _size_of_floats(network)
    n_dense = sum(prod(weights.shape) for _, weights in network.parameters())
    n_layers = sum(not isinstance(layer, SumPool) for layer in network.layers)
    if network.precision == "exact":
        bits = [value.bits for _, weights in network.parameters() for value in nonzero_values(weights)]
        return Size(n_dense, len(bits), n_layers, _width(network), max(bits, default=0), sum(bits))
    n_nonzero = sum(
        int((weights != 0).sum())
        for _, weights in network.parameters()
        if not isinstance(weights, SparseMatrix)
    )
    word = FLOAT_BITS[network.precision]
    return Size(n_dense, n_nonzero, n_layers, _width(network), word, word * n_dense)


def _size_of_floats(network: LogitNetwork) -> Size:
    n_dense = sum(weights.size for _, weights in network.parameters())
    n_nonzero = sum(int(np.count_nonzero(weights)) for _, weights in network.parameters())
    word = FLOAT_BITS[network.precision]
    return Size(n_dense, n_nonzero, network.depth, network.width, word, word * n_dense)


def _width(network: Transformer) -> int:
    widths = [network.model_width]
    for layer in network.layers:
        if isinstance(layer, FeedForward):
            widths.append(layer.hidden_width)
        elif isinstance(layer, Attention):
            widths.append(sum(int(head.value.shape[0]) for head in layer.heads))
    return max(widths)
