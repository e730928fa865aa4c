"""Prove, for given inputs, that a float network never rounds.

A float with a mantissa of p bits holds every multiple of 2^g below 2^(p+g) in magnitude, if its exponent is in range. Suppose all
terms of a sum are multiples of 2^g and their magnitudes add up to less than 2^(p+g). Then each term and each partial sum is
exact, in any order of summation. This condition is checked, layer by layer, for every sum that the network computes on the
inputs. If it is met in a layer and in all layers before it, the values after this layer are exact, and the next layer can be
checked with these values.

The magnitudes are added up in float64, and the check is rigorous nevertheless. Rounding is monotone, so as soon as a term or a
partial sum of magnitudes is not exact, it and all later partial sums are at least 2^(53+g). A result below 2^(p+g) is therefore
exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isinf, prod
from typing import NamedTuple

import numpy as np

from byheart.errors import UsageError
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.protocol import COMPUTED_IN
from byheart.network.transformer.architecture import Attention, FeedForward, SumPool, Transformer
from byheart.network.weight_format import granularity
from byheart.process.progress import Progress, report

MANTISSA_BITS = {"float64": 53, "float32": 24}

_EXPONENTS = {"float64": (-1022, 1024), "float32": (-126, 128)}
"""For each float type, two exponents of 2: of the smallest normal number, and of the first power of two that is too large."""

_ZERO = 1 << 19
"""A granularity (the largest g such that a number is a multiple of 2^g) above this limit means that the number is zero. Products
of two non-zero floats have a granularity below it.
"""


class _Needs(NamedTuple):
    """What floats must offer so that sums are exact.

    bits     mantissa bits
    lowest   every term is a multiple of 2^lowest
    highest  in every sum, the magnitudes of the terms add up to less than 2^highest
    """

    bits: float
    lowest: float = 0
    highest: float = 0


_NOTHING, _ROUNDED = _Needs(0.0), _Needs(np.inf)

_CACHED_NUMBERS = 1 << 14
"""An array with this many numbers stays in the processor's cache, so inputs are checked in batches of this size."""


@dataclass(frozen=True)
class FloatExactness:
    """The result of checking that a float network never rounds: how many mantissa bits the most demanding checked sum needs, and
    `where` in the network this sum is. The check ends at the first sum that needs too many bits.

    `bits_needed` is infinite for a division that rounds, and for numbers that are too small or too large for the float type.
    """

    bits_needed: float
    bits_available: int
    where: str

    @property
    def holds(self) -> bool:
        """Whether every sum on these inputs is exact in any order of summation."""
        return self.bits_needed <= self.bits_available

    @property
    def reason(self) -> str:
        """Say which sum needs too many bits, and how many. Use this only if the check fails."""
        if isinf(self.bits_needed):
            return f"{self.where} divides with rounding, or has a number that is too small or too large for floats"
        return f"{self.where} needs {self.bits_needed:.0f} mantissa bits, but only {self.bits_available} are available"


