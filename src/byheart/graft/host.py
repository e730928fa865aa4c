"""Read a host checkpoint: a Hugging Face folder, or a GGUF file (see `gguf_host`). The files may come from anyone, so everything is
checked.

Nothing is unpickled and no code of the checkpoint is run. Weights are read one tensor at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from byheart.errors import UsageError
from byheart.graft.layout import Shape
from byheart.network.llama.foreign_checkpoint import opened_by_transformers
from byheart.records.fields import Fields
from byheart.records.refusals import corrupt

CONFIG, INDEX, WEIGHTS = "config.json", "model.safetensors.index.json", "model.safetensors"
ADAPTER = "adapter_config.json"
EMBEDDING, HEAD, FINAL_NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"
REMEDY = "Download the checkpoint again, or give another one."
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
ROPE_TYPES = ("default", "linear", "llama3", "yarn")
MOST = 2**31
MOST_POSITIONS = 2**20
"""The largest number of positions that a host may have. For every head, a check of a graft visits all distances up to it."""

FULL_ATTENTION = "full_attention"
FLAGS = ("tie_word_embeddings", "attention_bias", "mlp_bias", "use_sliding_window")
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
WHY_NOT = {
    "gemma": "it multiplies embeddings by the square root of the width, and the graft would change the width",
    "gemma2": "it multiplies embeddings by the square root of the width, and has norms after its layers",
    "gemma3_text": "it multiplies embeddings by the square root of the width, and has norms after its layers",
    "gpt2": "its LayerNorm subtracts the mean of all columns, so added columns would change the values in the host's columns",
    "gpt_neox": "its LayerNorm subtracts the mean of all columns, so added columns would change the values in the host's columns",
    "phi3": "it stores queries, keys and values in one matrix, which is not supported",
    "mixtral": "its layers are mixtures of experts",
    "qwen2_moe": "its layers are mixtures of experts",
    "qwen3_moe": "its layers are mixtures of experts",
}


class Host(Protocol):
    """A host (a checkpoint to which facts are added), in any file format."""

    path: Path
    config: Mapping[str, Any]
    shape: Shape

    def tensor(self, name: str) -> torch.Tensor:
        """Return one weight in float32."""
        ...

    def files(self) -> list[Path]:
        """Return every file of the host, except those in subfolders. A graft stores what `byheart graft --remove` needs to write
        these files again.
        """
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The number type in which the embedding is stored. For a GGUF file, it is float32."""
        ...


@dataclass(frozen=True)
class Place:
    """The place of a tensor: its file, number type and size."""

    file: Path
    dtype: str
    shape: tuple[int, ...]


class FolderHost:
    """A Hugging Face folder with safetensors files."""

    def __init__(self, path: Path) -> None:
        """Check the configuration and the shape of every tensor. Weights are read only if tied embeddings are stored twice: the two
        copies are then compared.
        """
        self.path = path
        self.config = read_config(path)
        self.shape = shape_of(self.config, path / CONFIG)
        self.places = _places(path)
        check_shapes({name: place.shape for name, place in self.places.items()}, self.shape, path)
        odd = sorted({place.dtype for place in self.places.values()} - set(DTYPES))
        if odd:
            raise UsageError(
                f"{path} stores weights as {', '.join(odd)}; only F32, BF16 and F16 can be grafted.\n"
                "  If the host is quantised, give the original checkpoint instead.",
                dtypes=odd,
            )
        if self.shape.tied and HEAD in self.places:
            self._check_copy()

    def _check_copy(self) -> None:
        """Raise an error if a stored output head differs from the embedding, in its values or its number type, although the
        configuration ties the two. If the values differ, transformers would use both.
        """
        if self.places[HEAD].dtype != self.places[EMBEDDING].dtype or not torch.equal(
            self.stored(HEAD), self.stored(EMBEDDING)
        ):
            raise corrupt(
                self.places[HEAD].file,
                f"tensor {HEAD} differs from {EMBEDDING}, although the configuration ties them",
                REMEDY,
            )

    def tensor(self, name: str) -> torch.Tensor:
        return self.stored(name).float()

    def stored(self, name: str) -> torch.Tensor:
        """Return one weight in its stored number type."""
        from safetensors import safe_open

        with safe_open(self.places[name].file, "pt") as file:
            tensor: torch.Tensor = file.get_tensor(name)
        if not bool(torch.isfinite(tensor).all()):
            raise corrupt(self.places[name].file, f"tensor {name} holds NaN or infinities", REMEDY)
        return tensor

    def files(self) -> list[Path]:
        return sorted(entry for entry in self.path.iterdir() if entry.is_file())

    @cached_property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.places[EMBEDDING].dtype]


