"""Read a `config.json` in Hugging Face's format and count the parameters of the model exactly.

The key names are those of the library transformers, which is not imported. The count covers the language model: embeddings, blocks,
final normalisation, and the output matrix unless the model reuses the token embeddings for it. For BERT, the count covers the
class that the file names under `architectures` if it is one of `_BERT_CLASSES`, otherwise the encoder with its pooler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from byheart.bounds.config_keys import ConfigKeys
from byheart.errors import MalformedFile

Kind = Literal["decoder", "encoder", "encoder-decoder"]


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The sizes of a Transformer, with an exact parameter count.

    counted_class  the class of transformers whose parameters are counted
    n_layers       number of blocks; for an encoder-decoder, those of both parts together
    n_kv_heads     number of heads for keys and values, which several query heads may share
    hidden_width   width of the feed-forward part; in a mixture of experts, the width of one expert
    parts          the groups of parameters that are added up, such as "attention"
    """

    family: str
    counted_class: str
    kind: Kind
    vocab: int
    dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    hidden_width: int
    context_length: int | None = None
    activation: str
    n_experts: int = 1
    experts_per_token: int = 1
    parts: tuple[Part, ...]

    @property
    def parameters(self) -> int:
        return sum(part.parameters for part in self.parts)

    @property
    def active_parameters(self) -> int:
        """All parameters except those of the experts that are not chosen for a token.

        The token embedding counts in full, although a token uses only one row of it.
        """
        return sum(part.active for part in self.parts)

    def to_json(self) -> dict[str, object]:
        return {
            **{name: value for name, value in vars(self).items() if name != "parts"},
            "parameters": self.parameters,
            "active_parameters": self.active_parameters,
            "parts": {part.name: part.parameters for part in self.parts},
        }


@dataclass(frozen=True)
class Part:
    """A named group of parameters, and how many of them are used for one token."""

    name: str
    parameters: int
    active: int


def read_architecture(config: object) -> Architecture:
    """Read the sizes of a model from `config`, the parsed JSON of its config.json, and count its parameters.

    Raise `MalformedFile` if `config` is not a JSON object, a key is missing, a value has the wrong type or is out of range, values
    contradict each other, or byheart cannot count the parameters of such a model. The error names the keys,
    if any. Keys that byheart does not use are ignored.
    """
    if not isinstance(config, Mapping):
        raise MalformedFile(
            f"the architecture file must contain a JSON object with keys and values, but its type is {type(config).__name__}.",
            given_type=type(config).__name__,
        )
    family = _family(config)
    return _READERS[family](ConfigKeys(config, family))


def _family(config: Mapping[str, object]) -> str:
    known = f"  Known values of model_type: {', '.join(sorted(_READERS))}."
    named = config.get("model_type")
    if named is None:
        first = _named_class(config)
        for family in _READERS:
            head = family.removesuffix("_text").replace("_", "")
            if first.lower().startswith(head) and first[len(head) :].startswith(("For", "LMHead", "Model")):
                return family
        raise MalformedFile(
            f"the architecture file has no key `model_type`, which is needed to interpret the other keys.\n{known}",
            missing=("model_type",),
        )
    if not isinstance(named, str) or named not in _READERS:
        raise MalformedFile(
            f"`model_type` is {named!r}, which byheart does not support.\n{known}", model_type=named
        )
    return named


def _named_class(config: Mapping[str, object]) -> str:
    """Return the first class that the file names under `architectures`, or an empty string if it names none."""
    listed = config.get("architectures")
    return str(listed[0]) if isinstance(listed, list) and listed else ""


_USUAL_NAMES = {
    "vocab": "vocab_size",
    "dim": "hidden_size",
    "hidden_width": "intermediate_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
}


def _gpt2(keys: ConfigKeys) -> Architecture:
    names = {"vocab": "vocab_size", "context_length": "n_positions"}
    sizes = keys.sizes(**names, dim="n_embd", n_layers="n_layer", n_heads="n_head")
    keys.refuse("add_cross_attention", True, "byheart does not count the parameters of cross-attention")
    d, n_layers = sizes["dim"], sizes["n_layers"]
    hidden = keys.size("n_inner", 4 * d)
    attention = (3 * d * d + 3 * d) + (d * d + d)
    feed_forward = (d * hidden + hidden) + (hidden * d + d)
    return Architecture(
        family=keys.family,
        counted_class="GPT2LMHeadModel",
        kind="decoder",
        **sizes,
        n_kv_heads=sizes["n_heads"],
        head_dim=keys.quotient("n_embd", "n_head"),
        hidden_width=hidden,
        activation=keys.word("activation_function", "gelu_new"),
        parts=(
            _dense("token embedding", keys.size("vocab_size") * d),
            _dense("position embedding", keys.size("n_positions") * d),
            _dense("attention", n_layers * attention),
            _dense("feed-forward", n_layers * feed_forward),
            _dense("normalisation", n_layers * 4 * d + 2 * d),
            *_output(keys, keys.size("vocab_size") * d, tied_by_default=True),
        ),
    )


