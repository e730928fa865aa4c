"""A float64 model that never rounds gives the same bits on every device: compile here, compare there.

    python benchmarks/device_identity.py compile                 # N = 2,000 random sequences each; into out/device_identity
    python benchmarks/device_identity.py check [--device cuda]   # on any machine with torch and numpy that has the folder

`compile` builds `kajitsuka-sato-2025-bits` in float64 on token sequences, grid vectors, sets and sequences with a label a
token, runs the PyTorch module on the CPU and keeps weights, inputs and outputs. (Uniform random floats do not fit: their own
53 bits leave no room for a projection, and the construction refuses them.) `check` runs the same module on the CPU of its
machine and on the device, in two batch sizes, and compares the residual stream after every layer, and the outputs byte
for byte with those of both CPUs. Prints one JSON document; exit status 1 if anything differs or an answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import pickle
import platform
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from byheart.network.transformer.module import TransformerModule, to_module

CASES = ("tokens", "grid", "sets", "labels-per-token")
BATCHES = (2000, 768)


def compiled(case: str, n_samples: int) -> dict[str, Any]:
    """Weights, inputs, labels (0 where a token has none) and the CPU's outputs."""
    from byheart.construct.registry import get
    from byheart.data.generators import grid_vectors, random_tokens

    data = {
        "tokens": lambda: random_tokens(n_samples, 8, 1000, 16, seed=0),
        "grid": lambda: grid_vectors(n_samples, 8, 4, 16, levels=16, seed=0),
        "sets": lambda: random_tokens(n_samples, 8, 1000, 16, seed=0, task="set"),
        "labels-per-token": lambda: grid_vectors(
            n_samples // 4, 4, 1, 16, levels=20, seed=0, task="seq-to-seq"
        ),
    }[case]()
    start = time.perf_counter()
    built = get("kajitsuka-sato-2025-bits").build(
        data, {"precision": "float64"}, np.random.default_rng(0), None
    )
    seconds = time.perf_counter() - start
    memoriser = built.memoriser
    encoded = memoriser.encode(data.inputs)
    found = {
        "network": memoriser.network,
        "inputs": encoded,
        "labels": data.labels.reshape(len(encoded), -1),
        "last_only": memoriser.answers_last_token_only,
        "notes": {
            "samples": data.n_samples,
            "labels": int(data.labels.size),
            "depth": len(memoriser.network.layers),
            "mantissa_bits_needed": built.notes["mantissa_bits_needed"],
            "seconds_compile": round(seconds, 1),
        },
    }
    return {**found, "outputs": outputs_on("cpu", found, BATCHES[0])}


def outputs_on(device: str, case: dict[str, Any], batch: int) -> np.ndarray:
    module = to_module(case["network"]).to(device).eval()
    pieces = []
    with torch.no_grad():
        for at in range(0, len(case["inputs"]), batch):
            answers = module(on_device(case["inputs"][at : at + batch], module, device), case["last_only"])
            pieces.append((answers[:, -1:, 0] if case["last_only"] else answers[:, :, 0]).cpu().numpy())
    return np.concatenate(pieces)


def on_device(inputs: np.ndarray, module: TransformerModule, device: str) -> torch.Tensor:
    tensor = torch.from_numpy(np.array(inputs)).to(device)
    return tensor if module.embedding is not None else tensor.to(module.w_in.dtype)


def layers_that_differ(device: str, case: dict[str, Any]) -> int:
    """After how many layers the residual streams of CPU and device are not equal in every register of every token."""
    here, there = to_module(case["network"]).eval(), to_module(case["network"]).to(device).eval()
    n_different = 0
    with torch.no_grad():
        left = here.enter(on_device(case["inputs"], here, "cpu"))
        right = there.enter(on_device(case["inputs"], there, device))
        for layer, twin in zip(here.layers, there.layers, strict=True):
            left, right = layer(left), twin(right)
            n_different += not torch.equal(left, right.cpu())
    return n_different


def check(case: dict[str, Any], device: str) -> dict[str, Any]:
    start = time.perf_counter()
    on_cpu = outputs_on("cpu", case, BATCHES[0])
    on_other = [outputs_on(device, case, batch) for batch in BATCHES]
    same = [bytes(each) == bytes(case["outputs"]) for each in (on_cpu, *on_other)]
    return {
        **case["notes"],
        "wrong": int((on_other[0] != case["labels"] + 1).sum()),
        "layers_different": layers_that_differ(device, case),
        "outputs_same_bytes": dict(
            zip(["cpu", *(f"{device}, {b} at a time" for b in BATCHES)], same, strict=True)
        ),
        "outputs_sha256": sha256(bytes(on_other[0])).hexdigest(),
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("compile", "check"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=Path("out/device_identity"))
    options = parser.parse_args()
    if options.step == "compile":
        options.folder.mkdir(parents=True, exist_ok=True)
        for name in CASES:
            case = compiled(name, options.samples)
            (options.folder / f"{name}.pkl").write_bytes(pickle.dumps(case))
            print(name, json.dumps(case["notes"]), flush=True)
        return 0
    found = {
        name: check(pickle.loads((options.folder / f"{name}.pkl").read_bytes()), options.device)
        for name in CASES
    }
    is_gpu = options.device.startswith("cuda")
    document = {
        "schema": "byheart.benchmark/1",
        "name": "device-identity",
        "device": torch.cuda.get_device_name(options.device) if is_gpu else platform.machine(),
        "torch": torch.__version__,
        "cases": found,
    }
    print(json.dumps(document, indent=1))
    holds = all(
        all(case["outputs_same_bytes"].values()) and not case["layers_different"] and not case["wrong"]
        for case in found.values()
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
