"""How many label bits a parameter holds: `retrieval` on random data, compiled, then every sample answered by plain PyTorch.

    python benchmarks/retrieval.py [--samples 10000 100000] [--precision float64] [--classes 16] [--data grid tokens] [--seed 0]
                                   [--json FILE]

`grid` is n = 8 tokens of dimension 4 on a grid of 16 levels, unordered; `tokens` is n = 8 ids from a vocabulary of 1,000, ordered.
Parameters are counted whole: embedding, positions, extra token, attention, biases, zeros and all.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time
from pathlib import Path

import numpy as np

from byheart.construct.registry import get, statistics_of
from byheart.data.dataset import Dataset
from byheart.data.generators import grid_vectors, random_tokens
from byheart.network.counting import size_of_network

COLUMNS = (
    "data",
    "n_samples",
    "n_classes",
    "precision",
    "layout",
    "parameters",
    "bits_per_parameter",
    "bits_per_stored_bit",
    "load",
    "draws",
    "compile_s",
    "verify_s",
    "checked",
    "wrong",
    "peak_gb",
)


def measure(data: Dataset, name: str, precision: str, seed: int, n_checked: int | None) -> dict[str, object]:
    start = time.perf_counter()
    options = {"precision": precision}
    construction = get("retrieval").build(data, options, np.random.default_rng(seed), None)
    compiled = time.perf_counter()
    memory = construction.memory
    chosen = np.arange(data.n_samples)[: n_checked or data.n_samples]
    answers = memory.answer(memory.encode(data.inputs.take(chosen)), backend="module")
    wrong = int((answers != data.labels[chosen]).sum())
    done = time.perf_counter()
    size = size_of_network(memory.network)
    predicted = get("retrieval").size_of(statistics_of(data)).parameters_dense
    return {
        "data": name,
        "n_samples": data.n_samples,
        "n_classes": data.n_classes,
        "precision": precision,
        "seed": seed,
        "layout": construction.notes["layout"],
        "parameters": size.parameters_dense,
        "parameters_predicted": predicted if precision == "float64" else None,
        "parameters_nonzero": size.parameters_nonzero,
        "bits_per_parameter": round(data.label_bits / size.parameters_dense, 3),
        "bits_per_stored_bit": round(data.label_bits / size.total_bits, 4),
        "load": construction.notes["load"],
        "draws": construction.notes["draws"],
        "compile_s": round(compiled - start, 2),
        "verify_s": round(done - compiled, 2),
        "checked": len(chosen),
        "wrong": wrong,
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "notes": dict(construction.notes),
    }


def make_data(name: str, n_samples: int, n_classes: int, seed: int) -> Dataset:
    if name == "grid":
        return grid_vectors(n_samples, n_classes=n_classes, seed=seed)
    return random_tokens(n_samples, n_vocab=1000, n_classes=n_classes, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[16])
    parser.add_argument("--precision", nargs="+", default=["float64", "float32"])
    parser.add_argument("--data", nargs="+", default=["grid"], choices=["grid", "tokens"])
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--check", type=int, help="answer only this many samples (all by default)")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows = []
    sys.stdout.write("  ".join(f"{name:>12}" for name in COLUMNS) + "\n")
    for name in chosen.data:
        for n_classes in chosen.classes:
            for precision in chosen.precision:
                for n_samples in chosen.samples:
                    for seed in chosen.seed:
                        data = make_data(name, n_samples, n_classes, seed)
                        row = measure(data, name, precision, seed, chosen.check)
                        rows.append(row)
                        sys.stdout.write("  ".join(f"{row[column]!s:>12}" for column in COLUMNS) + "\n")
                        sys.stdout.flush()
    if chosen.json is not None:
        machine = {"machine": platform.processor() or platform.machine(), "python": platform.python_version()}
        chosen.json.write_text(json.dumps({"schema": 1, **machine, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
