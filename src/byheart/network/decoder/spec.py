"""The shape of MFT24's decoder without its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from byheart.fields import Fields
from byheart.network.arrays import ArrayShapes, PadsBeyondVocabulary, read_sizes, refuse_impossible
from byheart.network.decoder.architecture import (
    Activation,
    Decoder,
    Mixing,
    SelfAttention,
    TokenAveraging,
)
from byheart.network.exact.dyadic import Weights
from byheart.network.protocol import Precision
from byheart.network.transformer.architecture import Embedding

HEADS = ("n_heads", "key_dim", "value_dim")


@dataclass(frozen=True)
class DecoderSpec(PadsBeyondVocabulary, ArrayShapes):
    """Everything about a decoder except its weights. Without `heads` it averages tokens."""

    precision: Precision
    n_tokens: int
    seq_len: int
    dim: int
    heads: tuple[int, int, int] | None  # number, key size, value size
    hidden_width: int
    n_outputs: int
    activation: Activation

    @property
    def family(self) -> str:
        return "decoder" if self.heads is not None else "averaging-decoder"

    @property
    def has_positions(self) -> bool:
        """Averaging tells positions apart by its shares."""
        return self.heads is not None

    @property
    def depth(self) -> int:
        return 2

    @property
    def width(self) -> int:
        """max(d, sizes of all heads together, m)."""
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
        if self.heads is not None:
            mixing = SelfAttention(*(found[f"mixing.{name}"] for name in ("key", "query", "value", "output")))
        else:
            mixing = TokenAveraging(found["mixing.shares"])
        embedding = Embedding(found["embedding.tokens"], found.get("embedding.positions"))
        return Decoder(embedding, mixing, found["hidden"], found["bias"], found["logits"], self.activation)

    def to_json(self) -> dict[str, Any]:
        """As it stands in model.json; the last four fields are those of attention-only networks, kept for old readers."""
        heads = {} if self.heads is None else dict(zip(HEADS, self.heads, strict=True))
        return {
            "family": self.family,
            "precision": self.precision,
            "sizes": {
                "n_tokens": self.n_tokens,
                "seq_len": self.seq_len,
                "dim": self.dim,
                **heads,
                "hidden_width": self.hidden_width,
                "n_outputs": self.n_outputs,
            },
            "activation": self.activation,
            "skip": True,
            "sees_itself": True,
            "ragged": False,
            "zero_token": False,
        }

    @staticmethod
    def from_json(fields: Fields) -> DecoderSpec:
        averages = fields.text("family") == "averaging-decoder"
        names = ("n_tokens", "seq_len", "dim", *(() if averages else HEADS), "hidden_width", "n_outputs")
        sizes = read_sizes(fields, names, may_be_zero=("n_heads",))
        precision: Any = fields.text("precision", ("float64", "float32"))
        activation: Any = fields.text("activation", get_args(Activation))
        spec = DecoderSpec(
            precision,
            sizes["n_tokens"],
            sizes["seq_len"],
            sizes["dim"],
            None if averages else (sizes["n_heads"], sizes["key_dim"], sizes["value_dim"]),
            sizes["hidden_width"],
            sizes["n_outputs"],
            activation,
        )
        refuse_impossible(spec, fields)
        return spec

    def sections(self) -> list[tuple[str, str, str]]:
        first = ("1", "weighted token averaging", "")
        if self.heads is not None:
            heads = f"heads: {self.heads[0]:,} of size {self.heads[1]:,}"
            first = ("1", "softmax attention at the last token", heads)
        return [first, ("2", f"{self.activation} neurons", f"hidden width {self.hidden_width:,}")]


def spec_of(network: Decoder) -> DecoderSpec:
    heads = None
    if isinstance(network.mixing, SelfAttention):
        n_heads, _, key_dim = network.mixing.key.shape
        heads = (int(n_heads), int(key_dim), int(network.mixing.value.shape[2]))
    return DecoderSpec(
        "float32" if network.hidden.dtype == "float32" else "float64",
        network.pad,
        network.seq_len,
        int(network.hidden.shape[0]),
        heads,
        network.hidden_width,
        int(network.logits.shape[1]),
        network.activation,
    )
