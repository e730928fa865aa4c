"""The folder of one checkpoint: what transformers, vLLM and the converters of llama.cpp open, and a GGUF file beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from byheart.export.gguf import PARTS as LLAMA_PARTS
from byheart.golden.cases import token_text
from byheart.golden.shape import BOS, EMBEDDING, EOS, FINAL_NORM, HEAD, Shape

WEIGHTS = "model.safetensors"
GGUF = "model.gguf"
CHARACTERS = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}


def write_checkpoint(shape: Shape, weights: dict[str, Tensor], folder: Path) -> None:
    """All files of one checkpoint."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    documents: dict[str, Any] = {
        "config.json": shape.config(),
        "generation_config.json": {
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "pad_token_id": EOS,
            "do_sample": False,
        },
        "tokenizer.json": _tokenizer(shape),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_bos_token": True,
            **special,
        },
    }
    for name, document in documents.items():
        indent = None if name == "tokenizer.json" else 1
        (folder / name).write_text(json.dumps(document, indent=indent, ensure_ascii=False), encoding="utf-8")
    save_file(
        {name: value.contiguous() for name, value in weights.items()}, folder / WEIGHTS, {"format": "pt"}
    )


def read_weights(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = load_file(folder / WEIGHTS)
    return tensors


def _tokenizer(shape: Shape) -> dict[str, Any]:
    """One token a character, and a beginning before each text."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    begin = {"id": "<s>", "ids": [BOS], "tokens": ["<s>"]}
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": token, "content": name, **plain} for token, name in ((BOS, "<s>"), (EOS, "</s>"))
        ],
        "normalizer": None,
        "pre_tokenizer": CHARACTERS,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": begin},
        },
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "WordLevel",
            "vocab": {token_text(shape.vocab, token): token for token in range(shape.vocab)},
            "unk_token": "</s>",
        },
    }


PARTS = {**LLAMA_PARTS, "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
"""Names of GGUF for the parts of a layer; the norms of queries and keys are Qwen3's."""


def write_gguf(shape: Shape, weights: dict[str, Tensor], path: Path) -> None:
    """The checkpoint for llama.cpp, with float32 weights. llama.cpp's `llama` is Mistral too, but has no sliding window."""
    from byheart.errors import import_extra

    gguf = import_extra("gguf", "gguf", "a GGUF file")
    kind = "llama" if shape.architecture == "mistral" else shape.architecture
    writer = gguf.GGUFWriter(path, kind)
    writer.add_name(f"byheart golden {shape.name}")
    writer.add_context_length(shape.max_positions)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.n_layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.n_heads)
    writer.add_head_count_kv(shape.n_kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_layer_norm_rms_eps(shape.norm_eps)
    writer.add_vocab_size(shape.vocab)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    if shape.rope_scaling.get("rope_type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(shape.rope_scaling["factor"])
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([token_text(shape.vocab, token) for token in range(shape.vocab)])
    writer.add_token_scores([0.0] * shape.vocab)
    writer.add_token_types([3, 3, *[1] * (shape.vocab - 2)])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(EOS)
    writer.add_pad_token_id(EOS)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    for name, tensor in _gguf_tensors(shape, weights).items():
        writer.add_tensor(name, tensor.float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf_tensors(shape: Shape, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors = {
        "token_embd.weight": weights[f"{EMBEDDING}.weight"],
        "output_norm.weight": weights[f"{FINAL_NORM}.weight"],
    }
    if not shape.is_tied:
        tensors["output.weight"] = weights[f"{HEAD}.weight"]
    if shape.rope_scaling.get("rope_type") == "llama3":
        plain = shape.rope_theta ** (-2.0 * _count(shape.head_dim // 2) / shape.head_dim)
        tensors["rope_freqs.weight"] = plain / shape.frequencies()
    for layer in range(shape.n_layers):
        for part, name in PARTS.items():
            for suffix in ("weight", "bias"):
                tensor = weights.get(f"model.layers.{layer}.{part}.{suffix}")
                if tensor is None:
                    continue
                # llama.cpp turns neighbouring entries of a Llama's heads, where transformers turns halves
                if name in ("attn_q", "attn_k") and shape.architecture in ("llama", "mistral"):
                    n_heads = shape.n_heads if name == "attn_q" else shape.n_kv_heads
                    rest = tensor.shape[1:]
                    tensor = tensor.reshape(n_heads, 2, -1, *rest).transpose(1, 2).reshape(-1, *rest)
                tensors[f"blk.{layer}.{name}.{suffix}"] = tensor
    return tensors


def _count(n: int) -> Tensor:
    import torch

    return torch.arange(n, dtype=torch.float64)