@dataclass(frozen=True)
class _LlamaStyle:
    """The ways in which a family of architectures may differ from Llama.

    counted      the class of transformers that is counted
    tied         by default, the output matrix is the token embedding
    qkv_bias     queries, keys and values always have biases
    head_dim     default size of a head; None for the width of the model divided by the number of heads
    head_norms   number of norms per block that act on single heads
    block_norms  number of norms per block that act on vectors of the width of the model
    experts      for mixtures of experts, the key with the number of experts, then the name of this key in files of some other
                 versions of transformers
    activation   default activation function
    """

    counted: str
    _: KW_ONLY
    tied: bool = False
    qkv_bias: bool = False
    head_dim: int | None = None
    head_norms: int = 0
    block_norms: int = 2
    experts: tuple[str, ...] = ()
    activation: str = "silu"


def _llama_like(style: _LlamaStyle) -> Callable[[ConfigKeys], Architecture]:
    """Return a reader for decoders with rotary positions, RMS norms and a gated feed-forward part."""

    def read(keys: ConfigKeys) -> Architecture:
        sizes = keys.sizes(**_USUAL_NAMES)
        wide = sizes.pop("hidden_width")
        experts = keys.first_present(*style.experts) if style.experts else ""
        if experts:
            keys.need(experts, "num_experts_per_tok")
        d, n_layers, n_heads = sizes["dim"], sizes["n_layers"], sizes["n_heads"]
        n_kv = keys.size("num_key_value_heads", n_heads)
        keys.must_divide("num_key_value_heads", n_kv, "num_attention_heads", n_heads)
        given = keys.size("head_dim", style.head_dim or 0)
        head_dim = given or keys.quotient("hidden_size", "num_attention_heads")
        bias = keys.flag("attention_bias", False)
        queries, pairs = n_heads * head_dim, 2 * n_kv * head_dim
        attention = 2 * d * queries + d * pairs
        attention += queries + pairs if style.qkv_bias or bias else 0
        attention += d if bias else 0
        norms = style.block_norms * d + style.head_norms * head_dim
        return Architecture(
            family=keys.family,
            counted_class=style.counted,
            kind="decoder",
            **sizes,
            n_kv_heads=n_kv,
            head_dim=head_dim,
            hidden_width=keys.size("moe_intermediate_size", wide),
            context_length=keys.size("max_position_embeddings", 0) or None,
            activation=keys.word("hidden_act", keys.word("hidden_activation", style.activation)),
            parts=(
                _dense("token embedding", keys.size("vocab_size") * d),
                _dense("attention", n_layers * attention),
                *_gated_feed_forward(keys, experts, d, n_layers),
                _dense("normalisation", n_layers * norms + d),
                *_output(keys, keys.size("vocab_size") * d, tied_by_default=style.tied),
            ),
            n_experts=keys.size(experts) if experts else 1,
            experts_per_token=keys.size("num_experts_per_tok") if experts else 1,
        )

    return read


def _gated_feed_forward(keys: ConfigKeys, experts: str, d: int, n_layers: int) -> tuple[Part, ...]:
    """Return the feed-forward parts. `experts` is the key with the number of experts, or an empty string if there are none."""
    wide = keys.size("intermediate_size")
    bias = (2 * wide + d) if keys.flag("mlp_bias", False) else 0
    plain = 3 * d * wide + bias
    if not experts:
        return (_dense("feed-forward", n_layers * plain),)
    n_experts, chosen = keys.size(experts), keys.size("num_experts_per_tok")
    if chosen > n_experts:
        raise MalformedFile(
            f"num_experts_per_tok = {chosen} is more than {experts} = {n_experts}; one of them is wrong.",
            chosen=chosen,
            experts=experts,
            n_experts=n_experts,
        )
    n_sparse = keys.sparse_layers(n_layers)
    expert = 3 * d * keys.size("moe_intermediate_size", wide)
    shared_width = keys.size("shared_expert_intermediate_size", 0)
    shared = 3 * d * shared_width + d if shared_width else 0  # with the gate that weights it
    parts = [
        Part("experts", n_sparse * n_experts * expert, n_sparse * chosen * expert),
        _dense("router", n_sparse * d * n_experts),
    ]
    if shared:
        parts.append(_dense("shared expert", n_sparse * shared))
    if n_sparse < n_layers:
        parts.append(_dense("feed-forward", (n_layers - n_sparse) * plain))
    return tuple(parts)


