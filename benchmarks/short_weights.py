"""Weights stored in 8, 16, 32 and 64 bits: label bits for each stored bit, bytes of the file, and answers per second.

    python benchmarks/short_weights.py [--facts 100000 1000000] [--precision int8 bfloat16 float32 float64] [--asked 20000]
                                       [--threads 1 2] [--check N] [--json FILE]
    python benchmarks/short_weights.py --places FILE [--reject-bits 0 8 16] [--precision int8 bfloat16] [--json FILE]

Data are n = 8 vectors of dimension 4 on a grid of 16 levels with 16 labels, seed 0. Every sample is answered by plain PyTorch (or
the first N with --check). For the speed the first samples are answered by all precisions in turns, so that they meet the same
machine, and the best of three turns counts; int8 and bfloat16 also by the module that keeps its matrices as they are stored.
The floor is BuRR's: 1.005 times the label bits, outside any network. Exit status 1 if an answer was wrong.

With --places the data are place names and their countries (see `retrieval_behaviour.py`). All are asked, and as many unknown names:
each name with one character exchanged for another.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import torch

from byheart.construct.registry import get
from byheart.data.dataset import Dataset
from byheart.data.generators import grid_vectors
from byheart.data.shape import DataShape
from byheart.network.memoriser import UNKNOWN
from byheart.network.size import size_of_network
from byheart.network.transformer.architecture import Transformer
from byheart.network.transformer.module import run_module
from byheart.network.transformer.stored_module import to_stored_module
from byheart.storage.folder import save_folder

TURNS = 3
FEW = 1024  # answers of the module that makes its matrices float on use, all tokens and channels computed
BURR = 1.005
CLASSES = 16


def build(n_facts: int, precision: str, check: int | None) -> tuple[dict[str, Any], Transformer, np.ndarray]:
    data, method = grid_vectors(n_facts, n_classes=CLASSES, seed=0), get("retrieval")
    told = method.estimate(DataShape.of(data), precision=precision)
    start = time.perf_counter()
    options = method.read_options({}, precision)
    built = method.plan(data, options, np.random.default_rng(0), None).emit()
    seconds = time.perf_counter() - start
    network, encoded = built.memoriser.network, built.memoriser.encode(data.inputs)
    assert isinstance(network, Transformer)
    n_checked = min(n_facts, check or n_facts)
    wrong = run_module(network, encoded[:n_checked], last_only=True) != data.labels[:n_checked] + 1
    size = size_of_network(network)
    with tempfile.TemporaryDirectory() as folder:
        save_folder(Path(folder) / "model", built.memoriser, {}, None)
        n_bytes = (Path(folder) / "model" / "model.safetensors").stat().st_size
    label_bits = n_facts * log2(CLASSES)
    row = {
        "data": "grid",
        "n_samples": n_facts,
        "n_classes": CLASSES,
        "seed": 0,
        "precision": precision,
        "parameters": size.parameters_dense,
        "stored_bits": size.total_bits,
        "as_told": (told.parameters_dense, told.total_bits) == (size.parameters_dense, size.total_bits),
        "bits_per_parameter": round(label_bits / size.parameters_dense, 3),
        "bits_per_stored_bit": round(label_bits / size.total_bits, 4),
        "file_bytes": n_bytes,
        "payload_bytes": int(label_bits / 8),
        "burr_bytes": round(BURR * label_bits / 8),
        "draws": built.notes["draws"],
        "why": built.notes["why"],
        "compile_s": round(seconds, 2),
        "checked": n_checked,
        "wrong": int(wrong.sum()),
    }
    return row, network, encoded


def build_places(path: Path, precision: str, reject_bits: int) -> dict[str, Any]:
    """Compile place names, ask all of them, and ask unknown names."""
    data, method = Dataset.from_csv(path, tokenizer="char"), get("retrieval")
    start = time.perf_counter()
    options = {"precision": precision, "reject_bits": reject_bits}
    built = method.build(data, options, np.random.default_rng(0), None)
    seconds = time.perf_counter() - start
    memoriser, size = built.memoriser, size_of_network(built.memoriser.network)
    told = method.estimate(DataShape.of(data), options)
    encoded = memoriser.encode(data.inputs)
    wrong = memoriser.answer(encoded, backend="module").ravel() != memoriser.expected_labels(data).ravel()
    with tempfile.TemporaryDirectory() as folder:
        save_folder(Path(folder) / "model", memoriser, {}, None)
        n_bytes = (Path(folder) / "model" / "model.safetensors").stat().st_size
    unknown = with_one_change(encoded, memoriser.network.pad)
    answered = memoriser.answer(unknown, backend="module").ravel() != UNKNOWN
    return {
        "data": path.name,
        "n_samples": data.n_samples,
        "n_classes": data.n_classes,
        "precision": precision,
        "reject_bits": reject_bits,
        "parameters": size.parameters_dense,
        "stored_bytes": size.total_bits // 8,
        "as_told": (told.parameters_dense, told.total_bits) == (size.parameters_dense, size.total_bits),
        "file_bytes": n_bytes,
        "payload_bytes": int(data.n_samples * (log2(data.n_classes) + reject_bits) / 8),
        "layout": built.notes["layout"],
        "hash": built.notes["hash"],
        "draws": built.notes["draws"],
        "why": built.notes["why"],
        "compile_s": round(seconds, 1),
        "checked": len(wrong),
        "wrong": int(wrong.sum()),
        "unknown": len(unknown),
        "unknown_answered": int(answered.sum()),
    }


def with_one_change(encoded: np.ndarray, pad: int | None) -> np.ndarray:
    """Each sequence with one of its tokens exchanged for another at random; those that are stored are left out."""
    rng = np.random.default_rng(0)
    lengths = (encoded != pad).sum(axis=1)
    places = encoded.shape[1] - 1 - rng.integers(0, lengths)  # padded on the left
    changed, rows = encoded.copy(), np.arange(len(encoded))
    changed[rows, places] = rng.permutation(encoded[rows, places])
    known = {row.tobytes() for row in encoded}
    return np.array([row for row in changed if row.tobytes() not in known])


def measure_speed(
    networks: dict[str, tuple[Transformer, np.ndarray]], n_asked: int, threads: list[int]
) -> list[dict[str, Any]]:
    """Answers per second of each precision, in turns; the best of three."""
    answers: dict[str, tuple[int, Callable[[], object]]] = {}
    for precision, (network, encoded) in networks.items():
        answers[precision] = n_asked, partial(run_module, network, encoded[:n_asked], last_only=True)
        if network.storage is not None:
            few = min(FEW, n_asked)
            answers[f"{precision}, made float on use"] = few, _on_use(network, encoded[:few])
    rows = []
    for n_threads in threads:
        torch.set_num_threads(n_threads)
        best = dict.fromkeys(answers, 0.0)
        for _ in range(TURNS + 1):  # the first turn prepares
            for name, (n_answers, answer) in answers.items():
                start = time.perf_counter()
                answer()
                best[name] = max(best[name], n_answers / (time.perf_counter() - start))
        rows.append({"threads": n_threads, "answers_per_second": {k: round(v) for k, v in best.items()}})
    return rows


def _on_use(network: Transformer, asked: np.ndarray) -> Callable[[], object]:
    module = to_stored_module(network).eval()
    few = torch.from_numpy(np.array(asked)).to(torch.float32).split(256)

    def answer() -> None:
        with torch.no_grad():
            for batch in few:
                module(batch, last_only=True)

    return answer


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--facts", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--precision", nargs="+", default=["int8", "bfloat16", "float32", "float64"])
    parser.add_argument("--asked", type=int, default=20_000)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--check", type=int)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--places", type=Path)
    parser.add_argument("--reject-bits", type=int, nargs="+", default=[0, 8, 16])
    arguments = parser.parse_args()
    rows, speeds = [], []
    if arguments.places is not None:
        arguments.facts = []
        for precision, reject_bits in product(arguments.precision, arguments.reject_bits):
            rows.append(build_places(arguments.places, precision, reject_bits))
            print(json.dumps(rows[-1]), flush=True)
    for n_facts in arguments.facts:
        networks = {}
        for precision in arguments.precision:
            row, *networks[precision] = build(n_facts, precision, arguments.check)
            rows.append(row)
            print(json.dumps(row), flush=True)
        for speed in measure_speed(networks, min(arguments.asked, n_facts), arguments.threads):
            speeds.append({"n_samples": n_facts, **speed})
            print(json.dumps(speeds[-1]), flush=True)
    if arguments.json is not None:
        found = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
        arguments.json.write_text(json.dumps({**found, "rows": rows, "speeds": speeds}, indent=1) + "\n")
    return int(any(row["wrong"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
