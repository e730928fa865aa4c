"""The shapes of networks that answer with logits: what model.json says of a decoder or an attention-only Transformer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Literal, get_args

from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.decoder.architecture import Activation, Decoder, SelfAttention, TokenAveraging
from byheart.network.exact.dyadic import Weights
from byheart.network.families import LogitNetwork
from byheart.network.transformer.architecture import Embedding, Precision
from byheart.storage.blueprint import MAX_COLUMNS, MAX_ROWS, MAX_SEQ_LEN
from byheart.verify.fields import Fields, corrupt

Family = Literal["decoder", "averaging-decoder", "attention-only"]
SIZES: dict[str, tuple[str, ...]] = {
    "decoder": ("n_tokens", "seq_len", "dim", "n_heads", "key_dim", "value_dim", "hidden_width", "n_outputs"),
    "averaging-decoder": ("n_tokens", "seq_len", "dim", "hidden_width", "n_outputs"),
    "attention-only": (
        "n_tokens",
        "seq_len",
        "dim",
        "n_heads",
        "key_dim",
        "value_dim",
        "output_dim",
        "n_outputs",
    ),
}
MOST = {"n_tokens": MAX_ROWS, "seq_len": MAX_SEQ_LEN}
MAX_ENTRIES = 2**48


@dataclass(frozen=True)
class LogitBlueprint:
    """Everything about such a network except its weights. `n_tokens` 0 stands for vector inputs."""

    family: Family
    precision: Precision
    sizes: tuple[tuple[str, int], ...]
    activation: Activation | None = None
    skip: bool = True
    sees_itself: bool = True
    ragged: bool = False
    zero_token: bool = False

    def size(self, name: str) -> int:
        """One of the sizes by name."""
        return dict(self.sizes)[name]

    @property
    def n_vocab(self) -> int | None:
        """Tokens it embeds; None for vectors."""
        return self.size("n_tokens") or None

    @property
    def seq_len(self) -> int:
        """Tokens of the longest sequence."""
        return self.size("seq_len")

    @property
    def dim(self) -> int:
        """Embedding dimension."""
        return self.size("dim")

    @property
    def model_width(self) -> int:
        """Width of the stream: the embedding dimension."""
        return self.dim

    @property
    def has_positions(self) -> bool:
        """Whether positions are embedded."""
        return self.n_vocab is not None and self.family != "averaging-decoder"

    @property
    def pad(self) -> int | None:
        """The id of padding: decoders take shorter contexts too."""
        takes_shorter = self.ragged or self.family != "attention-only"
        return self.size("n_tokens") if takes_shorter else None

    @property
    def n_matrices(self) -> int:
        """Weight arrays in all."""
        return sum(1 for _ in self.matrices())

    def matrices(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and shape of every parameter, in the order of the network's own."""
        get = dict(self.sizes)
        dim, seq_len, n_outputs = get["dim"], get["seq_len"], get["n_outputs"]
        if get["n_tokens"]:
            yield "embedding.tokens", (get["n_tokens"], dim)
            if self.has_positions:
                yield "embedding.positions", (seq_len, dim)
        if self.family == "attention-only":
            heads, key, value, out = (get[name] for name in ("n_heads", "key_dim", "value_dim", "output_dim"))
            yield "query", (heads, key, dim)
            yield "key", (heads, key, dim)
            yield "value", (heads, value, dim)
            yield "output", (heads, out, value)
            yield "unembedding", (n_outputs, out)
            return
        if self.family == "decoder":
            heads, key, value = (get[name] for name in ("n_heads", "key_dim", "value_dim"))
            yield "mixing.key", (heads, dim, key)
            yield "mixing.query", (heads, dim, key)
            yield "mixing.value", (heads, dim, value)
            yield "mixing.output", (heads, value, dim)
        else:
            yield "mixing.shares", (seq_len,)
        width = get["hidden_width"]
        yield from (("hidden", (dim, width)), ("bias", (width,)), ("logits", (width, n_outputs)))

    def build(self, weights: Iterator[Weights]) -> LogitNetwork:
        """The network with these weights, which come in the order of `matrices()`."""
        found: dict[str, Any] = {name: next(weights) for name, _ in self.matrices()}
        embedding = None
        if self.size("n_tokens"):
            embedding = Embedding(found["embedding.tokens"], found.get("embedding.positions"))
        if self.family == "attention-only":
            names = ("query", "key", "value", "output", "unembedding")
            parts = {name: found[name] for name in names}
            return AttentionOnly(
                embedding,
                **parts,
                seq_len=self.size("seq_len"),
                skip=self.skip,
                sees_itself=self.sees_itself,
                ragged=self.ragged,
                zero_token=self.zero_token,
            )
        assert embedding is not None
        assert self.activation is not None
        mixing: SelfAttention | TokenAveraging
        if self.family == "decoder":
            mixing = SelfAttention(*(found[f"mixing.{name}"] for name in ("key", "query", "value", "output")))
        else:
            mixing = TokenAveraging(found["mixing.shares"])
        return Decoder(embedding, mixing, found["hidden"], found["bias"], found["logits"], self.activation)

    def to_json(self) -> dict[str, Any]:
        """As it stands in model.json."""
        values = asdict(self)
        return {**values, "sizes": dict(self.sizes)}

    def sections(self) -> list[tuple[str, str, str]]:
        """Layers, kind and sizes, for a person."""
        get = dict(self.sizes)
        if self.family == "averaging-decoder":
            first = ("1", "weighted token averaging", "")
        else:
            first = (
                "1",
                "softmax attention at the last token",
                f"heads: {get['n_heads']:,} of size {get['key_dim']:,}",
            )
        if self.family == "attention-only":
            return [first]
        return [first, ("2", f"{self.activation} neurons", f"hidden width {get['hidden_width']:,}")]

    @staticmethod
    def from_json(fields: Fields) -> LogitBlueprint:
        """From model.json, every number checked."""
        family: Any = fields.text("family", get_args(Family))
        precision: Any = fields.text("precision", ("float64", "float32"))
        found = fields.child("sizes")
        may_be_zero = {"n_tokens"} if family == "attention-only" else set()
        may_be_zero |= {"n_heads"}
        sizes = tuple(
            (name, found.integer(name, 0 if name in may_be_zero else 1, MOST.get(name, MAX_COLUMNS)))
            for name in SIZES[family]
        )
        activation: Any = None
        if family != "attention-only":
            activation = fields.text("activation", get_args(Activation))
        plan = LogitBlueprint(
            family,
            precision,
            sizes,
            activation,
            fields.boolean("skip"),
            fields.boolean("sees_itself"),
            fields.boolean("ragged"),
            "zero_token" in fields.values and fields.boolean("zero_token"),  # absent from older folders
        )
        if sum(prod(shape) for _, shape in plan.matrices()) > MAX_ENTRIES:
            raise corrupt(fields.where, "the sizes of the architecture are impossible")
        return plan