def open_host(path: str | Path) -> Host:
    """Open the host at `path`. A host that cannot be grafted is refused with the reason."""
    path = Path(path)
    if not path.exists():
        raise UsageError(
            f"{path} does not exist.\n  Give a Hugging Face folder or a GGUF file.", path=str(path)
        )
    if path.is_dir():
        return FolderHost(path)
    magic = b""
    if path.is_file():
        with path.open("rb") as file:
            magic = file.read(4)
    if magic != b"GGUF":
        raise UsageError(
            f"{path} is neither a Hugging Face folder nor a GGUF file.\n"
            "  Pickled checkpoints (.bin, .pt) are not supported: convert them to safetensors first.",
            path=str(path),
        )
    from byheart.graft.gguf_host import GgufHost

    return GgufHost(path)


def read_config(path: Path) -> Mapping[str, Any]:
    """Read config.json of a folder. Refuse a folder with code of its own, with an adapter, or with weights in unusual files."""
    if not (path / CONFIG).exists():
        pickles = [entry.name for entry in path.iterdir() if entry.suffix in (".bin", ".pt", ".pth", ".ckpt")]
        why = f"it holds {pickles[0]}, a pickle, which is not supported" if pickles else f"it has no {CONFIG}"
        raise UsageError(
            f"{path} is not a Hugging Face checkpoint: {why}.\n"
            f"  Give a folder with {CONFIG} and safetensors files.",
            path=str(path),
        )
    values: dict[str, Any] = Fields.read(path / CONFIG, REMEDY).values
    if values.get("auto_map"):
        raise UsageError(
            f"{path / CONFIG} refers to code in the checkpoint (auto_map), which is never run.\n"
            "  Give a checkpoint of a standard architecture.",
            path=str(path),
        )
    if (path / ADAPTER).exists():
        raise UsageError(
            f"{path} holds {ADAPTER}, with which transformers loads an adapter and may load another checkpoint.\n"
            "  Merge the adapter into the weights, or move this file out of the folder.",
            file=ADAPTER,
        )
    if values.get("transformers_weights") is not None:
        raise UsageError(
            f"{path / CONFIG} names the file of its weights (transformers_weights), which is not supported.\n"
            f"  Give a checkpoint whose weights are in {WEIGHTS} or in the files that {INDEX} names.",
            setting="transformers_weights",
        )
    return values