def _t5(keys: ConfigKeys) -> Architecture:
    names = {"vocab": "vocab_size", "dim": "d_model", "head_dim": "d_kv", "hidden_width": "d_ff"}
    sizes = keys.sizes(**names, n_layers="num_layers", n_heads="num_heads")
    d, n_heads, n_encoder = sizes["dim"], sizes["n_heads"], sizes.pop("n_layers")
    n_decoder = keys.size("num_decoder_layers", n_encoder)
    attention = 4 * d * n_heads * sizes["head_dim"]
    form = keys.word("feed_forward_proj", "relu")
    feed_forward = (3 if form.startswith("gated") else 2) * d * sizes["hidden_width"]
    bias = keys.size("relative_attention_num_buckets", 32) * n_heads
    embedding = keys.size("vocab_size") * d
    return Architecture(
        family=keys.family,
        counted_class="T5ForConditionalGeneration",
        kind="encoder-decoder",
        **sizes,
        n_layers=n_encoder + n_decoder,
        n_kv_heads=n_heads,
        activation=form.removeprefix("gated-"),
        parts=(
            _dense("token embedding", embedding),
            _dense("attention", n_encoder * attention + n_decoder * 2 * attention),
            _dense("relative position bias", 2 * bias),
            _dense("feed-forward", (n_encoder + n_decoder) * feed_forward),
            _dense("normalisation", (2 * n_encoder + 3 * n_decoder + 2) * d),
            *_output(keys, embedding, tied_by_default=True),
        ),
    )


_BERT_CLASSES: Mapping[str, tuple[str, ...]] = {
    "BertModel": ("pooler",),
    "BertForMaskedLM": ("token prediction",),
    "BertLMHeadModel": ("token prediction",),
    "BertForNextSentencePrediction": ("pooler", "sentence prediction"),
    "BertForPreTraining": ("pooler", "token prediction", "sentence prediction"),
}
"""For each class that can be counted, its parts after the blocks."""


def _bert(keys: ConfigKeys) -> Architecture:
    sizes = keys.sizes(**_USUAL_NAMES, context_length="max_position_embeddings")
    keys.require(
        "position_embedding_type", "absolute", "byheart does not count the tables of relative positions"
    )
    keys.refuse("add_cross_attention", True, "byheart does not count the parameters of cross-attention")
    d, n_layers, hidden, vocab = sizes["dim"], sizes["n_layers"], sizes["hidden_width"], sizes["vocab"]
    named = _named_class(keys.config)
    counted_class = named if named in _BERT_CLASSES else "BertModel"
    heads = {"pooler": d * d + d, "token prediction": d * d + 3 * d + vocab, "sentence prediction": 2 * d + 2}
    if not keys.flag("tie_word_embeddings", True):
        heads["token prediction"] += vocab * d + vocab
    return Architecture(
        family=keys.family,
        counted_class=counted_class,
        kind="encoder",
        **sizes,
        n_kv_heads=sizes["n_heads"],
        head_dim=keys.quotient("hidden_size", "num_attention_heads"),
        activation=keys.word("hidden_act", "gelu"),
        parts=(
            _dense("token embedding", keys.size("vocab_size") * d),
            _dense("position embedding", sizes["context_length"] * d),
            _dense("segment embedding", keys.size("type_vocab_size", 2) * d),
            _dense("attention", n_layers * 4 * (d * d + d)),
            _dense("feed-forward", n_layers * (d * hidden + hidden + hidden * d + d)),
            _dense("normalisation", n_layers * 4 * d + 2 * d),
            *(_dense(head, heads[head]) for head in _BERT_CLASSES[counted_class]),
        ),
    )


def _dense(name: str, parameters: int) -> Part:
    return Part(name, parameters, parameters)


def _output(keys: ConfigKeys, size: int, tied_by_default: bool) -> tuple[Part, ...]:
    return () if keys.flag("tie_word_embeddings", tied_by_default) else (_dense("output", size),)


_QWEN_EXPERTS = ("num_experts", "num_local_experts")
_READERS: Mapping[str, Callable[[ConfigKeys], Architecture]] = {
    "gpt2": _gpt2,
    "llama": _llama_like(_LlamaStyle("LlamaForCausalLM")),
    "mistral": _llama_like(_LlamaStyle("MistralForCausalLM")),
    "qwen2": _llama_like(_LlamaStyle("Qwen2ForCausalLM", qkv_bias=True)),
    "qwen3": _llama_like(_LlamaStyle("Qwen3ForCausalLM", head_dim=128, head_norms=2)),
    "gemma": _llama_like(_LlamaStyle("GemmaForCausalLM", tied=True, head_dim=256, activation="gelu")),
    "gemma2": _llama_like(
        _LlamaStyle("Gemma2ForCausalLM", tied=True, head_dim=256, block_norms=4, activation="gelu")
    ),
    "gemma3_text": _llama_like(
        _LlamaStyle(
            "Gemma3ForCausalLM", tied=True, head_dim=256, head_norms=2, block_norms=4, activation="gelu"
        )
    ),
    "mixtral": _llama_like(_LlamaStyle("MixtralForCausalLM", experts=("num_local_experts",))),
    "qwen2_moe": _llama_like(_LlamaStyle("Qwen2MoeForCausalLM", qkv_bias=True, experts=_QWEN_EXPERTS)),
    "qwen3_moe": _llama_like(_LlamaStyle("Qwen3MoeForCausalLM", head_norms=2, experts=_QWEN_EXPERTS)),
    "t5": _t5,
    "bert": _bert,
}