def logit_blueprint(network: LogitNetwork) -> LogitBlueprint:
    """The shape of `network`."""
    sizes = {"seq_len": network.seq_len, "dim": network.dim, "n_outputs": network.n_outputs}
    if isinstance(network, AttentionOnly):
        sizes |= {
            "n_tokens": 0 if network.embedding is None else int(network.tokens.shape[0]),
            "n_heads": network.n_heads,
            "key_dim": network.head_dim,
            "value_dim": int(network.value.shape[1]),
            "output_dim": int(network.unembedding.shape[1]),
        }
        family: Family = "attention-only"
        return LogitBlueprint(
            family,
            network.precision,
            _ordered(family, sizes),
            None,
            network.skip,
            network.sees_itself,
            network.ragged,
            network.zero_token,
        )
    sizes |= {"n_tokens": network.pad, "hidden_width": network.hidden_width}
    family = "averaging-decoder"
    if isinstance(network.mixing, SelfAttention):
        family = "decoder"
        n_heads, _, key_dim = network.mixing.key.shape
        sizes |= {"n_heads": n_heads, "key_dim": key_dim, "value_dim": int(network.mixing.value.shape[2])}
    return LogitBlueprint(family, network.precision, _ordered(family, sizes), network.activation)


def _ordered(family: Family, sizes: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((name, int(sizes[name])) for name in SIZES[family])
