"""The shape of DPC24's attention-only Transformer without its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from byheart.fields import Fields
from byheart.network.arrays import ArrayShapes, read_sizes, refuse_impossible
from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.exact.dyadic import Weights
from byheart.network.protocol import Precision
from byheart.network.transformer.architecture import Embedding

SIZES = ("n_tokens", "seq_len", "dim", "n_heads", "key_dim", "value_dim", "output_dim", "n_outputs")
FLAGS = ("skip", "sees_itself", "ragged", "zero_token")


@dataclass(frozen=True)
class AttentionOnlySpec(ArrayShapes):
    """Everything about such a network except its weights. `n_tokens` 0 stands for vector inputs."""

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
        """One beyond the vocabulary, where sequences may be shorter."""
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
        """max(d, sizes of all heads together)."""
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
        """As it stands in model.json; `activation` is a field of decoders, kept for old readers."""
        return {
            "family": self.family,
            "precision": self.precision,
            "sizes": {name: getattr(self, name) for name in SIZES},
            "activation": None,
            **{flag: getattr(self, flag) for flag in FLAGS},
        }

    @staticmethod
    def from_json(fields: Fields) -> AttentionOnlySpec:
        precision: Any = fields.text("precision", ("float64", "float32"))
        sizes: dict[str, Any] = read_sizes(fields, SIZES, may_be_zero=("n_tokens", "n_heads"))
        spec = AttentionOnlySpec(
            precision=precision,
            **sizes,
            skip=fields.boolean("skip"),
            sees_itself=fields.boolean("sees_itself"),
            ragged=fields.boolean("ragged"),
            zero_token="zero_token" in fields.values and fields.boolean("zero_token"),  # not in older folders
        )
        refuse_impossible(spec, fields)
        return spec

    def sections(self) -> list[tuple[str, str, str]]:
        heads = f"heads: {self.n_heads:,} of size {self.key_dim:,}"
        return [("1", "softmax attention at the last token", heads)]


def spec_of(network: AttentionOnly) -> AttentionOnlySpec:
    return AttentionOnlySpec(
        "float32" if network.unembedding.dtype == "float32" else "float64",
        0 if network.embedding is None else int(network.tokens.shape[0]),
        network.seq_len,
        int(network.query.shape[2]),
        network.n_heads,
        int(network.query.shape[1]),
        int(network.value.shape[1]),
        int(network.unembedding.shape[1]),
        int(network.unembedding.shape[0]),
        network.skip,
        network.sees_itself,
        network.ragged,
        network.zero_token,
    )