def float_exactness(
    network: Transformer, encoded: np.ndarray, progress: Progress | None = None
) -> FloatExactness:
    """Check every sum that the float network `network` computes on `encoded`, up to the first one that may need rounding.

    Raises `UsageError` for exact weights, and if the check reaches a part of the network that it does not cover: hard attention,
    softmax attention whose scores may differ, the pattern gather or scatter, or an extra token.
    """
    if network.precision == "exact":
        raise UsageError(
            "this network has exact weights; convert it with byheart.network.transformer.floats.as_floats first."
        )
    computed_in = COMPUTED_IN[network.precision]
    lowest, highest = _EXPONENTS[computed_in]
    worst = FloatExactness(0.0, MANTISSA_BITS[computed_in], "nowhere")
    widths = (layer.hidden_width for layer in network.layers if isinstance(layer, FeedForward))
    batch_size = max(1, _CACHED_NUMBERS // (encoded.shape[1] * max([network.model_width, *widths])))
    n_sums = 3 * len(network.layers) + 3  # about as many as `_sums` yields
    for start in range(0, len(encoded), batch_size):
        batch = encoded[start : start + batch_size]
        for at, (needs, where) in enumerate(_sums(network, batch)):
            bits = needs.bits if lowest <= needs.lowest and needs.highest <= highest else np.inf
            if bits > worst.bits_needed:
                worst = FloatExactness(bits, worst.bits_available, where)
            if not worst.holds:
                return worst
            report(progress, start * n_sums + min(at, n_sums) * len(batch), len(encoded) * n_sums)
    return worst


def _sums(network: Transformer, encoded: np.ndarray) -> Iterator[tuple[_Needs, str]]:
    """For every sum, in the order of computation, yield what floats must offer to compute it exactly, and its name."""
    if network.embedding is None:
        vectors = encoded.astype(np.float64)
        yield _to_hold(vectors), "the inputs"
    else:
        tokens, positions = _array(network.embedding.tokens), network.embedding.positions
        vectors = tokens[encoded]
        if positions is not None:
            yield _of_sum([vectors, np.broadcast_to(_array(positions), vectors.shape)]), "the embedding"
            vectors = vectors + _array(positions)
    if network.extra is not None or any(
        getattr(layer, "pattern", "full") != "full" for layer in network.layers
    ):
        raise UsageError(
            "this network has an extra token, or attention with the pattern gather or scatter; the "
            "check that floats never round does not support them."
        )
    needs, stream = _linear(vectors, _array(network.w_in))
    yield needs, "w_in"
    for at, layer in enumerate(network.layers):
        if isinstance(layer, FeedForward):
            needs, hidden = _linear(stream, _array(layer.w1), _array(layer.b1))
            yield needs, f"layers.{at}.w1"
            needs, change = _linear(np.maximum(hidden, 0.0), _array(layer.w2), _array(layer.b2))
            yield needs, f"layers.{at}.w2"
            yield _of_sum([stream, change]), f"the residual sum after layer {at}"
            stream = stream + change
        elif isinstance(layer, SumPool):
            yield _of_sum(list(np.moveaxis(stream, 1, 0))), f"the pooling of layer {at}"
            stream = stream.sum(axis=1, keepdims=True)
        elif layer.kind == "uniform" or (layer.kind == "softmax" and layer.ignores_scores):
            stream, found = _attend(layer, stream)
            for needs, part in found:
                yield needs, f"layers.{at}, {part}"
        else:
            raise UsageError(
                f"the check that floats never round does not cover {layer.kind} attention.", kind=layer.kind
            )
    needs, _ = _linear(stream, _array(network.w_out))
    yield needs, "w_out"


def _attend(layer: Attention, stream: np.ndarray) -> tuple[np.ndarray, list[tuple[_Needs, str]]]:
    """Apply attention with equal weights, with the operations in the same order as in the torch module. Return the new stream, and
    what each operation needs.

    uniform  Σ_h W_O (Σ_k W_V Z_k) / n over the n tokens Z_k. The quotient must be exact too.
    softmax  Σ_h W_O Σ_k (1/n) W_V Z_k. With equal scores, softmax computes the weights exp(0) / n, rounded. 1/n is a float
             only if n is a power of two. Otherwise the weight has an error of up to 1/2 unit in its last place, and products
             with it have errors. Sums that should be integers may then not be integers, so such networks are rejected.

    The module may add the products with W_O of all heads in any order, so they count as the terms of one sum.
    """
    n_tokens, divides_first = stream.shape[1], layer.kind == "softmax"
    found: list[tuple[_Needs, str]] = []
    if divides_first:
        found.append(
            (_NOTHING if n_tokens & (n_tokens - 1) == 0 else _ROUNDED, "the weight 1/n of each token")
        )
    shared = []
    for number, head in enumerate(layer.heads):
        needs, values = _linear(stream, _array(head.value))
        found.append((needs, f"heads.{number}.value"))
        values = values * (1.0 / n_tokens) if divides_first else values
        found.append((_of_sum(list(np.moveaxis(values, 1, 0))), f"heads.{number}, the sum over tokens"))
        shared.append(values)
    values = np.concatenate(shared, axis=2)
    weights = np.concatenate([_array(head.output) for head in layer.heads], axis=1)
    needs, change = _linear(values.sum(axis=1, keepdims=True), weights)
    if divides_first:  # the module may multiply by W_O before it sums over tokens
        needs = _linear_over_tokens(values, weights)
    found.append((needs, "the sum over heads"))
    if not divides_first:
        mean = change / n_tokens
        # a correctly rounded quotient is exact iff the true one is a float: then mean · n, without rounding, is the numerator
        is_exact = (
            bool((mean * n_tokens == change).all()) and _to_hold(mean).bits + n_tokens.bit_length() <= 53
        )
        found.append((_of_sum([mean]) if is_exact else _ROUNDED, "the division by the number of tokens"))
        change = mean
    change = np.broadcast_to(change, stream.shape)
    found.append((_of_sum([stream, change]), "the residual sum"))
    return stream + change, found


def _linear_over_tokens(shared: np.ndarray, weights: np.ndarray) -> _Needs:
    """Return what Σ_k weights · shared_k needs, where shared_k holds the values of token k.

    The products of all tokens are treated as terms of one sum, which may be added in any order.
    """
    n_samples, n_tokens, size = shared.shape
    return _linear(shared.reshape(n_samples, n_tokens * size), np.tile(weights, n_tokens))[0]


def _linear(
    inputs: np.ndarray, weights: np.ndarray, bias: np.ndarray | None = None
) -> tuple[_Needs, np.ndarray]:
    """Return a pair: what the sums need, and the outputs inputs · weightsᵀ + bias."""
    magnitude = np.abs(inputs) @ np.abs(weights).T
    rows = inputs.reshape(prod(inputs.shape[:-1]), inputs.shape[-1])
    grain = np.min(granularity(weights) + granularity(rows).min(axis=0), axis=1, initial=2 * _ZERO)
    outputs = inputs @ weights.T
    if bias is not None:
        magnitude = magnitude + np.abs(bias)
        grain = np.minimum(grain, granularity(bias))
        outputs = outputs + bias
    return _widest(magnitude.reshape(len(rows), len(weights)).max(axis=0), grain), outputs


def _of_sum(terms: list[np.ndarray]) -> _Needs:
    """Return what floats must offer to compute the elementwise sum of the terms exactly, in every channel."""
    n_channels = terms[0].shape[-1]
    magnitude = sum((np.abs(term) for term in terms[1:]), np.abs(terms[0])).reshape(-1, n_channels)
    grains = [granularity(term.reshape(-1, n_channels)).min(axis=0) for term in terms]
    return _widest(magnitude.max(axis=0), np.min(grains, axis=0))


def _to_hold(values: np.ndarray) -> _Needs:
    return _of_sum([values.reshape(-1, 1)])


def _widest(magnitude: np.ndarray, grain: np.ndarray) -> _Needs:
    """Return what floats must offer to compute the sums in all channels exactly. In each channel, the magnitudes of the terms add
    up to at most `magnitude`, and all terms are multiples of 2^grain.
    """
    is_used = grain < _ZERO
    if not is_used.any():
        return _NOTHING
    # frexp returns the least exponent e with magnitude < 2^e
    lowest, used = grain[is_used], magnitude[is_used]
    highest = np.where(np.isfinite(used), np.frexp(used)[1], np.inf)
    return _Needs(float((highest - lowest).max()), float(lowest.min()), float(highest.max()))


def _array(weights: object) -> np.ndarray:
    assert not isinstance(weights, SparseMatrix)
    return np.asarray(weights, dtype=np.float64)
