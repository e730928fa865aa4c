"""MFT24's one-layer decoder: embedding, self-attention at the last token or token averaging, one hidden layer, logits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from byheart.network.arrays import expect_one_float_type
from byheart.network.logits import AnswersWithLogits
from byheart.network.transformer.architecture import Embedding, ShapeMismatch, expect_shape
from byheart.theorems import realises

if TYPE_CHECKING:
    from torch import nn

    from byheart.network.balls import Ball
    from byheart.network.decoder.spec import DecoderSpec

Activation = Literal["tanh", "gelu", "arctan", "silu"]
"""Real analytic and no polynomial, each of them. GELU is x·Φ(x), not its tanh approximation."""


@dataclass(frozen=True, eq=False)
class SelfAttention:
    """W_0ᵀ vec[W_3ᵀ X softmax(Xᵀ W_1 W_2ᵀ x_τ)] over m₀ heads, at the last token x_τ (MFT24 eq. 2; no 1/√d there)."""

    key: np.ndarray  # (m0, d, d1), W_1
    query: np.ndarray  # (m0, d, d1), W_2
    value: np.ndarray  # (m0, d, d0), W_3
    output: np.ndarray  # (m0, d0, d), W_0 in blocks, one a head

    def parameters(self) -> Iterator[tuple[str, np.ndarray]]:
        yield from (("key", self.key), ("query", self.query), ("value", self.value), ("output", self.output))


@dataclass(frozen=True, eq=False)
class TokenAveraging:
    """Σ_t u_t z_t, the weighted average that MFT24 Theorem 6 puts in place of attention."""

    shares: np.ndarray  # (seq_len,), u

    def parameters(self) -> Iterator[tuple[str, np.ndarray]]:
        yield "shares", self.shares


Mixing: TypeAlias = SelfAttention | TokenAveraging


@realises("MFT24-eq2")
@dataclass(frozen=True, eq=False)
class Decoder(AnswersWithLogits):
    """V ᵀψ(Wᵀ mixing(z_α + u) + b): logits over what follows a context of 1 to `seq_len` tokens (MFT24 eq. 2).

    Position t is the t-th token of the context, counted from its start. Contexts are filled up on the left with the
    id `pad`, one beyond the vocabulary, which is seen by nothing. With `TokenAveraging` there are no positions.
    """

    embedding: Embedding  # tokens (ω, d); positions (seq_len, d) for attention, None for averaging
    mixing: Mixing
    hidden: np.ndarray  # (d, m), W
    bias: np.ndarray  # (m,), b
    logits: np.ndarray  # (m, n_outputs), V
    activation: Activation

    def __post_init__(self) -> None:
        dim, width = self.hidden.shape
        expect_shape("the token embedding", self.tokens, (self.tokens.shape[0], dim))
        expect_shape("bias", self.bias, (width,))
        expect_shape("logits", self.logits, (width, self.logits.shape[1]))
        if isinstance(self.mixing, SelfAttention):
            if self.positions is None:
                raise ShapeMismatch("attention needs positions, or it sees only a multiset of tokens.")
            expect_shape("the positions", self.positions, (self.seq_len, dim))
            n_heads, _, key_dim = self.mixing.key.shape
            value_dim = self.mixing.value.shape[2]
            expect_shape("key", self.mixing.key, (n_heads, dim, key_dim))
            expect_shape("query", self.mixing.query, (n_heads, dim, key_dim))
            expect_shape("value", self.mixing.value, (n_heads, dim, value_dim))
            expect_shape("output", self.mixing.output, (n_heads, value_dim, dim))
        else:
            if self.positions is not None:
                raise ShapeMismatch(
                    "token averaging has no position embedding: its shares tell positions apart."
                )
            expect_shape("shares", self.mixing.shares, (self.seq_len,))
        expect_one_float_type(self.parameters())

    @cached_property
    def spec(self) -> DecoderSpec:
        from byheart.network.decoder.spec import spec_of

        return spec_of(self)

    @property
    def tokens(self) -> np.ndarray:
        assert isinstance(self.embedding.tokens, np.ndarray)
        return self.embedding.tokens

    @property
    def positions(self) -> np.ndarray | None:
        """The position embedding (seq_len, d), None for averaging."""
        assert self.embedding.positions is None or isinstance(self.embedding.positions, np.ndarray)
        return self.embedding.positions

    @property
    def seq_len(self) -> int:
        """Tokens of the longest context, T."""
        if self.positions is not None:
            return int(self.positions.shape[0])
        assert isinstance(self.mixing, TokenAveraging)
        return int(self.mixing.shares.shape[0])

    @property
    def hidden_width(self) -> int:
        """Neurons, m."""
        return int(self.hidden.shape[1])

    @property
    def largest_layer(self) -> int:
        """Neurons, logits, or the tokens of a context."""
        return max(self.hidden_width, self.n_outputs, self.seq_len * self.dim)

    @property
    def pad(self) -> int:
        return int(self.tokens.shape[0])

    def parameters(self) -> Iterator[tuple[str, np.ndarray]]:
        yield "embedding.tokens", self.tokens
        if self.positions is not None:
            yield "embedding.positions", self.positions
        for name, weights in self.mixing.parameters():
            yield f"mixing.{name}", weights
        yield "hidden", self.hidden
        yield "bias", self.bias
        yield "logits", self.logits

    def traits(self) -> list[str]:
        return ["decoder", type(self.mixing).__name__, self.activation]

    def module(self) -> nn.Module:
        from byheart.network.decoder.module import DecoderModule

        return DecoderModule(self)

    def bound_logits(self, encoded: np.ndarray) -> Ball:
        from byheart.network.decoder.equations import bound_logits

        return bound_logits(self, encoded)
