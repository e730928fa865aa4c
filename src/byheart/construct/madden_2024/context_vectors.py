"""Map contexts to vectors by random embeddings and self-attention or token averaging (MFT24 Theorems 4 and 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from byheart.construct.madden_2024.size import Kind
from byheart.network.batches import run_in_batches
from byheart.network.decoder.architecture import Activation, Decoder, Mixing, SelfAttention, TokenAveraging
from byheart.network.decoder.module import DecoderModule
from byheart.network.transformer.architecture import Embedding
from byheart.network.transformer.floats import DTYPES
from byheart.program.targets import EncodedContexts
from byheart.theorems import realises

Features: TypeAlias = Float[np.ndarray, "n_contexts n_neurons"]
"""The output of every neuron for every context."""

SCORE_SPREAD = 0.7
"""Standard deviation of attention scores. With small scores the order of tokens is lost; with large ones only one token counts."""


def with_neurons(
    front: Decoder,
    hidden: Float[np.ndarray, "dim width"],
    bias: Float[np.ndarray, " width"],
    logits: Float[np.ndarray, "width n_outputs"],
) -> Decoder:
    """Return `front` with this hidden layer and output matrix, converted to the float type of `front`."""
    dtype = DTYPES[front.precision]
    return replace(front, hidden=hidden.astype(dtype), bias=bias.astype(dtype), logits=logits.astype(dtype))


def with_outputs(neurons: Decoder, logits: Float[np.ndarray, "width n_outputs"]) -> Decoder:
    """Return `neurons` with this output matrix.

    If the matrix has fewer rows than there are neurons, only the first neurons are kept.
    """
    width = len(logits)
    return with_neurons(neurons, neurons.hidden[:, :width], neurons.bias[:width], logits)


def draw_mixing(
    kind: Kind,
    n_vocab: int,
    seq_len: int,
    dim: int,
    n_outputs: int,
    rng: np.random.Generator,
    *,
    n_heads: int = 1,
    activation: Activation = "tanh",
    precision: str = "float64",
    has_skip: bool = False,
    base: float | None = None,
) -> Decoder:
    """Draw generic embeddings and mixing weights from continuous distributions, for a decoder that has no neurons yet.

    In dimension 1, embeddings and weights are those of MFT24's proofs. Token embeddings z and position embeddings u are positive.
    Self-attention is ⟨x, softmax(x x_t)⟩ with x = z + u and its last entry x_t. Averaging is Σ_t u_t z_t. In higher dimensions,
    embeddings, keys and queries are Gaussian. Values and outputs are orthogonal, because the product of two Gaussian matrices would
    be ill-conditioned: contexts could then come so close together in floats that no later layer could separate them.

    Softmax to the base a is the ordinary softmax after every score is multiplied by ln a. The queries include this factor.
    """
    dtype = DTYPES[precision]
    factor = dtype(1 if base is None else math.log(base))

    def positive(*shape: int) -> np.ndarray:
        return rng.uniform(0.5, 1.5, shape).astype(dtype)

    def gaussian(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    draw = positive if dim == 1 else gaussian
    tokens = draw(n_vocab, dim)
    positions = draw(seq_len, dim) if kind == "attention" else None
    mixing: Mixing
    if kind == "averaging":
        mixing = TokenAveraging(positive(seq_len))
    elif dim == 1:
        one = np.ones((1, 1, 1), dtype)
        mixing = SelfAttention(one, factor * one, one, one, has_skip)
    else:
        # a score is a sum of d² products of two embeddings (variance 2) and W_1 W_2ᵀ: standard deviation SCORE_SPREAD
        scale = dtype((SCORE_SPREAD / 2) ** 0.5 * dim**-0.75)
        key, query = (gaussian(n_heads, dim, dim) * scale for _ in range(2))
        value, output = (_orthogonal(rng, n_heads, dim).astype(dtype) for _ in range(2))
        mixing = SelfAttention(key, factor * query, value, output, has_skip)
    hidden, logits = np.zeros((dim, 0), dtype), np.zeros((0, n_outputs), dtype)
    return Decoder(Embedding(tokens, positions), mixing, hidden, np.zeros(0, dtype), logits, activation)


def _orthogonal(rng: np.random.Generator, n_heads: int, dim: int) -> Float[np.ndarray, "n_heads dim dim"]:
    return np.stack([np.linalg.qr(rng.standard_normal((dim, dim)))[0] for _ in range(n_heads)])


def mixed_contexts(front: Decoder, encoded: EncodedContexts) -> Float[np.ndarray, "n_contexts dim"]:
    """Return the output of the mixing layer (attention or averaging) for every context.

    It is computed by the network's own forward pass, in the float type of `front`.
    """
    module = DecoderModule(front).eval()
    width = front.seq_len * front.dim
    return run_in_batches(module.mix, encoded, width).astype(np.float64)


@dataclass(frozen=True)
class Injectivity:
    """How far apart contexts are after attention or averaging in dimension 1, which maps each context to a number, its image.

    min_gap   the smallest distance between the images of two contexts
    min_abs   the smallest distance between an image and zero
    max_abs   the largest distance between an image and zero
    rounding  the largest change that the order of summation can cause in the float type used
    """

    min_gap: float
    min_abs: float
    max_abs: float
    rounding: float

    @property
    def holds(self) -> bool:
        """Whether distinct contexts have distinct non-zero images, with margins larger than the rounding error."""
        return self.min_gap > 2 * self.rounding and self.min_abs > self.rounding


@realises("MFT24-T4", "MFT24-T6")
def injectivity(front: Decoder, encoded: EncodedContexts) -> Injectivity:
    """Measure how far apart the distinct contexts `encoded` are after mixing by attention (Theorem 4) or averaging (Theorem 6).

    Source:     MFT24, Theorems 4 and 6: for generic embeddings z of tokens and u of positions, the map from contexts to numbers
                is injective, and its values are not zero.
    Guarantee:  none beyond the measured numbers. The theorems state that the numbers of two distinct contexts differ, but not by
                how much. Among n random numbers on an interval, the smallest difference is about the length of the interval
                divided by n².
    """
    values = np.sort(mixed_contexts(front, encoded)[:, 0])
    largest = float(np.abs(values).max(initial=0.0))
    # a weighted average of at most seq_len terms: softmax, products and sum each round a few times, and a skip connection rounds
    # once; with another base, the factor in the query multiplies the rounding error of the scores
    steps, steepness = front.seq_len + 4 + front.spec.has_skip, 1.0
    if isinstance(front.mixing, SelfAttention):
        steepness = max(1.0, abs(float(front.mixing.query[0, 0, 0])))
    rounding = float(np.finfo(DTYPES[front.precision]).eps) * steps * steepness * largest
    gaps = np.diff(values)
    return Injectivity(
        float(gaps.min(initial=np.inf)), float(np.abs(values).min(initial=np.inf)), largest, rounding
    )
