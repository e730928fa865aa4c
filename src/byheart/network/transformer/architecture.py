"""The weights of the Transformers of KS25 section 3.2 and of deep sets, optionally with an embedding of token ids.

A network maps n tokens to n output vectors: `w_out ∘ layer_L ∘ … ∘ layer_1 ∘ w_in`. Each layer adds its output to its input. Only
the pooling layer of a deep set does not: it replaces all tokens by their sum, so there is one output vector. The paper's deep
feed-forward parts are runs of `FeedForward` layers, which are blocks whose attention is zero; this attention is not stored, counted
or computed. As in the paper, m is the width of the residual stream, q the hidden width and s the head size.

Weights are exact (`SparseMatrix`) or floats (`numpy` arrays), never both in one network. Weights in float32 may have a
`Storage`: each number then takes fewer bits in a file, without rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from byheart.errors import ByheartError
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.protocol import Backend, Evaluation, Network, require_axes
from byheart.network.protocol import Precision as Precision
from byheart.network.weight_format import Storage
from byheart.theorems import realises

if TYPE_CHECKING:
    from torch import nn

    from byheart.network.transformer.spec import TransformerSpec

AttentionKind = Literal["softmax", "hardmax", "uniform"]
Pattern = Literal["full", "gather", "scatter"]


class ShapeMismatch(ByheartError):
    """The parts of a network do not fit together, for example in their shapes or number types."""


def expect_shape(name: str, weights: Weights, shape: tuple[int, ...]) -> None:
    """Raise `ShapeMismatch` unless `weights` has this shape. For exact weights, the shape (n,) of a bias stands for (n, 1)."""
    if isinstance(weights, SparseMatrix) and len(shape) == 1:
        shape = (*shape, 1)
    if tuple(weights.shape) != shape:
        found = tuple(weights.shape)
        raise ShapeMismatch(f"{name} has shape {found}; this network needs {shape}.", name=name)


def precision_of(weights: Weights) -> Precision:
    if isinstance(weights, SparseMatrix):
        return "exact"
    return "float32" if weights.dtype == "float32" else "float64"


@realises("KS25-eq3")
@dataclass(frozen=True, eq=False)
class FeedForward:
    """The map H ↦ H + W2 ReLU(W1 H + b1) + b2 on the residual stream H, applied to each token separately (KS25 eq. 3)."""

    w1: Weights  # (q, m)
    b1: Weights  # (q,)
    w2: Weights  # (m, q)
    b2: Weights  # (m,)

    def __post_init__(self) -> None:
        hidden, model = self.w1.shape
        expect_shape("b1", self.b1, (hidden,))
        expect_shape("w2", self.w2, (model, hidden))
        expect_shape("b2", self.b2, (model,))

    @property
    def hidden_width(self) -> int:
        """The number of hidden units, q."""
        return int(self.w1.shape[0])

    def parameters(self) -> Iterator[tuple[str, Weights]]:
        yield from (("w1", self.w1), ("b1", self.b1), ("w2", self.w2), ("b2", self.b2))


@dataclass(frozen=True, eq=False)
class Head:
    """One attention head. A head of uniform attention has no key and no query."""

    value: Weights  # (s, m)
    output: Weights  # (m, s)
    key: Weights | None = None  # (s, m)
    query: Weights | None = None  # (s, m)

    def parameters(self) -> Iterator[tuple[str, Weights]]:
        for name in ("value", "output", "key", "query"):
            weights = getattr(self, name)
            if weights is not None:
                yield name, weights


@realises("KS25-eq2", "KS25-eq12", "KS25-eq39")
@dataclass(frozen=True, eq=False)
class Attention:
    """Z ↦ Z + Σ_h W_O W_V Z A_h, where column k of A_h holds the attention weights of token k.

    Z is the residual stream, with one column per token.

    softmax  A = softmax((W_K Z)ᵀ W_Q Z), column by column (KS25 eq. 2, which has no 1/√s)
    hardmax  the same with hardmax, where tied tokens have equal weights (eqs. 1 and 12)
    uniform  A = 1/n everywhere for n tokens (eq. 39), which softmax gives if the key is zero

    Uniform attention may also be sparse (KS25 Remark 4.5): a token averages only over the tokens to which it is connected, with
    O(n) connections in total instead of n².

    gather   the first token reads all tokens, every other token reads the first
    scatter  every token reads only the first token
    """

    heads: tuple[Head, ...]
    kind: AttentionKind
    pattern: Pattern = "full"

    def __post_init__(self) -> None:
        if not self.heads:
            raise ShapeMismatch("an attention layer needs at least one head.")
        if self.pattern != "full" and self.kind != "uniform":
            raise ShapeMismatch(
                f"the pattern {self.pattern} is available only for uniform attention.", pattern=self.pattern
            )
        for number, head in enumerate(self.heads):
            size, model = head.value.shape
            expect_shape(f"output of head {number}", head.output, (model, size))
            scored = head.key is not None and head.query is not None
            if self.kind == "uniform" and (head.key is not None or head.query is not None):
                raise ShapeMismatch(
                    f"head {number} has a key or a query, but uniform attention uses neither.", number=number
                )
            if self.kind != "uniform" and not scored:
                raise ShapeMismatch(
                    f"head {number} has no key or no query, but {self.kind} attention needs both.",
                    number=number,
                    kind=self.kind,
                )
            for name, weights in (("key", head.key), ("query", head.query)):
                if weights is not None:
                    expect_shape(f"{name} of head {number}", weights, (size, model))

    @property
    def ignores_scores(self) -> bool:
        """Whether every token gives equal weight to all tokens that it reads, because in each head the key or the query is missing
        or zero.
        """
        return self.kind == "uniform" or all(
            _is_zero(head.key) or _is_zero(head.query) for head in self.heads
        )

    def parameters(self) -> Iterator[tuple[str, Weights]]:
        for number, head in enumerate(self.heads):
            for name, weights in head.parameters():
                yield f"heads.{number}.{name}", weights


@dataclass(frozen=True, eq=False)
class SumPool:
    """Replaces the tokens Z_k of a sequence by a single one, their sum Σ_k Z_k: the pooling of a deep set (KS25 Appendix D).

    It has no parameters.
    """

    def parameters(self) -> Iterator[tuple[str, Weights]]:
        return iter(())


Layer: TypeAlias = FeedForward | Attention | SumPool


@dataclass(frozen=True, eq=False)
class Embedding:
    """The map from token id a at position k to tokens[a] + positions[k], the input vectors of KS25."""

    tokens: Weights  # (n_vocab, d)
    positions: Weights | None = None  # (seq_len, d)

    def parameters(self) -> Iterator[tuple[str, Weights]]:
        yield "tokens", self.tokens
        if self.positions is not None:
            yield "positions", self.positions


@realises("KS25-eq4")
@dataclass(frozen=True, eq=False)
class Transformer(Network):
    """The network w_out ∘ layers ∘ w_in (KS25 eq. 4), preceded by an embedding if the inputs are token ids.

    Sequences have exactly `seq_len` tokens. Shorter sequences of ids are padded on the left with the id `pad`, so that the
    last token, which carries the label in next-token prediction, stays last. After embedding, the `extra` token, if there is
    one, is inserted before every sequence. Its own output is omitted.
    """

    w_in: Weights  # (m, d)
    layers: tuple[Layer, ...]
    w_out: Weights  # (n_outputs, m)
    seq_len: int
    embedding: Embedding | None = None
    pad: int | None = None
    extra: Weights | None = None  # (1, d)
    storage: Storage | None = None

    backends = ("exact", "interpreter", "equations", "module")

    def __post_init__(self) -> None:
        """Check that every layer fits the residual stream, that exact and float weights are not mixed, and that the formats of
        `storage` hold the weights without rounding.
        """
        model, dim = self.w_in.shape
        if self.w_out.shape[1] != model:
            raise ShapeMismatch(
                f"w_out reads {self.w_out.shape[1]} channels, but the residual stream has {model}.",
                width=model,
            )
        if self.embedding is not None:
            expect_shape("the token embedding", self.embedding.tokens, (self.embedding.tokens.shape[0], dim))
            if self.embedding.positions is not None:
                expect_shape("the position embedding", self.embedding.positions, (self.seq_len, dim))
        if self.extra is not None:
            expect_shape("the extra token", self.extra, (1, dim))
        for number, layer in enumerate(self.layers):
            if isinstance(layer, FeedForward) and layer.w1.shape[1] != model:
                raise ShapeMismatch(
                    f"layer {number} reads {layer.w1.shape[1]} channels, but the residual stream has {model}.",
                    number=number,
                    width=model,
                )
            if isinstance(layer, Attention) and any(head.value.shape[1] != model for head in layer.heads):
                raise ShapeMismatch(
                    f"a head of layer {number} does not read {model} channels, the width of the residual stream.",
                    number=number,
                    width=model,
                )
        kinds = {
            "exact" if isinstance(weights, SparseMatrix) else str(weights.dtype)
            for _, weights in self.parameters()
        }
        if len(kinds) != 1 or not kinds <= {"exact", "float64", "float32"}:
            raise ShapeMismatch(
                f"all weights of a network must be of one kind (exact, float64 or float32); these are {', '.join(sorted(kinds))}.",
                kinds=kinds,
            )
        if self.storage is not None:
            if kinds != {"float32"}:
                raise ShapeMismatch(
                    f"only float32 weights can be stored as {self.storage.precision}; these are {', '.join(sorted(kinds))}.",
                    precision=self.storage.precision,
                    kinds=kinds,
                )
            self.encoded()

    def encoded(self) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
        """Return every array as it is stored: its numbers and, if they are stored as integers, their exponents.

        The network must have a `storage`.
        """
        assert self.storage is not None
        return {
            name: each.encode(name, np.asarray(weights))
            for (name, weights), each in zip(self.parameters(), self.storage.formats, strict=True)
        }

    @property
    def stored_bits(self) -> int:
        """The number of bits that store all arrays, each in its own format, including exponents."""
        if self.storage is None:
            return super().stored_bits
        shapes = (tuple(weights.shape) for _, weights in self.parameters())
        return sum(each.n_bits(shape) for each, shape in zip(self.storage.formats, shapes, strict=True))

    @cached_property
    def spec(self) -> TransformerSpec:
        from byheart.network.transformer.spec import spec_of

        return spec_of(self)

    @property
    def model_width(self) -> int:
        """The width of the residual stream, m."""
        return int(self.w_in.shape[0])

    def parameters(self) -> Iterator[tuple[str, Weights]]:
        if self.embedding is not None:
            for name, weights in self.embedding.parameters():
                yield f"embedding.{name}", weights
        if self.extra is not None:
            yield "extra", self.extra
        yield "w_in", self.w_in
        for number, layer in enumerate(self.layers):
            for name, weights in layer.parameters():
                yield f"layers.{number}.{name}", weights
        yield "w_out", self.w_out

    @property
    def backend(self) -> Backend:
        """The default evaluator: the exact one for exact weights, PyTorch for floats."""
        return "exact" if self.precision == "exact" else "module"

    @property
    def second_backend(self) -> Backend:
        """The evaluator that checks answers a second time. It is the interpreter, which computes with fractions.

        Softmax of unequal scores is irrational. So networks with softmax attention whose scores may differ are evaluated in floats
        with NumPy instead.
        """
        has_softmax = any(
            isinstance(layer, Attention) and layer.kind == "softmax" and not layer.ignores_scores
            for layer in self.layers
        )
        return "equations" if has_softmax else "interpreter"

    def traits(self) -> list[str]:
        return [_kind(layer) for layer in self.layers]

    def module(self) -> nn.Module:
        """Return a PyTorch module in the network's own float type, or in float64 for exact weights."""
        from byheart.network.transformer.module import to_module

        return to_module(self)

    def answer(self, encoded: np.ndarray, label_names: Sequence[str], how: Evaluation) -> np.ndarray:
        """Return the class number of each answer, or `UNKNOWN`.

        A network output of exactly c + 1 means class c; any other output means "unknown".
        """
        from byheart.network.transformer.answers import answer

        return answer(self, encoded, len(label_names), how)

    def classes_of(self, outputs: np.ndarray, n_classes: int) -> np.ndarray:
        """Return the classes of module outputs (n_samples, n_tokens, n_outputs).

        Only the first output of a token counts: c + 1 means class c.
        """
        from byheart.network.transformer.answers import classes_of_floats

        require_axes(outputs, ("n_samples", "n_tokens", "n_outputs"))
        return classes_of_floats(outputs[:, :, 0], n_classes)


def _is_zero(weights: Weights | None) -> bool:
    if isinstance(weights, SparseMatrix):
        return not weights.entries
    return weights is None or not weights.any()


def _kind(layer: Layer) -> str:
    if not isinstance(layer, Attention):
        return type(layer).__name__
    return layer.kind if layer.pattern == "full" else f"{layer.kind}-{layer.pattern}"
