"""Random hosts of real shapes, grafted and verified through the command line: peak memory and time of each step.

    python benchmarks/graft_hosts.py FOLDER --tokenizer FOLDER [--hosts Llama-3.2-1B] [--facts 1000] [--device cuda] [--out FILE]

Hosts are written tensor by tensor into FOLDER (bfloat16, in shards of half a GB) and deleted again with their grafts. Every line
printed is one JSON document. Weights are normal, of deviation 0.02, norms between 0.5 and 1.5: a host of this size and layout, not
one that says anything; what is checked does not depend on that.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from graft_editing import report
from made_up_facts import numbers

ROPE = {"rope_type": "default", "rope_theta": 1000000.0}
SHARED = {"hidden_act": "silu", "tie_word_embeddings": True, "dtype": "bfloat16", "eos_token_id": 2}
CONFIGS: dict[str, dict[str, Any]] = {
    "Llama-3.2-1B": {
        **SHARED,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 128256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    },
    "Qwen2.5-0.5B": {
        **SHARED,
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": 151936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_parameters": ROPE,
    },
    "Qwen3-0.6B": {
        **SHARED,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": 151936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6,
        "rope_parameters": ROPE,
    },
}
SHARD_BYTES = 2**29


def write_host(config: dict[str, Any], tokenizer: Path, target: Path) -> None:
    """A random checkpoint, one tensor in memory at a time but for those of one shard."""
    from safetensors.torch import save_file

    from byheart.graft.host import shape_of, tensor_shapes

    shutil.copytree(tokenizer, target)
    (target / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    draw = torch.Generator().manual_seed(0)
    shards: list[dict[str, torch.Tensor]] = [{}]
    for name, size in tensor_shapes(shape_of(config, target)).items():
        values = (
            torch.rand(size, generator=draw) + 0.5
            if "norm" in name
            else torch.randn(size, generator=draw) * 0.02
        )
        if sum(each.nbytes for each in shards[-1].values()) + values.nbytes // 2 > SHARD_BYTES and shards[-1]:
            shards.append({})
            _save(shards, target, save_file)
        shards[-1][name] = values.bfloat16()
    shards.append({})
    _save(shards, target, save_file)
    names = {f"model-{number:05}.safetensors": held for number, held in enumerate(shards) if held}
    weight_map = {name: file for file, held in names.items() for name in held}
    index = {"metadata": {}, "weight_map": weight_map}
    (target / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def _save(shards: list[dict[str, torch.Tensor]], target: Path, save_file: Any) -> None:
    """Write the last full shard; keep its names alone."""
    number = len(shards) - 2
    save_file(shards[number], target / f"model-{number:05}.safetensors", metadata={"format": "pt"})
    shards[number] = dict.fromkeys(shards[number], torch.empty(0))


def measured(words: list[str]) -> dict[str, Any]:
    """A command in a process of its own: its JSON answer, exit status, seconds and peak memory."""
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "byheart", *words, "--json"], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        said = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    answer = json.loads(said) if said.startswith(b"{") else {}
    return {
        "exit": child.returncode,
        "seconds": round(time.perf_counter() - start, 1),
        "peak_gb": round(usage.ru_maxrss * 1024 / 1e9, 2),
        "answer": {key: value for key, value in answer.items() if key not in ("path", "host", "rows_wrong")},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--tokenizer", type=Path, required=True, help="folder of a tokenizer, such as SmolLM2's"
    )
    parser.add_argument("--hosts", nargs="+", choices=list(CONFIGS), default=list(CONFIGS))
    parser.add_argument("--facts", type=int, default=1000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    data = options.folder / "facts.csv"
    with data.open("w", encoding="utf-8", newline="") as file:
        rows = ((fact.prompt, fact.answer.strip()) for fact in numbers(options.facts, 0))
        csv.writer(file).writerows([("key", "value"), *rows])
    for name in options.hosts:
        host, graft = options.folder / name, options.folder / f"{name}-graft"
        for old in (host, graft):
            shutil.rmtree(old, ignore_errors=True)
        start = time.perf_counter()
        write_host(CONFIGS[name], options.tokenizer, host)
        size = sum(file.stat().st_size for file in host.glob("*.safetensors"))
        report(
            options.out,
            host=name,
            step="made",
            gb=round(size / 1e9, 2),
            seconds=round(time.perf_counter() - start, 1),
        )
        steps = {
            "graft": ["graft", str(host), str(data), "-o", str(graft)],
            "verify": ["verify", str(graft), str(data), "--host", str(host), "--device", options.device],
            "remove": ["graft", str(graft), "--remove", "-o", str(host) + "-again"],
        }
        for step, words in steps.items():
            report(options.out, host=name, step=step, **measured(words))
        again = Path(str(host) + "-again")
        same = all((again / file.name).read_bytes() == file.read_bytes() for file in host.iterdir())
        report(options.out, host=name, step="files equal", equal=same)
        for old in (host, graft, again):
            shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__":
    main()
