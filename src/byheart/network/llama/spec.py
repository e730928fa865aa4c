"""The shape of a Llama without its weights: the numbers in a Hugging Face `config.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from byheart.errors import CorruptModel
from byheart.network.arrays import PadsBeyondVocabulary, entries_of, read_sizes, require_possible
from byheart.network.protocol import Precision
from byheart.records.fields import Fields

if TYPE_CHECKING:
    from byheart.network.exact.dyadic import Weights
    from byheart.network.llama.architecture import Llama

EMBEDDING, FINAL_NORM = "model.embed_tokens.weight", "model.norm.weight"
Mode = Literal["facts", "texts"]
"""The two uses of a model. In mode `facts`, a prompt and a separator are followed by the answer and the end token. In mode
`texts`, the model continues the text of the prompt."""
SIZES = ("n_tokens", "hidden", "inner", "n_layers", "n_heads", "head_dim", "max_positions", "answer_len")
IDS = ("bos", "eos", "sep")
OPTIONAL = ("max_new_tokens", "window")


@dataclass(frozen=True)
class LlamaSpec(PadsBeyondVocabulary):
    """The numbers that determine what the weights compute.

    There is one key-value head, and the embedding is also the output matrix. In mode `facts`, the model answers a prompt. In mode
    `texts`, it continues the prompt.

    answer_len      in mode `facts`, the number of tokens of the longest answer, including the end token; 1 in mode `texts`
    tokenizer_hash  SHA-256, in hexadecimal, of the tokenizer.json for which the weights were compiled
    unknown         the id of the token to generate after an unknown prompt; None means `eos`
    max_new_tokens  the entry `max_new_tokens` of generation_config.json; None for older folders, in which that file limits the
                    total length of prompt and answer instead
    window          in mode `texts`, the number of preceding tokens that determine the next token; None in mode `facts` and for
                    older folders
    """

    n_tokens: int
    hidden: int
    inner: int
    n_layers: int
    n_heads: int
    head_dim: int
    max_positions: int
    rope_theta: float
    bos: int
    eos: int
    sep: int
    mode: Mode = "facts"
    answer_len: int = 1
    tokenizer_hash: str = ""
    norm_eps: float = 1e-6
    unknown: int | None = None
    max_new_tokens: int | None = None
    window: int | None = None

    family = "llama"
    has_positions = False

    @property
    def precision(self) -> Precision:
        return "float32"

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens after which generation stops."""
        return (self.eos,) if self.unknown in (None, self.eos) else (self.eos, self.unknown)

    @property
    def most_answered(self) -> int:
        """In mode `facts`, the most tokens that an answer may have, including its end token.

        This is `answer_len`, or `max_new_tokens` if that is smaller, because programs such as transformers stop after
        `max_new_tokens` tokens.
        """
        return min(self.answer_len, self.max_new_tokens or self.answer_len)

    @property
    def seq_len(self) -> int:
        """The largest number of tokens in a prompt. It is smaller than `max_positions`, because the begin token, the separator and
        the answer need positions too.
        """
        return self.max_positions - 2 - self.answer_len

    @property
    def dim(self) -> int:
        return self.hidden

    @property
    def model_width(self) -> int:
        return self.hidden

    @property
    def depth(self) -> int:
        """The number of attention and feed-forward layers."""
        return 2 * self.n_layers

    @property
    def width(self) -> int:
        return max(self.hidden, self.inner, self.n_heads * self.head_dim)

    @property
    def n_arrays(self) -> int:
        return 2 + 9 * self.n_layers

    @property
    def n_rows(self) -> int:
        per_layer = sum(shape[0] for _, shape in self._layer_shapes())
        return self.n_tokens + self.hidden + self.n_layers * per_layer

    @property
    def parameters_dense(self) -> int:
        return (self.n_tokens + 1) * self.hidden + self.n_layers * entries_of(iter(self._layer_shapes()))

    @property
    def parameters_without_embedding(self) -> int:
        """The number of entries of all tensors except the embedding."""
        return self.parameters_dense - self.n_tokens * self.hidden

    def _layer_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        wide = self.n_heads * self.head_dim
        return [
            ("input_layernorm", (self.hidden,)),
            ("self_attn.q_proj", (wide, self.hidden)),
            ("self_attn.k_proj", (self.head_dim, self.hidden)),
            ("self_attn.v_proj", (self.head_dim, self.hidden)),
            ("self_attn.o_proj", (self.hidden, wide)),
            ("post_attention_layernorm", (self.hidden,)),
            ("mlp.gate_proj", (self.inner, self.hidden)),
            ("mlp.up_proj", (self.inner, self.hidden)),
            ("mlp.down_proj", (self.hidden, self.inner)),
        ]

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the name and shape of every tensor, in the order of evaluation."""
        yield EMBEDDING, (self.n_tokens, self.hidden)
        for layer in range(self.n_layers):
            for part, shape in self._layer_shapes():
                yield weight_name(layer, part), shape
        yield FINAL_NORM, (self.hidden,)

    @property
    def frequencies(self) -> Float[np.ndarray, " n_pairs"]:
        """For each pair of dimensions, the angle by which it is rotated from one position to the next."""
        return self.rope_theta ** (-2 * np.arange(self.head_dim // 2) / self.head_dim)

    def build(self, weights: Iterator[Weights], files: Mapping[str, bytes]) -> Llama:
        """Build the network from its weights and from the files of its folder.

        Raises `CorruptModel` if the files do not agree with this shape.
        """
        from byheart.network.llama.architecture import Llama
        from byheart.network.llama.checkpoint import check_files

        tokenizer = check_files(self, files)
        found: dict[str, Any] = {name: next(weights) for name, _ in self.shapes()}
        return Llama(self, found, tokenizer)

    def to_json(self) -> dict[str, Any]:
        return {
            "family": self.family,
            "precision": self.precision,
            "sizes": {name: getattr(self, name) for name in SIZES},
            "ids": {name: getattr(self, name) for name in IDS} | {"unknown": self.ends[-1]},
            "rope_theta": self.rope_theta,
            "norm_eps": self.norm_eps,
            "mode": self.mode,
            "tokenizer_hash": self.tokenizer_hash,
            **{name: value for name in OPTIONAL if (value := getattr(self, name)) is not None},
        }

    @staticmethod
    def from_json(fields: Fields) -> LlamaSpec:
        sizes = read_sizes(fields, SIZES)
        special = fields.child("ids")
        ids = {name: special.integer(name, 0) for name in IDS}
        ids["unknown"] = special.integer("unknown", 0) if special.has("unknown") else ids["eos"]
        mode: Any = fields.text("mode", get_args(Mode))
        fields.text("precision", ("float32",))
        if sizes["head_dim"] % 2 or max(ids.values()) >= sizes["n_tokens"]:
            raise fields.refuse(
                "sizes",
                "an object with an even head_dim, and with n_tokens greater than the id of every special token",
            )
        if sizes["max_positions"] <= sizes["answer_len"] + 2:
            raise fields.refuse("sizes", "an object in which max_positions is greater than answer_len + 2")
        spec = LlamaSpec(
            **sizes,
            **ids,
            rope_theta=_positive(fields, "rope_theta"),
            norm_eps=_positive(fields, "norm_eps"),
            mode=mode,
            tokenizer_hash=fields.text("tokenizer_hash"),
            **{name: fields.integer(name, 1) for name in OPTIONAL if fields.has(name)},
        )
        if mode == "texts" and not spec.max_positions <= (spec.max_new_tokens or spec.max_positions):
            # other programs would stop before the text ends
            raise fields.refuse("max_new_tokens", "at least max_positions if the model continues texts")
        return require_possible(spec, fields)

    def sections(self) -> list[tuple[str, str, str]]:
        sizes = f"hidden {self.hidden:,}, inner {self.inner:,}, {self.n_heads} heads of size {self.head_dim}"
        return [(f"0 to {self.n_layers - 1}", "stock Llama layers", sizes)]


def _positive(fields: Fields, name: str) -> float:
    value = fields.values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
        raise CorruptModel(
            f"{fields.where}: {name} must be a positive number below 1e30, not {value!r}.", problem=name
        )
    return float(value)


def weight_name(layer: int, part: str) -> str:
    """Return the name that the weight of `part` in layer number `layer` has in the checkpoint. An example of a part is
    `mlp.down_proj`.
    """
    return f"model.layers.{layer}.{part}.weight"
