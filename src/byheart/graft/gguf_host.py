"""Read a host from a GGUF file: its sizes, weights (dequantised to float32) and tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from byheart.errors import ByheartError, UsageError, import_extra
from byheart.export.gguf_file import LAYER_PARTS, WHOLE_PARTS
from byheart.graft.gguf_header import check_header
from byheart.graft.host import REMEDY, check_shapes, shape_of
from byheart.records.refusals import corrupt

LAYER_NAMES = {theirs: ours for ours, theirs in LAYER_PARTS.items()}
WHOLE_NAMES = {theirs: ours for ours, theirs in WHOLE_PARTS.items()}
SWAPPED = ("attn_q.weight", "attn_k.weight")
"""The weights whose rows are in another order in GGUF files of the architecture llama than in transformers.

llama.cpp rotates pairs of neighbouring rows, and transformers rotates pairs that are half a head apart.
"""


@contextmanager
def opened_by_gguf(path: Path) -> Iterator[Any]:
    """Yield a reader of the file after checking its header. Exceptions of the package gguf become clear error messages."""
    gguf = import_extra("gguf", "gguf", "reading a GGUF file")
    try:
        check_header(path)
        yield gguf.GGUFReader(path)
    except (ByheartError, MemoryError):
        raise
    except Exception as error:  # the package raises many types of exceptions on a damaged file
        problem = f"it cannot be read as a GGUF file: {error or type(error).__name__}"
        raise corrupt(path, problem, REMEDY) from None


class GgufHost:
    """A host in one GGUF file."""

    dtype = torch.float32

    def __init__(self, path: Path) -> None:
        """Read the host's sizes and the names of its tensors. Weights are read when they are needed."""
        self.path = path
        with opened_by_gguf(path) as self.reader:
            self.config = _config(self.reader)
        self.shape = shape_of(self.config, path)
        self.places = {hugging_face_name(tensor.name): tensor for tensor in self.reader.tensors}
        sizes = {name: tuple(int(n) for n in reversed(tensor.shape)) for name, tensor in self.places.items()}
        check_shapes(sizes, self.shape, path)

    def tensor(self, name: str) -> torch.Tensor:
        from gguf.quants import dequantize

        stored = self.places[name]
        values = np.array(dequantize(stored.data, stored.tensor_type), dtype=np.float32)
        if self.config["model_type"] == "llama" and stored.name.endswith(SWAPPED):
            n_heads = self.shape.n_heads if "attn_q" in stored.name else self.shape.n_kv_heads
            values = to_halves(values, n_heads)
        if not np.isfinite(values).all():
            raise corrupt(self.path, f"tensor {stored.name} holds NaN or infinities", REMEDY)
        return torch.from_numpy(values)

    def files(self) -> list[Path]:
        return [self.path]


def hugging_face_name(name: str) -> str:
    """Convert the name of a tensor in llama.cpp to its name in transformers. Parts without a counterpart stay unchanged."""
    stem, _, kind = name.rpartition(".")
    if stem in WHOLE_NAMES:
        return f"{WHOLE_NAMES[stem]}.{kind}"
    parts = stem.split(".", 2)
    if parts[0] == "blk" and len(parts) == 3:
        return f"model.layers.{parts[1]}.{LAYER_NAMES.get(parts[2], parts[2])}.{kind}"
    return name


def to_halves(weight: np.ndarray, n_heads: int) -> np.ndarray:
    """Change the order of the rows of each head from that in GGUF to that in transformers.

    In GGUF, the two rows of a rotary pair are neighbours. In transformers, one is in the first half of the head and the other at
    the same place of the second half.
    """
    parted = weight.reshape(n_heads, -1, 2, weight.shape[1])
    return np.ascontiguousarray(parted.swapaxes(1, 2).reshape(weight.shape))


def _config(reader: Any) -> Mapping[str, Any]:
    """Return the configuration that transformers would use for this file."""

    def value(name: str, default: Any = None) -> Any:
        field = reader.fields.get(name)
        return default if field is None else field.contents()

    family = value("general.architecture")

    def get(name: str, default: Any = None) -> Any:
        return value(f"{family}.{name}", default)

    if get("rope.scaling.type") not in (None, "none"):
        raise UsageError(
            "a GGUF host with scaled rotary frequencies cannot be grafted: give its Hugging Face folder instead."
        )
    names = {tensor.name for tensor in reader.tensors}
    if "rope_freqs.weight" in names:
        raise UsageError(
            "a GGUF host that stores factors of its rotary frequencies (in the tensor rope_freqs.weight) cannot be grafted: "
            "give its Hugging Face folder instead."
        )
    width, n_heads = get("embedding_length"), get("attention.head_count")
    classes = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
    return {
        "architectures": [classes.get(family, family)],
        "model_type": family,
        "dtype": "float32",
        "vocab_size": len(value("tokenizer.ggml.tokens", ())),
        "hidden_size": width,
        "intermediate_size": get("feed_forward_length"),
        "num_hidden_layers": get("block_count"),
        "num_attention_heads": n_heads,
        "num_key_value_heads": get("attention.head_count_kv", n_heads),
        "head_dim": get("attention.key_length", (width or 0) // (n_heads or 1)),
        "hidden_act": "silu",
        "max_position_embeddings": get("context_length"),
        "rms_norm_eps": get("attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": get("rope.freq_base", 10000.0)},
        "tie_word_embeddings": "output.weight" not in names,
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
    }