def shape_of(config: Mapping[str, Any], where: Path) -> Shape:
    """Return the sizes in a configuration. Raise an error if hosts of this kind cannot be grafted."""
    fields = Fields(dict(config), where, remedy=REMEDY)
    family = fields.text("model_type")
    if family not in FAMILIES:
        why = WHY_NOT.get(family, "its layers are not supported")
        raise UsageError(
            f"{where}: a host of type {family} cannot be grafted: {why}.\n"
            f"  Supported types are {', '.join(FAMILIES)}.",
            model_type=family,
        )
    _check_settings(fields)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default")) if isinstance(rope, dict) else None
    checks = {
        "sliding_window": not _slides(config),
        "layer_types": set(config.get("layer_types") or ()) <= {FULL_ATTENTION},
        "rope_type": kind in ROPE_TYPES,
        "hidden_act": config.get("hidden_act", "silu") in ("silu", "swish"),
        "partial_rotary_factor": config.get("partial_rotary_factor") in (None, 1, 1.0),
        "quantization_config": not config.get("quantization_config"),
        "pretraining_tp": config.get("pretraining_tp") in (None, 1),
    }
    for name, is_fine in checks.items():
        if not is_fine:
            said = kind if name == "rope_type" else config.get(name)
            raise UsageError(
                f"{where}: a host with {name} = {said!r} cannot be grafted.\n"
                "  A host must have plain causal attention without a window, rotary positions (default, "
                "linear, llama3 or yarn) in all entries of a head, silu, and weights that are not quantised.",
                setting=name,
            )
    n_heads = fields.integer("num_attention_heads", 1, 4096)
    n_kv_heads = (
        fields.integer("num_key_value_heads", 1, 4096) if fields.has("num_key_value_heads") else n_heads
    )
    width = fields.integer("hidden_size", 1, 2**17)
    head_dim = fields.integer("head_dim", 2, 4096) if fields.has("head_dim") else width // n_heads
    if n_heads % n_kv_heads or head_dim % 2:
        raise corrupt(
            where,
            f"the number of heads ({n_heads}) is not a multiple of the number of key heads ({n_kv_heads}), "
            f"or the size of a head ({head_dim}) is odd",
            REMEDY,
        )
    bias = bool(config.get("attention_bias", False))
    return Shape(
        fields.integer("vocab_size", 2, 2**24),
        width,
        fields.integer("intermediate_size", 1, 2**20),
        fields.integer("num_hidden_layers", 1, 4096),
        n_heads,
        n_kv_heads,
        head_dim,
        bool(config.get("tie_word_embeddings", False)),
        qk_norm=family == "qwen3",
        qkv_bias=family == "qwen2" or bias,
        o_bias=bias and family in ("llama", "qwen3"),
        mlp_bias=bool(config.get("mlp_bias", False)) and family == "llama",
    )


def _check_settings(fields: Fields) -> None:
    """Refuse a configuration in which a setting has the wrong type or is out of range. `shape_of` checks the sizes of layers."""
    fields.integer("max_position_embeddings", 1, MOST_POSITIONS)
    if not 0 < fields.number("rms_norm_eps") < 1:
        raise fields.refuse("rms_norm_eps", "a number between 0 and 1")
    for name in FLAGS:
        if fields.has(name):
            fields.boolean(name)
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if isinstance(fields.values.get(name), list):
            if not fields.integers(name, 0, MOST):
                raise fields.refuse(name, "a token id, or a list of at least one token id")
        elif fields.has(name):
            fields.integer(name, -1, MOST)  # some configurations write -1 for none
    if fields.has("layer_types"):
        fields.texts("layer_types")
    rope = next((name for name in ("rope_parameters", "rope_scaling") if fields.values.get(name)), None)
    for part in (fields, *((fields.child(rope),) if rope else ())):
        if part.has("rope_theta") and not part.number("rope_theta") > 0:
            raise part.refuse("rope_theta", "a number above 0")


def _slides(config: Mapping[str, Any]) -> bool:
    if config.get("model_type") in ("qwen2", "qwen3"):
        return bool(config.get("use_sliding_window", False))
    return config.get("sliding_window") is not None


