"""DPC24's attention-only Transformer: one layer of heads at the last token, a skip connection, an unembedding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from byheart.network.arrays import expect_one_float_type
from byheart.network.logits import AnswersWithLogits
from byheart.network.transformer.architecture import Embedding, ShapeMismatch, expect_shape
from byheart.theorems import realises

if TYPE_CHECKING:
    from torch import nn

    from byheart.network.attention_only.spec import AttentionOnlySpec
    from byheart.network.balls import Ball


@realises("DPC24-eq1", "DPC24-eq2")
@dataclass(frozen=True, eq=False)
class AttentionOnly(AnswersWithLogits):
    """W_U (x_S + Σ_h W_O^h W_V^h Σ_s softmax_s(x_Sᵀ W_Q^hᵀ W_K^h x_s) x_s), x_s = e(t_s) + pos_s (DPC24 eqs. 1-2; no 1/√d_h).

    `embedding` is None where the inputs are vectors already.
    skip         whether x_S is added (DPC24) or not (MLT23)
    sees_itself  whether the last token is among those it looks at (DPC24) or only asks (MLT23)
    zero_token   whether a zero vector, which has score and value 0, is seen as well (PyTorch's `add_zero_attn`)
    ragged       whether sequences may be shorter than `seq_len`; they are filled up on the left with the id `pad`, one beyond
                 the vocabulary, which is seen by nothing. Positions count from the end, so the last token is at S.
    """

    embedding: Embedding | None  # tokens (N, d), positions (S, d)
    query: np.ndarray  # (H, d_h, d)
    key: np.ndarray  # (H, d_h, d)
    value: np.ndarray  # (H, d_v, d)
    output: np.ndarray  # (H, d_out, d_v)
    unembedding: np.ndarray  # (n_outputs, d_out); d_out = d with a skip connection
    seq_len: int
    skip: bool = True
    sees_itself: bool = True
    ragged: bool = False
    zero_token: bool = False

    def __post_init__(self) -> None:
        n_heads, head_dim, dim = self.query.shape
        expect_shape("key", self.key, (n_heads, head_dim, dim))
        value_dim, out = self.value.shape[1], self.unembedding.shape[1]
        expect_shape("value", self.value, (n_heads, value_dim, dim))
        expect_shape("output", self.output, (n_heads, out, value_dim))
        if self.skip and out != dim:
            raise ShapeMismatch(f"a skip connection needs outputs of dimension {dim}, not {out}.")
        if self.ragged and (self.embedding is None or not self.sees_itself):
            raise ShapeMismatch("shorter sequences need token ids, and a last token that sees itself.")
        if not self.sees_itself and self.seq_len < 2:
            raise ShapeMismatch("a token that does not see itself needs another one to look at.")
        if self.embedding is not None:
            expect_shape("the token embedding", self.tokens, (self.tokens.shape[0], dim))
            expect_shape("the positions", self.positions, (self.seq_len, dim))
        expect_one_float_type(self.parameters())

    @property
    def tokens(self) -> np.ndarray:
        assert self.embedding is not None
        assert isinstance(self.embedding.tokens, np.ndarray)
        return self.embedding.tokens

    @property
    def positions(self) -> np.ndarray:
        assert self.embedding is not None
        assert isinstance(self.embedding.positions, np.ndarray)
        return self.embedding.positions

    @cached_property
    def spec(self) -> AttentionOnlySpec:
        from byheart.network.attention_only.spec import spec_of

        return spec_of(self)

    @property
    def largest_layer(self) -> int:
        """Scores or keys of all heads, or logits."""
        return max(self.n_heads * max(self.seq_len, self.dim), self.n_outputs)

    @property
    def n_heads(self) -> int:
        """H."""
        return int(self.query.shape[0])

    @property
    def pad(self) -> int | None:
        """The id that stands for "no token", None where all sequences have one length."""
        return int(self.tokens.shape[0]) if self.ragged else None

    def parameters(self) -> Iterator[tuple[str, np.ndarray]]:
        if self.embedding is not None:
            yield "embedding.tokens", self.tokens
            yield "embedding.positions", self.positions
        yield from (("query", self.query), ("key", self.key), ("value", self.value), ("output", self.output))
        yield "unembedding", self.unembedding

    def traits(self) -> list[str]:
        seen = "all" if self.sees_itself else "others"
        lengths = "ragged" if self.ragged else "one-length"
        zero = ["zero-token"] if self.zero_token else []
        return ["attention-only", "skip" if self.skip else "no-skip", seen, lengths, *zero]

    def module(self) -> nn.Module:
        from byheart.network.attention_only.module import AttentionOnlyModule

        return AttentionOnlyModule(self)

    def bound_logits(self, encoded: np.ndarray) -> Ball:
        from byheart.network.attention_only.equations import bound_logits

        return bound_logits(self, encoded)
