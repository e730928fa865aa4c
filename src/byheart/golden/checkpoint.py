"""Write the folder of one checkpoint: the files for transformers, vLLM and the converters of llama.cpp, and a GGUF file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from byheart.export.gguf_file import ROTARY_FACTORS, GgufSizes, rotary_factors, write_gguf
from byheart.golden.case import token_text
from byheart.golden.refusals import corrupt
from byheart.golden.shape import BOS, EOS, HEAD, Shape

WEIGHTS = "model.safetensors"
GGUF = "model.gguf"
SETTINGS = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
FILES = (*SETTINGS, WEIGHTS, GGUF)
"""The files of a checkpoint."""

CHARACTERS = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}


def write_checkpoint(shape: Shape, weights: dict[str, Tensor], folder: Path) -> None:
    """Write all files of one checkpoint except its GGUF file, which `save_gguf` writes."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    for name, content in _settings(shape).items():
        (folder / name).write_bytes(content)
    save_file(
        {name: value.contiguous() for name, value in weights.items()}, folder / WEIGHTS, {"format": "pt"}
    )


def require_settings(shape: Shape, folder: Path) -> None:
    """Raise `CorruptModel` unless the settings of a checkpoint are those that `write_checkpoint` writes for its shape."""
    for name, content in _settings(shape).items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != len(content) or path.read_bytes() != content:
            raise corrupt(path, "it is not the file that `byheart golden make` writes for this checkpoint")


def _settings(shape: Shape) -> dict[str, bytes]:
    """Return the contents of the JSON files of a checkpoint, by name."""
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    documents: tuple[dict[str, Any], ...] = (
        shape.config(),
        {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": EOS, "do_sample": False},
        _tokenizer(shape),
        {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True, **special},
    )
    return {
        name: json.dumps(
            document, indent=None if name == "tokenizer.json" else 1, ensure_ascii=False
        ).encode()
        for name, document in zip(SETTINGS, documents, strict=True)
    }


def read_weights(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = load_file(folder / WEIGHTS)
    return tensors


def _tokenizer(shape: Shape) -> dict[str, Any]:
    """Return a tokenizer with one token per character, which puts a beginning-of-text token before each text."""
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


def save_gguf(shape: Shape, weights: dict[str, Tensor], path: Path) -> None:
    """Write the checkpoint as a GGUF file for llama.cpp, with float32 weights.

    The architecture `llama` of llama.cpp includes Mistral, but without the sliding window.
    """
    scaling = shape.rope_scaling
    sizes = GgufSizes(
        f"byheart golden {shape.name}",
        "llama" if shape.architecture == "mistral" else shape.architecture,
        shape.max_positions,
        shape.hidden,
        shape.inner,
        shape.n_layers,
        shape.n_heads,
        shape.n_kv_heads,
        shape.head_dim,
        shape.vocab,
        shape.rope_theta,
        shape.norm_eps,
        scaling["factor"] if scaling.get("rope_type") == "linear" else None,
    )
    tensors = {name: tensor.float().numpy() for name, tensor in weights.items()}
    if shape.is_tied:
        tensors.pop(f"{HEAD}.weight", None)
    if scaling.get("rope_type") == "llama3":
        frequencies = shape.frequencies().numpy()
        tensors[ROTARY_FACTORS] = rotary_factors(shape.rope_theta, shape.head_dim, frequencies)

    def write_tokenizer(writer: Any) -> None:
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

    shapes = {name: values.shape for name, values in tensors.items()}
    write_gguf(path, sizes, write_tokenizer, shapes, tensors.__getitem__)
