"""Prove, for given inputs, that a float network never rounds.

A float with a mantissa of p bits holds every multiple of 2^g below 2^(p+g) in magnitude. Suppose all terms of a sum are
multiples of 2^g and their magnitudes add up to at most 2^(p+g). Then each term and each partial sum is exact, in any order of
summation. This condition is checked, layer by layer, for every sum that the network computes on the inputs. If it is met in a
layer and in all layers before it, the values after this layer are exact, and the next layer can be checked with these values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from byheart.errors import UsageError
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.protocol import COMPUTED_IN
from byheart.network.transformer.architecture import Attention, FeedForward, SumPool, Transformer
from byheart.network.weight_format import granularity

MANTISSA_BITS = {"float64": 53, "float32": 24}


@dataclass(frozen=True)
class FloatExactness:
    """The largest number of mantissa bits that any sum needs, and where in the network this sum is."""

    bits_needed: float
    bits_available: int
    where: str

    @property
    def holds(self) -> bool:
        """Whether every sum on these inputs is exact in any order of summation."""
        return self.bits_needed <= self.bits_available


def float_exactness(network: Transformer, encoded: np.ndarray, batch_size: int = 1024) -> FloatExactness:
    """Check every sum that the float network `network` computes on `encoded`, up to the first one that may need rounding.

    Raises `UsageError` for exact weights and for networks that the check does not cover. These are networks with hard attention,
    with softmax attention whose scores may differ, with the pattern gather or scatter, or with an extra token.
    """
    if network.precision == "exact":
        raise UsageError(
            "this network has exact weights; convert it with byheart.network.transformer.floats.as_floats first."
        )
    worst = FloatExactness(0.0, MANTISSA_BITS[COMPUTED_IN[network.precision]], "nowhere")
    for start in range(0, len(encoded), batch_size):
        for bits, where in _sums(network, encoded[start : start + batch_size]):
            if bits > worst.bits_needed:
                worst = FloatExactness(bits, worst.bits_available, where)
            if not worst.holds:
                return worst
    return worst


def _sums(network: Transformer, encoded: np.ndarray) -> Iterator[tuple[float, str]]:
    """Yield (mantissa bits needed, name) of every sum, in the order of computation."""
    if network.embedding is None:
        vectors = encoded.astype(np.float64)
        yield _bits_to_hold(vectors), "the inputs"
    else:
        tokens, positions = _array(network.embedding.tokens), network.embedding.positions
        vectors = tokens[encoded]
        if positions is not None:
            yield _bits_of_sum([vectors, np.broadcast_to(_array(positions), vectors.shape)]), "the embedding"
            vectors = vectors + _array(positions)
    if network.extra is not None or any(
        getattr(layer, "pattern", "full") != "full" for layer in network.layers
    ):
        raise UsageError(
            "this network has an extra token, or attention with the pattern gather or scatter; the "
            "check that floats never round does not support them."
        )
    bits, stream = _linear(vectors, _array(network.w_in))
    yield bits, "w_in"
    for at, layer in enumerate(network.layers):
        if isinstance(layer, FeedForward):
            bits, hidden = _linear(stream, _array(layer.w1), _array(layer.b1))
            yield bits, f"layers.{at}.w1"
            bits, change = _linear(np.maximum(hidden, 0.0), _array(layer.w2), _array(layer.b2))
            yield bits, f"layers.{at}.w2"
            yield _bits_of_sum([stream, change]), f"the residual sum after layer {at}"
            stream = stream + change
        elif isinstance(layer, SumPool):
            yield _bits_of_sum(list(np.moveaxis(stream, 1, 0))), f"the pooling of layer {at}"
            stream = stream.sum(axis=1, keepdims=True)
        elif layer.kind == "uniform" or (layer.kind == "softmax" and layer.ignores_scores):
            stream, found = _attend(layer, stream)
            for bits, part in found:
                yield bits, f"layers.{at}.{part}"
        else:
            raise UsageError(
                f"the check that floats never round does not cover {layer.kind} attention.", kind=layer.kind
            )
    bits, _ = _linear(stream, _array(network.w_out))
    yield bits, "w_out"


def _attend(layer: Attention, stream: np.ndarray) -> tuple[np.ndarray, list[tuple[float, str]]]:
    """Apply attention with equal weights, with the operations in the same order as in the torch module. Return the new stream, and
    the mantissa bits that each operation needs.

    uniform  Σ_h W_O (Σ_k W_V Z_k) / n over the n tokens Z_k. The quotient must be exact too.
    softmax  Σ_h W_O Σ_k (1/n) W_V Z_k. With equal scores, softmax computes the weights exp(0) / n, rounded. 1/n is a float
             only if n is a power of two. Otherwise the weight has an error of up to 1/2 unit in its last place, and all
             products with it have errors. Sums that should be integers are then not integers, so such networks are rejected.
    """
    n_tokens, divides_first = stream.shape[1], layer.kind == "softmax"
    found: list[tuple[float, str]] = []
    if divides_first:
        found.append((0.0 if n_tokens & (n_tokens - 1) == 0 else np.inf, "the share 1/n of each token"))
    changes = []
    for number, head in enumerate(layer.heads):
        bits, values = _linear(stream, _array(head.value))
        found.append((bits, f"heads.{number}.value"))
        values = values * (1.0 / n_tokens) if divides_first else values
        found.append((_bits_of_sum(list(np.moveaxis(values, 1, 0))), f"heads.{number}: the sum over tokens"))
        bits, output = _linear(values.sum(axis=1, keepdims=True), _array(head.output))
        if divides_first:  # the module may multiply by W_O before it sums over tokens, so the bits of all products together count
            bits = _linear_over_tokens(values, _array(head.output))
        found.append((bits, f"heads.{number}.output"))
        changes.append(output)
    found.append((_bits_of_sum(changes), "the sum over heads"))
    change = sum(changes[1:], changes[0])
    if not divides_first:
        mean = change / n_tokens
        # a correctly rounded quotient is exact iff the true one is a float: then mean · n, without rounding, is the numerator
        is_exact = (
            bool((mean * n_tokens == change).all()) and _bits_to_hold(mean) + n_tokens.bit_length() <= 53
        )
        found.append((0.0 if is_exact else np.inf, "the division by the number of tokens"))
        change = mean
    change = np.broadcast_to(change, stream.shape)
    found.append((_bits_of_sum([stream, change]), "the residual sum"))
    return stream + change, found


def _linear_over_tokens(shared: np.ndarray, weights: np.ndarray) -> float:
    """Return the mantissa bits that Σ_k weights · shared_k needs, where shared_k holds the values of token k.

    The products of all tokens are treated as terms of one sum, which may be added in any order.
    """
    n_samples, n_tokens, size = shared.shape
    return _linear(shared.reshape(n_samples, n_tokens * size), np.tile(weights, n_tokens))[0]


def _linear(
    inputs: np.ndarray, weights: np.ndarray, bias: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Return a pair: the mantissa bits that the widest sum needs, and the outputs inputs · weightsᵀ + bias."""
    magnitude = np.abs(inputs) @ np.abs(weights).T
    grain = np.min(
        granularity(weights) + granularity(inputs.reshape(-1, inputs.shape[-1])).min(axis=0), axis=1
    )
    outputs = inputs @ weights.T
    if bias is not None:
        magnitude = magnitude + np.abs(bias)
        grain = np.minimum(grain, granularity(bias))
        outputs = outputs + bias
    return _widest(magnitude.reshape(-1, magnitude.shape[-1]).max(axis=0), grain), outputs


def _bits_of_sum(terms: list[np.ndarray]) -> float:
    """Return the number of mantissa bits that the elementwise sum of the terms needs, as the maximum over all channels."""
    n_channels = terms[0].shape[-1]
    magnitude = sum((np.abs(term) for term in terms[1:]), np.abs(terms[0])).reshape(-1, n_channels)
    grains = [granularity(term.reshape(-1, n_channels)).min(axis=0) for term in terms]
    return _widest(magnitude.max(axis=0), np.min(grains, axis=0))


def _bits_to_hold(values: np.ndarray) -> float:
    return _bits_of_sum([values.reshape(-1, 1)])


def _widest(magnitude: np.ndarray, grain: np.ndarray) -> float:
    """Return the maximum over channels of log2(magnitude) - grain. All terms of a channel's sum are multiples of 2^grain.

    Magnitudes are float sums with a relative error of up to 2^-40.
    """
    is_used = magnitude > 0
    if not is_used.any():
        return 0.0
    return float((np.log2(magnitude[is_used]) - grain[is_used]).max() + 2.0**-40)


def _array(weights: object) -> np.ndarray:
    assert not isinstance(weights, SparseMatrix)
    return np.asarray(weights, dtype=np.float64)
