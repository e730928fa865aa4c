"""Write a checkpoint as a float32 GGUF file for llama.cpp, tensor by tensor, with the tensor names of llama.cpp.

In our code, tensors have the names that transformers uses. For the architecture `llama`, which also covers Mistral,
llama.cpp applies rotary embeddings to pairs of neighbouring entries of a head. In transformers, a pair consists of an
entry of the first half and the corresponding entry of the second half. The rows of the query and key matrices are
therefore permuted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from byheart.errors import import_extra
from byheart.files.whole_file import check_file_target, whole_file
from byheart.process.progress import Progress, silent

LAYER_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WHOLE_PARTS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
ROTARY_FACTORS = "rope_freqs.weight"


@dataclass(frozen=True)
class GgufSizes:
    """The name, architecture and sizes of a checkpoint, which llama.cpp needs in addition to weights and tokenizer.

    `width` is the size of the residual stream, and `inner` is the number of hidden units in a feed-forward layer.
    """

    name: str
    architecture: str
    max_positions: int
    width: int
    inner: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    n_tokens: int
    rope_theta: float
    norm_eps: float
    rope_divisor: float | None = None  # the factor of linear rotary scaling

    def write(self, gguf: Any, writer: Any) -> None:
        writer.add_name(self.name)
        writer.add_context_length(self.max_positions)
        writer.add_embedding_length(self.width)
        writer.add_block_count(self.n_layers)
        writer.add_feed_forward_length(self.inner)
        writer.add_head_count(self.n_heads)
        writer.add_head_count_kv(self.n_kv_heads)
        writer.add_key_length(self.head_dim)
        writer.add_value_length(self.head_dim)
        writer.add_rope_dimension_count(self.head_dim)
        writer.add_rope_freq_base(self.rope_theta)
        writer.add_layer_norm_rms_eps(self.norm_eps)
        writer.add_vocab_size(self.n_tokens)
        writer.add_file_type(gguf.LlamaFileType.ALL_F32)
        if self.rope_divisor is not None:
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(self.rope_divisor)


def write_gguf(
    path: Path,
    sizes: GgufSizes,
    write_tokenizer: Callable[[Any], None],
    shapes: Mapping[str, tuple[int, ...]],
    weight: Callable[[str], np.ndarray],
    progress: Progress = silent,
) -> None:
    """Write a GGUF file, atomically, one tensor after the other.

    write_tokenizer: a function that adds the tokenizer to a `GGUFWriter`.
    shapes: the shape of every tensor, by its name in transformers.
    weight: a function that returns a tensor, given its name in transformers. It is called when the tensor is written.
    """
    check_file_target(path)
    gguf = import_extra("gguf", "gguf", "a GGUF file")
    with whole_file(path) as fresh:
        writer = gguf.GGUFWriter(fresh, sizes.architecture)
        sizes.write(gguf, writer)
        write_tokenizer(writer)
        for name, shape in shapes.items():
            writer.add_tensor_info(gguf_name(name), shape, np.dtype(np.float32), 4 * int(np.prod(shape)))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for number, name in enumerate(shapes):
            progress(number, len(shapes), "write")
            values = to_llama_cpp(name, np.asarray(weight(name), np.float32), sizes)
            writer.write_tensor_data(np.ascontiguousarray(values))
        writer.close()


def gguf_name(name: str) -> str:
    """Convert the name of a tensor from transformers to llama.cpp."""
    if name == ROTARY_FACTORS:
        return name
    stem, kind = name.rsplit(".", 1)
    if stem in WHOLE_PARTS:
        return f"{WHOLE_PARTS[stem]}.{kind}"
    number, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{number}.{LAYER_PARTS[part]}.{kind}"


def to_llama_cpp(name: str, values: np.ndarray, sizes: GgufSizes) -> np.ndarray:
    """Reorder the rows of a query or key matrix as llama.cpp expects: the two rows of a rotary pair become neighbours.

    Return other weights, and those of architectures other than `llama`, unchanged.
    """
    stem = name.rsplit(".", 1)[0]
    if sizes.architecture != "llama" or not stem.endswith(("q_proj", "k_proj")):
        return values
    n_heads = sizes.n_heads if stem.endswith("q_proj") else sizes.n_kv_heads
    return values.reshape(n_heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def rotary_factors(theta: float, head_dim: int, frequencies: np.ndarray) -> np.ndarray:
    """Return the factors by which llama.cpp must divide the standard rotary frequencies of base `theta` to get `frequencies`."""
    plain = theta ** (-2.0 * np.arange(head_dim // 2, dtype=np.float64) / head_dim)
    return np.asarray(plain / frequencies, np.float32)
