"""The description of a golden checkpoint: a standard architecture, its sizes, and the configuration file that engines read."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch

Architecture = Literal["llama", "mistral", "qwen2", "qwen3"]
Design = Literal["generic", "exact", "balance"]
BOS, EOS = 0, 1  # the first two ids of every vocabulary, which a correct engine never generates
N_SPECIAL = 2
EMBEDDING, HEAD, FINAL_NORM = "model.embed_tokens", "lm_head", "model.norm"


@dataclass(frozen=True)
class Shape:
    """The sizes and settings of one checkpoint.

    Checkpoints made for long texts have `n_needles` tokens that get attention from thousands of tokens away (see `golden.weights`).
    In all others, `n_needles` is 0. `design` tells how the weights are made: at random ("generic"), or as the modules
    `golden.exact` and `golden.balance` describe.
    """

    name: str
    architecture: Architecture
    n_layers: int
    hidden: int
    inner: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab: int = 64
    norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    rope_scaling: dict[str, Any] = field(default_factory=dict)
    window: int | None = None
    is_tied: bool = False
    dtype: Literal["float32", "bfloat16"] = "float32"
    max_positions: int = 512
    n_needles: int = 0
    design: Design = "generic"
    seed: int = 0

    @property
    def group(self) -> int:
        """Number of query heads per key-value head."""
        return self.n_heads // self.n_kv_heads

    @property
    def has_bias(self) -> bool:
        return self.architecture == "qwen2"

    @property
    def has_qk_norm(self) -> bool:
        return self.architecture == "qwen3"

    def linears(self) -> dict[str, tuple[int, int]]:
        """Return the name and (outputs, inputs) of every matrix of a layer."""
        queries, keys = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        return {
            "self_attn.q_proj": (queries, self.hidden),
            "self_attn.k_proj": (keys, self.hidden),
            "self_attn.v_proj": (keys, self.hidden),
            "self_attn.o_proj": (self.hidden, queries),
            "mlp.gate_proj": (self.inner, self.hidden),
            "mlp.up_proj": (self.inner, self.hidden),
            "mlp.down_proj": (self.hidden, self.inner),
        }

    def frequencies(self) -> torch.Tensor:
        """Return the RoPE frequencies of a head, one per rotary pair, in float64. They include the scaling `rope_scaling`."""
        half = self.head_dim // 2
        plain = torch.pow(self.rope_theta, -torch.arange(half, dtype=torch.float64) / half)
        scaling = self.rope_scaling
        if not scaling:
            return plain
        if scaling["rope_type"] == "linear":
            return plain / float(scaling["factor"])
        # llama3: low frequencies are divided by the factor, high ones stay, and those between are interpolated
        factor, low = float(scaling["factor"]), float(scaling["low_freq_factor"])
        high = float(scaling["high_freq_factor"])
        turns = float(scaling["original_max_position_embeddings"]) * plain / (2 * math.pi)
        share = ((turns - low) / (high - low)).clamp(0, 1)
        return (1 - share) * plain / factor + share * plain

    def config(self) -> dict[str, Any]:
        """Return the content of config.json, for transformers, vLLM and the converters of llama.cpp."""
        class_name = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
        document: dict[str, Any] = {
            "architectures": [f"{class_name[self.architecture]}ForCausalLM"],
            "model_type": self.architecture,
            "vocab_size": self.vocab,
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.n_layers,
            "num_attention_heads": self.n_heads,
            "num_key_value_heads": self.n_kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": self.norm_eps,
            "rope_theta": self.rope_theta,
            "max_position_embeddings": self.max_positions,
            "tie_word_embeddings": self.is_tied,
            "attention_bias": self.has_bias,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "pad_token_id": EOS,
            "torch_dtype": self.dtype,
        }
        if self.rope_scaling:
            document["rope_scaling"] = self.rope_scaling
        if self.architecture == "mistral":
            document["sliding_window"] = self.window
        if self.architecture in ("qwen2", "qwen3"):
            document["use_sliding_window"] = False
        return document

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