def tensor_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of a checkpoint with these sizes, by name."""
    rows, keys = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (shape.width,),
        "post_attention_layernorm.weight": (shape.width,),
        "self_attn.q_proj.weight": (rows, shape.width),
        "self_attn.k_proj.weight": (keys, shape.width),
        "self_attn.v_proj.weight": (keys, shape.width),
        "self_attn.o_proj.weight": (shape.width, rows),
        "mlp.gate_proj.weight": (shape.inner, shape.width),
        "mlp.up_proj.weight": (shape.inner, shape.width),
        "mlp.down_proj.weight": (shape.width, shape.inner),
    }
    biases = {"qkv": shape.qkv_bias, "o": shape.o_bias}
    for part in "qkvo":
        if biases["o" if part == "o" else "qkv"]:
            layer[f"self_attn.{part}_proj.bias"] = layer[f"self_attn.{part}_proj.weight"][:1]
    for part in ("gate", "up", "down") if shape.mlp_bias else ():
        layer[f"mlp.{part}_proj.bias"] = layer[f"mlp.{part}_proj.weight"][:1]
    if shape.qk_norm:
        layer["self_attn.q_norm.weight"] = layer["self_attn.k_norm.weight"] = (shape.head_dim,)
    shapes: dict[str, tuple[int, ...]] = {
        EMBEDDING: (shape.n_tokens, shape.width),
        FINAL_NORM: (shape.width,),
    }
    if not shape.tied:
        shapes[HEAD] = (shape.n_tokens, shape.width)
    for number in range(shape.n_layers):
        shapes |= {f"model.layers.{number}.{name}": size for name, size in layer.items()}
    return shapes


def check_shapes(found: Mapping[str, tuple[int, ...]], shape: Shape, where: Path) -> None:
    """Refuse a checkpoint whose tensors do not match its configuration exactly."""
    wanted = tensor_shapes(shape)
    for name, size in wanted.items():
        if name not in found:
            raise corrupt(where, f"tensor {name} is missing", REMEDY)
        if tuple(found[name]) != size:
            raise corrupt(
                where,
                f"tensor {name} has shape {list(found[name])}, but the configuration requires {list(size)}",
                REMEDY,
            )
    left = sorted(name for name in found if name not in wanted and is_used(name, shape.tied))
    if left:
        raise corrupt(where, f"tensor {left[0]} does not exist in this architecture", REMEDY)


def is_used(name: str, tied: bool) -> bool:
    """Return whether transformers uses a tensor with this name.

    Rotary frequencies, which old checkpoints hold, are not used: transformers computes them itself. A stored output head is not
    used if `tied`, because the embedding then serves as the head. (`FolderHost` checks that such a head equals the embedding.)
    """
    return not (name.endswith("rotary_emb.inv_freq") or (tied and name == HEAD))


def _weight_files(path: Path) -> list[str]:
    """Return the names of the files that hold the weights.

    Refuse a folder in which some programs would read other files. For example, if the folder has an index and model.safetensors,
    transformers reads model.safetensors and ignores the index.
    """
    names = _indexed_files(path / INDEX) if (path / INDEX).exists() else [WEIGHTS]
    if names != [WEIGHTS] and WEIGHTS in names:
        raise corrupt(
            path / INDEX, f"it names {WEIGHTS} and other files, so programs read different weights", REMEDY
        )
    others = sorted(file.name for file in path.glob("*.safetensors") if file.name not in names)
    if others and all((path / name).exists() for name in names):
        raise corrupt(
            path / others[0],
            f"the weights are in {', '.join(names[:3])}, but some programs would read this file too or instead",
            "Move this file out of the folder if it does not belong to the checkpoint.",
        )
    return names


def _indexed_files(index: Path) -> list[str]:
    fields = Fields.read(index, REMEDY).child("weight_map")
    names = sorted({fields.text(name) for name in fields.values})
    if any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
        raise corrupt(
            index, "it names a file that is outside the folder or is not a safetensors file", REMEDY
        )
    return names


def _places(path: Path) -> dict[str, Place]:
    from safetensors import SafetensorError, safe_open

    places: dict[str, Place] = {}
    for name in _weight_files(path):
        file = path / name
        if not file.is_file():
            raise corrupt(file, "the file is missing, or it is a folder, a pipe or a device", REMEDY)
        try:
            with safe_open(file, "pt") as tensors:
                for key in tensors.keys():  # noqa: SIM118 - not a dict
                    if key in places:
                        raise corrupt(file, f"tensor {key} is also in {places[key].file.name}", REMEDY)
                    part = tensors.get_slice(key)
                    places[key] = Place(file, part.get_dtype(), tuple(part.get_shape()))
        except (SafetensorError, OSError, ValueError) as error:
            raise corrupt(file, f"it is not a safetensors file: {error}", REMEDY) from None
    return places


def rotary(config: Mapping[str, Any]) -> tuple[np.ndarray, float]:
    """Return the rotary frequencies of a host, fastest first, and the factor by which their cosines are multiplied. Both are
    computed as in transformers.
    """
    from transformers import AutoConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    values = {key: value for key, value in config.items() if key != "model_type"}
    with opened_by_transformers(Path(CONFIG)):
        embedding = LlamaRotaryEmbedding(AutoConfig.for_model(config["model_type"], **values))
    return embedding.inv_freq.double().numpy(), float(embedding.attention_scaling)
