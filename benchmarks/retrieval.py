"""How many label bits per parameter holds: `retrieval` on random data, compiled, then answered by plain PyTorch.

    python benchmarks/retrieval.py                 # the rows below; about six minutes on two quiet cores
    python benchmarks/retrieval.py --full          # every sample of every row answered; about a quarter of an hour
    python benchmarks/retrieval.py --largest 10000000 [--check 20000]      # one row, far out
    python benchmarks/retrieval.py --samples 10000 --precision float32 --classes 16 --data grid --seed 0 1 2   # chosen rows

`grid` is n = 8 tokens of dimension 4 on a grid of 16 levels, unordered; `tokens` is n = 8 ids from a vocabulary of 1,000, ordered.
Parameters are counted whole: embedding, positions, extra token, attention, biases, zeros and all. Every row runs in a process of
its own, so that its peak memory is its own. At the end the growth of compile time from 10^4 to 10^6 is fitted: t = a·N^b. With
--json the rows go to a file. Exit status 1 if an answer was wrong.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from byheart.construct.registry import get
from byheart.data.dataset import Dataset
from byheart.data.generators import grid_vectors, random_tokens
from byheart.network.size import size_of_network
from byheart.network.transformer.module import run_module

COLUMNS = (
    "data",
    "n_samples",
    "n_classes",
    "precision",
    "seed",
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
    "compile_gb",
    "peak_gb",
)
MILLION = 10**6


@dataclass(frozen=True)
class Row:
    """What one row measures; `check` samples are answered (None: all)."""

    data: str
    n_samples: int
    n_classes: int = 16
    precision: str = "float64"
    seed: int = 0
    check: int | None = None


def issued_rows(full: bool) -> list[Row]:
    """Unless `full`, rows of a million answer every sample of one network and some of the others."""
    some, few = (None, None) if full else (100_000, 20_000)
    rows = [
        Row("grid", n, 16, precision, check=some if (n, precision) == (MILLION, "float32") else None)
        for precision in ("float64", "float32")
        for n in (10_000, 100_000, MILLION)
    ]
    rows += [Row("tokens", MILLION, n_classes, check=some) for n_classes in (16, 1000)]
    rows += [Row("grid", 100_000, n_classes) for n_classes in (2, 256)]
    rows += [Row("grid", MILLION, seed=seed, check=few) for seed in (1, 2)]
    rows += [Row("grid", MILLION, n_classes, check=few) for n_classes in (2, 256)]
    return rows


def make_data(row: Row) -> Dataset:
    if row.data == "grid":
        return grid_vectors(row.n_samples, n_classes=row.n_classes, seed=row.seed)
    return random_tokens(row.n_samples, n_vocab=1000, n_classes=row.n_classes, seed=row.seed)


def peak_gb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def measure(row: Row) -> dict[str, object]:
    method = get("retrieval")
    method.build(make_data(Row(row.data, 200)), {}, np.random.default_rng(0), None)  # numba's kernels, once
    data = make_data(row)
    start = time.perf_counter()
    options = method.read_options({"precision": row.precision})
    plan = method.plan(data, options, np.random.default_rng(row.seed), None)
    built = plan.emit()
    compiled = time.perf_counter()
    compile_gb = peak_gb()
    memoriser = built.memoriser
    chosen = np.arange(data.n_samples)[: row.check or data.n_samples]
    encoded = memoriser.encode(data.inputs.take(chosen))
    outputs = run_module(memoriser.network, encoded, last_only=True)
    done = time.perf_counter()
    size = size_of_network(memoriser.network)
    return {
        **asdict(row),
        "layout": built.notes["layout"],
        "parameters": size.parameters_dense,
        "parameters_nonzero": size.parameters_nonzero,
        "size_was_predicted": plan.size == size,
        "bits_per_parameter": round(data.label_bits / size.parameters_dense, 3),
        "bits_per_stored_bit": round(data.label_bits / size.total_bits, 4),
        "load": built.notes["load"],
        "draws": built.notes["draws"],
        "compile_s": round(compiled - start, 2),
        "verify_s": round(done - compiled, 2),
        "checked": len(chosen),
        "wrong": int((outputs != data.labels[chosen] + 1).sum()),
        "compile_gb": compile_gb,
        "peak_gb": peak_gb(),
        "notes": dict(built.notes),
    }


def measured_alone(row: Row) -> dict[str, object]:
    command = [sys.executable, __file__, "--row", json.dumps(asdict(row))]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def growth(rows: list[dict[str, object]]) -> float | None:
    """b of compile time a·N^b over the float64 grid rows from 10^4 to 10^6; None if there are not three of them."""
    points = [
        (row["n_samples"], row["compile_s"])
        for row in rows
        if (row["data"], row["n_classes"], row["precision"]) == ("grid", 16, "float64")
        and 10_000 <= int(str(row["n_samples"])) <= MILLION
    ]
    if len({n for n, _ in points}) < 3:
        return None
    facts, seconds = np.log(np.array(points, dtype=float)).T
    return float(np.polyfit(facts, seconds, 1)[0])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--largest", type=int)
    parser.add_argument("--samples", type=int, nargs="+")
    parser.add_argument("--classes", type=int, nargs="+", default=[16])
    parser.add_argument("--precision", nargs="+", default=["float64"])
    parser.add_argument("--data", nargs="+", default=["grid"], choices=["grid", "tokens"])
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--check", type=int, help="answer only this many samples (all by default)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.row:
        sys.stdout.write(json.dumps(measure(Row(**json.loads(chosen.row)))))
        return 0
    rows = issued_rows(chosen.full)
    if chosen.largest or chosen.samples:
        rows = [
            Row(name, n, n_classes, precision, seed, chosen.check)
            for name in chosen.data
            for n_classes in chosen.classes
            for precision in chosen.precision
            for n in ([chosen.largest] if chosen.largest else chosen.samples)
            for seed in chosen.seed
        ]
    found: list[dict[str, object]] = []
    sys.stdout.write("  ".join(f"{name:>10}" for name in COLUMNS) + "\n")
    for row in rows:
        found.append(measured_alone(row))
        sys.stdout.write("  ".join(f"{found[-1][column]!s:>10}" for column in COLUMNS) + "\n")
        sys.stdout.flush()
    exponent = growth(found)
    if exponent is not None:
        sys.stdout.write(
            f"compile time grows as N^{exponent:.2f} from 10^4 to 10^6 (float64, grid, 16 classes)\n"
        )
    estimated = all(row["size_was_predicted"] for row in found)
    sys.stdout.write(f"every size was estimated exactly: {'yes' if estimated else 'no'}\n")
    if chosen.json is not None:
        machine = {"machine": platform.processor() or platform.machine(), "python": platform.python_version()}
        document = {"schema": 2, **machine, "compile_growth": exponent, "rows": found}
        chosen.json.write_text(json.dumps(document, indent=2) + "\n")
    return 1 if any(row["wrong"] for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
