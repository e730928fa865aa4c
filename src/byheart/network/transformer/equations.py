"""A Transformer with float weights once more, one sequence at a time, written from KS25 equations 2 to 4 with NumPy.

For networks that the interpreter has no exact value for, those with softmax. The sums are taken in another order than the module
takes them, so an answer that rests on luck in rounding is found out.
"""

from __future__ import annotations

import numpy as np

from byheart.network.transformer.architecture import Attention, FeedForward, Head, Transformer
from byheart.network.transformer.floats import as_floats


def first_outputs(network: Transformer, encoded: np.ndarray, *, last_only: bool) -> np.ndarray:
    """The first output at every token (n_samples, n_tokens), or only at the last one (n_samples, 1)."""
    floats = as_floats(network) if network.precision == "exact" else network
    found = np.stack([_outputs(floats, sequence) for sequence in encoded])
    return found[:, -1:] if last_only else found


def _outputs(network: Transformer, sequence: np.ndarray) -> np.ndarray:
    columns = _enter(network, sequence)  # (m, n): a token is a column, as in the paper
    for layer in network.layers:
        if isinstance(layer, FeedForward):
            hidden = np.maximum(_array(layer.w1) @ columns + _array(layer.b1)[:, None], 0)
            columns = columns + (_array(layer.w2) @ hidden + _array(layer.b2)[:, None])
        elif isinstance(layer, Attention):
            columns = columns + sum(
                _array(head.output) @ ((_array(head.value) @ columns) @ _mixture(layer, head, columns))
                for head in layer.heads
            )
        else:
            columns = columns.sum(axis=1, keepdims=True)
    outputs = _array(network.w_out)[0] @ columns
    return np.asarray(outputs[1:] if network.extra is not None and len(outputs) > 1 else outputs)


def _enter(network: Transformer, sequence: np.ndarray) -> np.ndarray:
    if network.embedding is None:
        vectors = sequence.astype(_array(network.w_in).dtype)
    else:
        vectors = _array(network.embedding.tokens)[sequence]
        if network.embedding.positions is not None:
            vectors = vectors + _array(network.embedding.positions)
    if network.extra is not None:
        vectors = np.concatenate([_array(network.extra), vectors])
    return np.asarray(_array(network.w_in) @ vectors.T)


def _mixture(layer: Attention, head: Head, columns: np.ndarray) -> np.ndarray:
    """A (n, n): column k says how token k weighs the others."""
    n_tokens = columns.shape[1]
    mixture = np.full((n_tokens, n_tokens), 1 / n_tokens, dtype=columns.dtype)
    if layer.pattern == "gather":
        mixture[:, 1:] = 0
        mixture[0, 1:] = 1
    elif layer.pattern == "scatter":
        mixture = np.zeros_like(mixture)
        mixture[0] = 1
    elif layer.kind != "uniform":
        scores = (_array(head.key) @ columns).T @ (_array(head.query) @ columns)
        largest = scores.max(axis=0)
        powers = (
            np.exp(scores - largest) if layer.kind == "softmax" else (scores == largest).astype(scores.dtype)
        )
        mixture = powers / powers.sum(axis=0)
    return mixture


def _array(weights: object) -> np.ndarray:
    return np.asarray(weights)
