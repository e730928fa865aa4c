"""Write a grafted checkpoint as a GGUF file for llama.cpp.

The weights are float32, which holds the weights of every graft exactly.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from byheart.errors import UsageError
from byheart.export.gguf_file import ROTARY_FACTORS, GgufSizes, rotary_factors, write_gguf
from byheart.files.whole_file import check_file_target
from byheart.graft.contents import KEPT
from byheart.graft.folder import read_record, require_plain_name
from byheart.graft.gguf_tokenizer import write_tokenizer_of_folder, write_tokenizer_of_gguf
from byheart.graft.host import CONFIG, FolderHost, rotary, tensor_shapes
from byheart.graft.texts import load_tokenizer
from byheart.process.progress import Progress, silent

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}


def export_gguf(folder: Path, path: Path, progress: Progress = silent) -> None:
    """Write the graft in `folder` as a GGUF file, atomically."""
    names = read_record(folder).child("host").values
    for name in names:
        require_plain_name(name, folder)
    # a host without a configuration is a single GGUF file; a folder may hold such a file too, but is not made from it
    kept = None if CONFIG in names else next((folder / KEPT / name for name in names), None)
    save_gguf(FolderHost(folder), path, f"{folder.resolve().name}, a graft by byheart", kept, progress)


def save_gguf(
    checkpoint: FolderHost, path: Path, title: str, source: Path | None = None, progress: Progress = silent
) -> None:
    """Write a checkpoint as a GGUF file, atomically. The tokenizer is taken from the GGUF file `source` or, if that is None, from
    the checkpoint's folder.
    """
    check_file_target(path)
    shape, config = checkpoint.shape, checkpoint.config
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "yarn":
        raise UsageError(
            "a graft whose rotary frequencies are scaled by yarn cannot be exported to GGUF, because llama.cpp "
            "and transformers scale them differently.\n  Run the graft with transformers."
        )
    if config["model_type"] == "qwen2" and shape.n_heads * shape.head_dim != shape.width:
        raise UsageError(
            "this graft cannot be exported to GGUF: in llama.cpp, the heads of a Qwen2 model must together "
            f"be as wide as the model, but {shape.n_heads} heads of width {shape.head_dim} do not add up to {shape.width}.\n"
            "  Run the graft with transformers.",
            n_heads=shape.n_heads,
            head_dim=shape.head_dim,
            width=shape.width,
        )
    theta = float(rope.get("rope_theta", config.get("rope_theta", 10000.0)))
    sizes = GgufSizes(
        title,
        ARCHITECTURES[config["model_type"]],
        int(config["max_position_embeddings"]),
        shape.width,
        shape.inner,
        shape.n_layers,
        shape.n_heads,
        shape.n_kv_heads,
        shape.head_dim,
        shape.n_tokens,
        theta,
        float(config["rms_norm_eps"]),
        float(rope["factor"]) if kind == "linear" else None,
    )
    shapes = tensor_shapes(shape)
    factors: dict[str, np.ndarray] = {}
    if kind == "llama3":
        factors[ROTARY_FACTORS] = rotary_factors(theta, shape.head_dim, rotary(config)[0])
        shapes[ROTARY_FACTORS] = factors[ROTARY_FACTORS].shape

    def write_tokenizer(writer: object) -> None:
        if source is not None:
            write_tokenizer_of_gguf(writer, source)
        else:
            write_tokenizer_of_folder(writer, checkpoint.path, load_tokenizer(checkpoint.path), config)

    def weight(name: str) -> np.ndarray:
        return factors[name] if name in factors else checkpoint.tensor(name).numpy()

    write_gguf(path, sizes, write_tokenizer, shapes, weight, progress)
