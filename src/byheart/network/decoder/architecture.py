"""The one-layer decoder of Madden, Fox & Thrampoulidis 2024 (MFT24): embedding, attention at the last token (or token averaging),
one hidden layer, logits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from byheart.network.arrays import FLOATS, ArrayShapes, PadsBeyondVocabulary, read_sizes, require_possible
from byheart.network.exact.dyadic import Weights
from byheart.network.logits import AnswersWithLogits
from byheart.network.protocol import Precision
from byheart.network.transformer.architecture import Embedding, ShapeMismatch, precision_of
from byheart.records.fields import Fields
from byheart.theorems import realises

if TYPE_CHECKING:
    from torch import nn

    from byheart.network.balls import Ball

Activation = Literal["tanh", "gelu", "arctan", "silu"]
"""The activation functions. All are real analytic and not polynomials. GELU is x·Φ(x), not its tanh approximation."""

HEADS = ("n_heads", "key_dim", "value_dim")
SIZES = ("n_tokens", "seq_len", "dim", *HEADS, "hidden_width", "n_outputs")


@dataclass(frozen=True)
class DecoderSpec(PadsBeyondVocabulary, ArrayShapes):
    """Describes a decoder without its weights.

    `heads` holds the number of heads, the key size and the value size. If it is None, the decoder averages tokens instead.
    """

    precision: Precision
    n_tokens: int
    seq_len: int
    dim: int
    heads: tuple[int, int, int] | None  # number of heads, key size, value size
    hidden_width: int
    n_outputs: int
    activation: Activation
    has_skip: bool = False  # only with attention: the last token is added to the output of attention

    @property
    def family(self) -> str:
        return "decoder" if self.heads is not None else "averaging-decoder"

    @property
    def has_positions(self) -> bool:
        """Whether there are position embeddings. A decoder with attention has them. A decoder that averages does not need them,
        because its average has a weight for each position.
        """
        return self.heads is not None

    @property
    def depth(self) -> int:
        return 2

    @property
    def width(self) -> int:
        """The largest of `dim`, the total size of all heads, and `hidden_width`."""
        n_heads, key_dim, value_dim = self.heads or (0, 0, 0)
        return max(self.dim, n_heads * max(key_dim, value_dim), self.hidden_width)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        dim = self.dim
        yield "embedding.tokens", (self.n_tokens, dim)
        if self.heads is not None:
            n_heads, key_dim, value_dim = self.heads
            yield "embedding.positions", (self.seq_len, dim)
            yield "mixing.key", (n_heads, dim, key_dim)
            yield "mixing.query", (n_heads, dim, key_dim)
            yield "mixing.value", (n_heads, dim, value_dim)
            yield "mixing.output", (n_heads, value_dim, dim)
        else:
            yield "mixing.shares", (self.seq_len,)
        yield "hidden", (dim, self.hidden_width)
        yield "bias", (self.hidden_width,)
        yield "logits", (self.hidden_width, self.n_outputs)

    def build(self, weights: Iterator[Weights], files: Mapping[str, bytes]) -> Decoder:
        found: dict[str, Any] = {name: next(weights) for name, _ in self.shapes()}
        mixing: Mixing
        if self.heads is None:
            mixing = TokenAveraging(found["mixing.shares"])
        else:
            key, query, value, output = (
                found[f"mixing.{part}"] for part in ("key", "query", "value", "output")
            )
            mixing = SelfAttention(key, query, value, output, self.has_skip)
        embedding = Embedding(found["embedding.tokens"], found.get("embedding.positions"))
        return Decoder(embedding, mixing, found["hidden"], found["bias"], found["logits"], self.activation)

    def to_json(self) -> dict[str, Any]:
        """Return the entries of model.json.

        The entries from `skip` to `zero_token` are used only by attention-only networks. Decoders write them because older versions
        of byheart require them.

        `skip_connection` is written only if it is true, so that the digests of decoders without it stay the same.
        """
        numbers = vars(self) | dict(zip(HEADS, self.heads or (), strict=False))
        return {
            "family": self.family,
            "precision": self.precision,
            "sizes": {name: numbers[name] for name in SIZES if name in numbers},
            "activation": self.activation,
            "skip": True,
            "sees_itself": True,
            "ragged": False,
            "zero_token": False,
            **({"skip_connection": True} if self.has_skip else {}),
        }

    @staticmethod
    def from_json(fields: Fields) -> DecoderSpec:
        precision: Any = fields.text("precision", FLOATS)
        activation: Any = fields.text("activation", get_args(Activation))
        averages = fields.text("family") == "averaging-decoder"
        names = tuple(name for name in SIZES if not averages or name not in HEADS)
        sizes: dict[str, Any] = read_sizes(fields, names, may_be_zero=("n_heads",))
        heads = None if averages else tuple(sizes.pop(name) for name in HEADS)
        has_skip = fields.has("skip_connection") and fields.boolean("skip_connection")
        if has_skip and averages:
            raise fields.refuse("skip_connection", "absent, because averaging has no skip connection")
        spec = DecoderSpec(
            precision=precision, heads=heads, activation=activation, has_skip=has_skip, **sizes
        )
        return require_possible(spec, fields)

    def sections(self) -> list[tuple[str, str, str]]:
        first = ("0", "weighted token averaging", "")
        if self.heads is not None:
            heads = f"heads: {self.heads[0]:,} of size {self.heads[1]:,}"
            skip = ", with a skip connection" if self.has_skip else ""
            first = ("0", f"softmax attention at the last token{skip}", heads)
        return [first, ("1", f"{self.activation} neurons", f"hidden width {self.hidden_width:,}")]


@dataclass(frozen=True, eq=False)
class SelfAttention:
    """Self-attention at the last token x_τ with m₀ heads: W_0ᵀ vec[W_3ᵀ X softmax(Xᵀ W_1 W_2ᵀ x_τ)].

    The columns of X are the token vectors. Each head has its own W_1, W_2 and W_3, and vec concatenates the outputs of the heads.
    This is MFT24's equation 2, which has no factor 1/√d. With a skip connection, x_τ itself is added to the result. The paper
    omits this variant for simplicity.
    """

    key: np.ndarray  # (m0, d, d1), W_1
    query: np.ndarray  # (m0, d, d1), W_2
    value: np.ndarray  # (m0, d, d0), W_3
    output: np.ndarray  # (m0, d0, d), W_0 in blocks, one per head
    has_skip: bool = False


@dataclass(frozen=True, eq=False)
class TokenAveraging:
    """The weighted average Σ_t u_t z_t of the token vectors z_t. It replaces attention in MFT24 Theorem 6."""

    shares: np.ndarray  # (seq_len,), u


Mixing: TypeAlias = SelfAttention | TokenAveraging


@realises("MFT24-eq2")
@dataclass(frozen=True, eq=False)
class Decoder(AnswersWithLogits):
    """A decoder with the logits Vᵀψ(Wᵀ mixing(z_α + u) + b) for the token that follows the context α (MFT24 eq. 2).

    The context has 1 to `seq_len` tokens with embeddings z_α. The embeddings of their positions, counted from the start of the
    context, are u. Mixing is `SelfAttention` or `TokenAveraging`; with `TokenAveraging` there is no u. The arrays W, b and V are
    `hidden`, `bias` and `logits`, and ψ is the activation function.
    Contexts are padded on the left with the id `pad`, which follows the vocabulary and gets no attention.
    """

    embedding: Embedding  # tokens (ω, d); positions (seq_len, d) for attention, None for averaging
    mixing: Mixing
    hidden: np.ndarray  # (d, m), W
    bias: np.ndarray  # (m,), b
    logits: np.ndarray  # (m, n_outputs), V
    activation: Activation

    def __post_init__(self) -> None:
        if isinstance(self.mixing, SelfAttention) and self.positions is None:
            raise ShapeMismatch(
                "attention needs position embeddings; without them it cannot see the order of tokens."
            )
        if isinstance(self.mixing, TokenAveraging) and self.positions is not None:
            raise ShapeMismatch(
                "token averaging takes no position embeddings, because its weights already distinguish positions."
            )
        super().__post_init__()

    @cached_property
    def spec(self) -> DecoderSpec:
        heads = None
        if isinstance(self.mixing, SelfAttention):
            n_heads, _, key_dim = self.mixing.key.shape
            heads = (n_heads, key_dim, self.mixing.value.shape[2])
        dim, hidden_width = self.hidden.shape
        sizes = (len(self.tokens), self.seq_len, dim, heads, hidden_width, self.logits.shape[1])
        has_skip = isinstance(self.mixing, SelfAttention) and self.mixing.has_skip
        return DecoderSpec(precision_of(self.hidden), *sizes, self.activation, has_skip)

    @property
    def tokens(self) -> np.ndarray:
        assert isinstance(self.embedding.tokens, np.ndarray)
        return self.embedding.tokens

    @property
    def positions(self) -> np.ndarray | None:
        """The position embedding, of shape (seq_len, d), or None if the decoder averages over the tokens."""
        assert self.embedding.positions is None or isinstance(self.embedding.positions, np.ndarray)
        return self.embedding.positions

    @property
    def seq_len(self) -> int:
        """The number of tokens in the longest context, T."""
        if self.positions is not None:
            return int(self.positions.shape[0])
        assert isinstance(self.mixing, TokenAveraging)
        return int(self.mixing.shares.shape[0])

    @property
    def hidden_width(self) -> int:
        """The number of neurons, m."""
        return int(self.hidden.shape[1])

    @property
    def largest_layer(self) -> int:
        """The size of the largest array that one sample needs: the neurons, the logits, the tokens, or the scores or averages of
        all heads.
        """
        n_heads, _, _ = self.spec.heads or (0, 0, 0)
        of_heads = n_heads * max(self.seq_len, self.dim)
        return max(self.hidden_width, self.n_outputs, self.seq_len * self.dim, of_heads)

    @property
    def pad(self) -> int:
        return len(self.tokens)

    def traits(self) -> list[str]:
        return ["decoder", type(self.mixing).__name__, self.activation]

    def module(self) -> nn.Module:
        from byheart.network.decoder.module import DecoderModule

        return DecoderModule(self)

    def bound_sample(self, sample: np.ndarray) -> Ball:
        from byheart.network.decoder.equations import bound_logits

        return bound_logits(self, sample)
