"""The same `retrieval` weights give the same bits everywhere: threads, batch sizes, compilers, runtimes, devices.

    python benchmarks/retrieval_identity.py compile   # weights, inputs and this CPU's outputs, into out/retrieval_identity
    python benchmarks/retrieval_identity.py check [--device cuda] [--skip torch.compile] [--threads 1 2] [--batches 1 7 4096]

`check` runs on any machine with torch and numpy that has the folder. It compares, byte by byte, the outputs kept by `compile`
with those of the CPU (each number of threads, each batch size), of `torch.compile` on CPU and device, of ONNX Runtime where it
is installed (null where not), of the device, and of modules that keep the matrices of int8 and bfloat16 networks as they are
stored. Batches of 1 and 7 are run on the first 300 and 7,000 inputs. Prints one JSON document; exit status 1 if any bit differs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import pickle
import platform
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import bare_machine  # noqa: F401  # finds byheart without its dependencies
import numpy as np
import torch

from byheart.network.transformer.architecture import Transformer
from byheart.network.transformer.module import TransformerModule, to_module
from byheart.network.transformer.stored_module import to_stored_module

# n = 6 and 49 tokens: 1/n is no float, so an average must not be taken by a rounded reciprocal
CASES: dict[str, dict[str, Any]] = {
    "grid": {"n": 100_000, "precision": "float64"},
    "grid-float32": {"n": 100_000, "precision": "float32"},
    "grid-small": {"n": 2_000, "precision": "float64"},
    "tokens": {"n": 100_000, "precision": "float64"},
    "tokens-length-6": {"n": 2_000, "precision": "float64", "seq_len": 6},
    "tokens-length-49": {"n": 2_000, "precision": "float64", "seq_len": 49},
    "sets": {"n": 2_000, "precision": "float64", "task": "set"},
    "grid-int8": {"n": 100_000, "precision": "int8"},
    "grid-bfloat16": {"n": 100_000, "precision": "bfloat16"},
    "tokens-int8": {"n": 100_000, "precision": "int8"},
    "tokens-bfloat16": {"n": 100_000, "precision": "bfloat16"},
    # a table for each part of the label
    "grid-parts-int8": {"n": 20_000, "precision": "int8", "reject_bits": 16},
    "grid-parts-bfloat16": {"n": 20_000, "precision": "bfloat16", "reject_bits": 16},
    "tokens-parts-int8": {"n": 20_000, "precision": "int8", "reject_bits": 16},
    "tokens-parts-bfloat16": {"n": 20_000, "precision": "bfloat16", "reject_bits": 16},
    "tokens-long-labels-int8": {"n": 20_000, "precision": "int8", "n_classes": 100_000},
}
FIRST = {1: 300, 7: 7_000}


def compiled(name: str) -> dict[str, Any]:
    from byheart.construct.registry import get
    from byheart.data.generators import grid_vectors, random_tokens

    wanted = CASES[name]
    n_classes = wanted.get("n_classes", 16)
    data = (
        grid_vectors(wanted["n"], n_classes=n_classes, seed=0)
        if name.startswith("grid")
        else random_tokens(
            wanted["n"],
            wanted.get("seq_len", 8),
            1000,
            n_classes,
            seed=0,
            task=wanted.get("task", "next-token"),
        )
    )
    options = {key: wanted[key] for key in ("precision", "reject_bits") if key in wanted}
    built = get("retrieval").build(data, options, np.random.default_rng(0), None)
    encoded = np.asarray(built.memoriser.encode(data.inputs))
    case = {
        "network": built.memoriser.network,
        "inputs": encoded.astype(np.int8 if np.abs(encoded).max() < 128 else np.int16),
        "labels": data.labels,
        "notes": {
            "samples": data.n_samples,
            "layout": built.notes["layout"],
            "precision": wanted["precision"],
            **({"reject_bits": wanted["reject_bits"]} if "reject_bits" in wanted else {}),
        },
    }
    return {**case, "outputs": run(case, "cpu", 4096)}


def run(
    case: dict[str, Any],
    device: str,
    batch: int,
    wrap: Callable[..., Any] | None = None,
    make: Callable[[Transformer], TransformerModule] = to_module,
) -> np.ndarray:
    """The output at the last token of the first inputs, `batch` at a time; a last short batch is left out if wrapped."""
    module = make(case["network"]).to(device).eval()
    answer = module if wrap is None else wrap(module)
    inputs = torch.from_numpy(case["inputs"]).to(device)
    inputs = inputs.to(torch.int64 if module.embedding is not None else module.w_in.dtype)
    n = min(len(inputs), FIRST.get(batch, len(inputs)))
    if wrap is not None:
        n = max(n // batch * batch, min(n, batch))
    with torch.no_grad():
        pieces = [answer(inputs[at : at + batch], True)[:, -1, 0].cpu().numpy() for at in range(0, n, batch)]
    return np.concatenate(pieces)[:n]


def with_runtime(case: dict[str, Any]) -> np.ndarray | None:
    """The outputs of ONNX Runtime, or None where it is not installed."""
    try:
        import onnxruntime

        from byheart.export.onnx import to_onnx
    except ImportError:
        return None
    network = case["network"]
    session = onnxruntime.InferenceSession(
        to_onnx(network, last_only=True).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    inputs = case["inputs"].astype(np.int64 if network.embedding is not None else network.w_in.dtype)
    pieces = [session.run(None, {"inputs": inputs[at : at + 4096]})[0] for at in range(0, len(inputs), 4096)]
    return np.concatenate(pieces)[:, -1, 0]


def check(
    case: dict[str, Any], device: str, threads: list[int], batches: list[int], skip: list[str]
) -> dict[str, Any]:
    start = time.perf_counter()
    found: dict[str, np.ndarray | None] = {}
    for count in threads:
        torch.set_num_threads(count)
        for batch in batches:
            found[f"cpu, {count} threads, {batch} at a time"] = run(case, "cpu", batch)
    if "onnx" not in skip:
        found["ONNX Runtime"] = with_runtime(case)
    if "torch.compile" not in skip:
        for place in dict.fromkeys(["cpu", device]):
            torch.compiler.reset()
            found[f"torch.compile, {place}"] = run(
                case,
                place,
                min(4096, len(case["inputs"])),
                lambda module: torch.compile(module, dynamic=False),
            )
    if device != "cpu":
        for batch in batches:
            found[f"{device}, {batch} at a time"] = run(case, device, batch)
    if case["network"].storage is not None:
        for place in dict.fromkeys(["cpu", device]):
            found[f"matrices as they are stored, {place}"] = run(case, place, 4096, make=to_stored_module)
    kept = case["outputs"]
    return {
        **case["notes"],
        "wrong": int((kept != case["labels"] + 1).sum()),
        "same_bytes": {
            name: None if outputs is None else bytes(outputs) == bytes(kept[: len(outputs)])
            for name, outputs in found.items()
        },
        "outputs_sha256": sha256(bytes(kept)).hexdigest(),
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("compile", "check"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 7, 4096])
    parser.add_argument("--skip", nargs="+", choices=("torch.compile", "onnx"), default=[])
    parser.add_argument("--folder", type=Path, default=Path("out/retrieval_identity"))
    options = parser.parse_args()
    if options.step == "compile":
        options.folder.mkdir(parents=True, exist_ok=True)
        for name in options.cases:
            case = compiled(name)
            (options.folder / f"{name}.pkl.gz").write_bytes(gzip.compress(pickle.dumps(case), mtime=0))
            print(name, json.dumps(case["notes"]), flush=True)
        return 0
    # TF32 would round the factors of a product to 10 bits
    torch.set_float32_matmul_precision("highest")
    cases = {}
    for name in options.cases:
        written = gzip.decompress((options.folder / f"{name}.pkl.gz").read_bytes())
        kept = pickle.loads(written)  # written by `compile` above
        cases[name] = check(kept, options.device, options.threads, options.batches, options.skip)
        print(name, cases[name]["seconds"], file=sys.stderr, flush=True)
    is_gpu = options.device.startswith("cuda")
    document = {
        "schema": "byheart.benchmark/1",
        "name": "retrieval-identity",
        "device": torch.cuda.get_device_name(options.device) if is_gpu else platform.machine(),
        "torch": torch.__version__,
        "cases": cases,
    }
    print(json.dumps(document, indent=1))
    holds = all(not case["wrong"] and False not in case["same_bytes"].values() for case in cases.values())
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
