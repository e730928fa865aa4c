"""The attention-only Transformer of Dana, Pydi & Chevaleyre 2024 (DPC24): one layer of attention heads at the last token, a skip
connection and an unembedding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from byheart.network.arrays import FLOATS, ArrayShapes, read_sizes, require_possible
from byheart.network.exact.dyadic import Weights
from byheart.network.logits import AnswersWithLogits
from byheart.network.protocol import Precision
from byheart.network.transformer.architecture import Embedding, ShapeMismatch, precision_of
from byheart.records.fields import Fields
from byheart.theorems import realises

if TYPE_CHECKING:
    from torch import nn

    from byheart.network.balls import Ball

SIZES = ("n_tokens", "seq_len", "dim", "n_heads", "key_dim", "value_dim", "output_dim", "n_outputs")
FLAGS = ("skip", "sees_itself", "ragged", "zero_token")


@dataclass(frozen=True)
class AttentionOnlySpec(ArrayShapes):
    """Describes an attention-only network without its weights. `n_tokens` is 0 for vector inputs.

    `AttentionOnly` explains `skip`, `sees_itself`, `ragged` and `zero_token`.
    """

    precision: Precision
    n_tokens: int
    seq_len: int
    dim: int
    n_heads: int
    key_dim: int
    value_dim: int
    output_dim: int
    n_outputs: int
    skip: bool = True
    sees_itself: bool = True
    ragged: bool = False
    zero_token: bool = False

    family = "attention-only"

    @property
    def pad(self) -> int | None:
        """The padding id, which follows the vocabulary; None if all sequences have `seq_len` tokens."""
        return self.n_tokens if self.ragged else None

    @property
    def n_vocab(self) -> int | None:
        return self.n_tokens + self.ragged if self.n_tokens else None

    @property
    def has_positions(self) -> bool:
        return self.n_tokens > 0

    @property
    def depth(self) -> int:
        return 1

    @property
    def width(self) -> int:
        """The larger of `dim` and the total size of all heads."""
        return max(self.dim, self.n_heads * max(self.key_dim, self.value_dim))

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        if self.n_tokens:
            yield "embedding.tokens", (self.n_tokens, self.dim)
            yield "embedding.positions", (self.seq_len, self.dim)
        yield "query", (self.n_heads, self.key_dim, self.dim)
        yield "key", (self.n_heads, self.key_dim, self.dim)
        yield "value", (self.n_heads, self.value_dim, self.dim)
        yield "output", (self.n_heads, self.output_dim, self.value_dim)
        yield "unembedding", (self.n_outputs, self.output_dim)

    def build(self, weights: Iterator[Weights], files: Mapping[str, bytes]) -> AttentionOnly:
        found: dict[str, Any] = {name: next(weights) for name, _ in self.shapes()}
        embedding = None
        if self.n_tokens:
            embedding = Embedding(found.pop("embedding.tokens"), found.pop("embedding.positions"))
        return AttentionOnly(
            embedding, **found, seq_len=self.seq_len, **{flag: getattr(self, flag) for flag in FLAGS}
        )

    def to_json(self) -> dict[str, Any]:
        """Return the entries of model.json. `activation` is used only by decoders. It is written because older versions
        of byheart require it.
        """
        return {
            "family": self.family,
            "precision": self.precision,
            "sizes": {name: getattr(self, name) for name in SIZES},
            "activation": None,
            **{flag: getattr(self, flag) for flag in FLAGS},
        }

    @staticmethod
    def from_json(fields: Fields) -> AttentionOnlySpec:
        precision: Any = fields.text("precision", FLOATS)
        sizes: dict[str, Any] = read_sizes(fields, SIZES, may_be_zero=("n_tokens", "n_heads"))
        # older folders lack this field
        given = (flag for flag in FLAGS if flag != "zero_token" or flag in fields.values)
        flags = {flag: fields.boolean(flag) for flag in given}
        return require_possible(AttentionOnlySpec(precision, **sizes, **flags), fields)

    def sections(self) -> list[tuple[str, str, str]]:
        heads = f"heads: {self.n_heads:,} of size {self.key_dim:,}"
        return [("0", "softmax attention at the last token", heads)]


@realises("DPC24-eq1", "DPC24-eq2")
@dataclass(frozen=True, eq=False)
class AttentionOnly(AnswersWithLogits):
    """A network with the logits W_U (x_S + Σ_h W_O^h W_V^h Σ_s softmax_s(x_Sᵀ W_Q^hᵀ W_K^h x_s) x_s), as in DPC24 eqs. 1-2.

    The vector of the token at position s is x_s, the sum of its token and position embeddings. The last position is S. W_U is the
    unembedding, and each head h has its own W_Q, W_K, W_V and W_O. As in the paper, there is no factor 1/√d_h.

    embedding    None if the inputs are vectors already
    skip         whether x_S is added (DPC24) or not (MLT23)
    sees_itself  whether the last token also attends to itself (DPC24) or only to the others (MLT23)
    zero_token   whether the last token also attends to a zero vector, with score and value 0 (PyTorch's `add_zero_attn`)
    ragged       whether sequences may be shorter than `seq_len`. They are padded on the left with the id `pad`, which follows
                 the vocabulary and gets no attention. Positions are counted from the end, so the last token is always at S.
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
        dim, out = self.query.shape[2], self.unembedding.shape[1]
        if self.skip and out != dim:
            raise ShapeMismatch(
                f"with a skip connection, the output of a head must have dimension {dim}, not {out}.",
                dim=dim,
                out=out,
            )
        if self.ragged and (self.embedding is None or not self.sees_itself):
            raise ShapeMismatch(
                "for ragged sequences, inputs must be token ids, and the last token must attend to itself."
            )
        if not self.sees_itself and self.seq_len < 2:
            raise ShapeMismatch(
                "the last token does not attend to itself, so sequences need at least one other token."
            )
        super().__post_init__()

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
        (n_heads, key_dim, dim), (n_outputs, output_dim) = self.query.shape, self.unembedding.shape
        n_tokens = 0 if self.embedding is None else len(self.tokens)
        sizes = (n_tokens, self.seq_len, dim, n_heads, key_dim, self.value.shape[1], output_dim, n_outputs)
        flags = {flag: getattr(self, flag) for flag in FLAGS}
        return AttentionOnlySpec(precision_of(self.unembedding), *sizes, **flags)

    @property
    def largest_layer(self) -> int:
        """The size of the largest array that one sample needs: the tokens, the scores or averages of all heads, or the logits."""
        return max(self.seq_len * self.dim, self.n_heads * max(self.seq_len, self.dim), self.n_outputs)

    @property
    def n_heads(self) -> int:
        """The number of heads, H."""
        return int(self.query.shape[0])

    def traits(self) -> list[str]:
        seen = "all" if self.sees_itself else "others"
        lengths = "ragged" if self.ragged else "one-length"
        zero = ["zero-token"] if self.zero_token else []
        return ["attention-only", "skip" if self.skip else "no-skip", seen, lengths, *zero]

    def module(self) -> nn.Module:
        from byheart.network.attention_only.module import AttentionOnlyModule

        return AttentionOnlyModule(self)

    def bound_sample(self, sample: np.ndarray) -> Ball:
        from byheart.network.attention_only.equations import bound_logits

        return bound_logits(self, sample)
