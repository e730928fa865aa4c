"""Write a grafted checkpoint as a Hugging Face folder, which records what was added and stores what is needed to remove it.

config.json, model*.safetensors, tokenizer files    the checkpoint, which is all that transformers needs
README.md, graft.json                               a description and a record of what was added
host/                                               what `byheart graft --remove` needs to restore the host's files byte for byte
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from byheart.errors import UsageError
from byheart.files.atomic_folder import replaced_folder
from byheart.files.digest import digest_of_file
from byheart.graft.contents import CARD, KEPT, NORMS, REMEDY, foreign_files, tokenizer_files
from byheart.graft.emission import grafted_tensors
from byheart.graft.grafting import GraftPlan
from byheart.graft.host import (
    CONFIG,
    FINAL_NORM,
    INDEX,
    MOST,
    WEIGHTS,
    FolderHost,
    Host,
    is_used,
    read_config,
)
from byheart.graft.texts import Asking
from byheart.process.progress import Progress
from byheart.records.fields import Fields
from byheart.records.refusals import corrupt
from byheart.storage.target import GRAFT_RECORD, is_graft

NOTE = "byheart_graft"
"""The entry of config.json that says what was added."""

SCHEMA = 1
SHARD_BYTES = 2**30
SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LOSSLESS = {("BF16", torch.bfloat16), ("BF16", torch.float32), ("F16", torch.float32), ("F32", torch.float32)}


def default_precision(host: Host) -> str:
    """Return bfloat16 if the host's embedding is stored in bfloat16.

    Otherwise return float32, which holds all weights that a host may have exactly.
    """
    return "bfloat16" if host.dtype == torch.bfloat16 else "float32"


def write_graft(
    plan: GraftPlan,
    host: Host,
    tokenizer: Any,
    asking: Asking,
    target: Path,
    precision: str,
    progress: Progress,
) -> None:
    """Write the grafted checkpoint at `target`, atomically."""
    dtype = PRECISIONS[precision]
    with replaced_folder(target, check_target) as folder:
        tensors = grafted_tensors(host, plan.memory, float(host.config["rms_norm_eps"]), dtype)
        n_bytes = plan.layout.grafted.parameters * dtype.itemsize
        _write_shards(folder, tensors, n_bytes, progress)
        _keep_host(folder / KEPT, host, dtype, progress)
        record = {
            "schema": SCHEMA,
            "host": {file.name: digest_of_file(file) for file in host.files()},
            "precision": precision,
            "asking": asdict(asking),
            **plan.summary(),
        }
        _write_json(folder / CONFIG, grafted_config(plan, host, precision))
        _write_json(folder / GRAFT_RECORD, record)
        (folder / CARD).write_text(_card(plan, host, precision), encoding="utf-8")
        if host.path.is_dir():
            for name in tokenizer_files(host.path):
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(host.path / name, folder / name)
        else:
            tokenizer.save_pretrained(folder)


def grafted_config(plan: GraftPlan, host: Host, precision: str) -> dict[str, Any]:
    """Return the host's configuration with the new sizes, epsilon and number type, and a note about what was added.

    The number type is written as `dtype`. The settings `torch_dtype`, `layer_types` and `_name_or_path` are left out. Everything
    else is unchanged.
    """
    shape, layout = plan.layout.grafted, plan.layout
    config = {
        key: value
        for key, value in host.config.items()
        if key not in ("torch_dtype", "layer_types", "_name_or_path")
    }
    return {
        **config,
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.n_layers,
        "num_attention_heads": shape.n_heads,
        "num_key_value_heads": shape.n_kv_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": host.config["rms_norm_eps"] * layout.host.width / shape.width,
        "dtype": precision,
        NOTE: {
            "memory_layers": layout.n_memory_layers,
            "contexts": len(plan.memory.following),
            "see": f"{CARD}; `byheart detect` lists all contexts",
        },
    }


def _write_shards(
    folder: Path, tensors: Iterator[tuple[str, torch.Tensor]], n_bytes: int, progress: Progress
) -> None:
    from safetensors.torch import save_file

    shards: list[dict[str, torch.Tensor]] = [{}]
    names: list[list[str]] = []
    held = written = 0

    def flush() -> None:
        nonlocal held
        save_file(shards[0], folder / f"shard-{len(names):05}", metadata={"format": "pt"})
        names.append(list(shards[0]))
        shards[0], held = {}, 0

    for name, tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        if shards[0] and held + size > SHARD_BYTES:
            flush()
        shards[0][name] = tensor.contiguous()
        held += size
        written += size
        progress(written, n_bytes, "write")
    flush()
    if len(names) == 1:
        (folder / "shard-00000").rename(folder / WEIGHTS)
        return
    weight_map: dict[str, str] = {}
    for number, held_names in enumerate(names):
        file = f"model-{number + 1:05}-of-{len(names):05}.safetensors"
        (folder / f"shard-{number:05}").rename(folder / file)
        weight_map |= dict.fromkeys(held_names, file)
    _write_json(folder / INDEX, {"metadata": {"total_size": written}, "weight_map": weight_map})


def _keep_host(kept: Path, host: Host, dtype: torch.dtype, progress: Progress) -> None:
    """Store what is needed to remove the graft later.

    Files are copied, except weight files whose tensors can be read back from the graft. Of such a file, only the header is stored,
    with the tensors that the graft rescales (the weights of the norms) or does not use.
    """
    from safetensors.torch import save_file

    kept.mkdir()
    extras: dict[str, torch.Tensor] = {}
    for number, file in enumerate(host.files()):
        progress(number, len(host.files()), "keep")
        places = host.places if isinstance(host, FolderHost) else {}
        inside = [name for name, place in places.items() if place.file == file]
        if (
            not inside
            or not isinstance(host, FolderHost)
            or any((host.places[name].dtype, dtype) not in LOSSLESS for name in inside)
        ):
            shutil.copyfile(file, kept / file.name)
        else:
            with file.open("rb") as source:
                size = source.read(8)
                (kept / f"{file.name}.header").write_bytes(size + source.read(int.from_bytes(size, "little")))
            for name in inside:
                if is_rescaled(name) or not is_used(name, host.shape.tied):
                    extras[name] = host.stored(name)
    if extras:
        save_file(extras, kept / NORMS)


def is_rescaled(name: str) -> bool:
    """Return whether this weight of the host is multiplied by √(d/W) in the graft. d and W are the widths of host and graft."""
    return name.endswith("layernorm.weight") or name == FINAL_NORM


def check_target(path: Path) -> None:
    """Raise an error unless `path` is new, an empty folder, or a graft without other files. Such a graft will be replaced."""
    if not path.exists():
        return
    if not path.is_dir() or (any(path.iterdir()) and not is_graft(path)):
        raise UsageError(
            f"{path} exists and is not a folder that `byheart graft` wrote.\n"
            "  Nothing was written. Choose another folder, or empty this one.",
            path=str(path),
        )
    weights = {entry.name for entry in path.iterdir() if entry.name == WEIGHTS or SHARD.fullmatch(entry.name)}
    foreign = foreign_files(path, tokenizer_files(path), weights)
    if foreign:
        raise UsageError(
            f"{path} is a graft with files that do not belong to it: {', '.join(foreign[:3])}.\n"
            "  Nothing was written. Choose another folder, or empty this one.",
            path=str(path),
            holds=foreign[:20],
        )


def read_record(folder: Path) -> Fields:
    """Read graft.json in a grafted folder."""
    if not is_graft(folder):
        raise UsageError(
            f"{folder} is not a folder that `byheart graft` wrote: it has no {GRAFT_RECORD}.\n"
            "  Give a folder that was made with: byheart graft HOST DATA -o DIR",
            path=str(folder),
        )
    return Fields.read(folder / GRAFT_RECORD, REMEDY)


def require_plain_name(name: str, folder: Path) -> None:
    """Refuse a record in which a file name of the host contains a path."""
    if Path(name).name != name:
        raise corrupt(folder / GRAFT_RECORD, f"it names a file outside the folder: {name}", REMEDY)


def update_counts(folder: Path, n_rows: int, n_prompts: int, n_contexts: int, longest_context: int) -> None:
    """Write the new counts into the record, configuration and description of a graft from which facts were removed."""
    fields = read_record(folder)
    before = fields.values
    after = {
        **before,
        "rows": n_rows,
        "prompts": n_prompts,
        "contexts": n_contexts,
        "longest_context": longest_context,
    }
    config: dict[str, Any] = dict(read_config(folder))
    if isinstance(config.get(NOTE), dict):
        config[NOTE] = {**config[NOTE], "contexts": n_contexts}
        _write_json(folder / CONFIG, config)
    card = folder / CARD
    if card.is_file():
        text = card.read_bytes()  # its owner may have changed it, in any encoding
        told = _counts_in_card(fields.integer("rows", 0, MOST), fields.integer("contexts", 0, MOST))
        for old, new in zip(told, _counts_in_card(n_rows, n_contexts), strict=True):
            text = text.replace(old.encode(), new.encode())
        card.write_bytes(text)
    _write_json(folder / GRAFT_RECORD, after)


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _counts_in_card(n_rows: int, n_contexts: int) -> tuple[str, str]:
    """Return the two parts of the description that say how much is stored."""
    return f"(rows of data: {n_rows:,})", f"| stored contexts | 0 | {n_contexts:,} |"


def _card(plan: GraftPlan, host: Host, precision: str) -> str:
    said = plan.summary()
    rows, contexts = _counts_in_card(said["rows"], said["contexts"])
    return f"""---
library_name: transformers
tags: [byheart, graft, memorization]
---
# A checkpoint with an exact memory

This is {host.path.name} with facts that byheart added {rows}. Nothing was trained. The facts are in
{plan.layout.n_memory_layers} new layers before the host's own. If a text ends in a stored key, the model continues with the stored
answer, word for word. For every other text, the added layers contribute exactly 0.

| | host | grafted |
| --- | --- | --- |
| parameters | {said["host_parameters"]:,} | {said["grafted_parameters"]:,} ({said["ratio"]:.2f} times) |
| layers | {said["layers"][0]} | {said["layers"][1]} |
| width | {said["width"][0]:,} | {said["width"][1]:,} |
{contexts}

- To list what is stored, token by token: `byheart detect DIR --json`.
- To prove that nothing else was changed: `byheart verify DIR DATA --host HOST`.
- To restore the host: `byheart graft --remove DIR -o HOST`.

Weights are {precision}. Matrix products must be summed in float32, as in transformers, llama.cpp and vLLM. A network that was
quantised or cast to float16 is a different network, for which none of this is proven.
"""
