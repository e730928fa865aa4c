"""Random small networks for the tests of the network package."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from byheart.network import Attention, Embedding, FeedForward, Head, SparseMatrix, SumPool, Transformer


def sparse(draw: st.DrawFn, shape: tuple[int, int], *, bits: int, scale: int = 1) -> SparseMatrix:
    """A matrix of random dyadic numbers; `scale` multiplies every entry."""
    n_entries = draw(st.integers(0, min(6, shape[0] * shape[1])))
    entries = {}
    for _ in range(n_entries):
        index = (draw(st.integers(0, shape[0] - 1)), draw(st.integers(0, shape[1] - 1)))
        mantissa = draw(st.integers(-(2**bits), 2**bits))
        exponent = draw(st.integers(-bits // 2, bits // 4))
        entries[index] = Fraction(mantissa) * Fraction(2) ** exponent * scale
    return SparseMatrix.of(shape, entries)


@st.composite
def exact_networks(
    draw: st.DrawFn, *, bits: int = 70, pools: bool = True, sparse_patterns: bool = True
) -> Transformer:
    """Uniform attention scaled by the sequence length, feed-forward layers, perhaps a final pooling."""
    model, dim, seq_len = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    has_extra = sparse_patterns and draw(st.booleans())
    patterns = st.sampled_from(("full", "gather", "scatter") if sparse_patterns else ("full",))
    layers: list[FeedForward | Attention | SumPool] = []
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            hidden = draw(st.integers(1, 4))
            layers.append(
                FeedForward(
                    sparse(draw, (hidden, model), bits=bits),
                    sparse(draw, (hidden, 1), bits=bits),
                    sparse(draw, (model, hidden), bits=bits),
                    sparse(draw, (model, 1), bits=bits),
                )
            )
        else:
            size = draw(st.integers(1, 2))
            heads = tuple(
                Head(
                    sparse(draw, (size, model), bits=bits),
                    sparse(draw, (model, size), bits=bits, scale=seq_len + has_extra),
                )
                for _ in range(draw(st.integers(1, 2)))
            )
            layers.append(Attention(heads, "uniform", draw(patterns)))
    extra = sparse(draw, (1, dim), bits=bits) if has_extra else None
    if pools and draw(st.booleans()):
        layers.append(SumPool())
    embedding = None
    if draw(st.booleans()):
        n_vocab = draw(st.integers(1, 4))
        positions = sparse(draw, (seq_len, dim), bits=bits) if draw(st.booleans()) else None
        embedding = Embedding(sparse(draw, (n_vocab, dim), bits=bits), positions)
    w_in, w_out = sparse(draw, (model, dim), bits=bits), sparse(draw, (1, model), bits=bits)
    return Transformer(w_in, tuple(layers), w_out, seq_len, embedding, extra=extra)


def inputs_for(network: Transformer, rng: np.random.Generator, n_samples: int) -> np.ndarray:
    """Random ids or vectors, with repetitions, signed zeros and denormals among them."""
    if network.n_vocab is not None:
        return rng.integers(0, network.n_vocab, size=(n_samples, network.seq_len))
    pool = np.array([0.0, -0.0, 1.0, -2.5, 1e-310, 3e20, rng.random(), rng.standard_normal()])
    return rng.choice(pool, size=(n_samples, network.seq_len, network.dim))
