"""Answers per second of compiled memories, beside those of another checkout, in one run.

    python benchmarks/answer_speed.py [--other ../before/src] [--facts 100000 1000000] [--data tokens grid] [--json FILE]

Each checkout compiles the data (C = 16, float64, seed 0) in a process of its own and answers the first samples of it, in turns, so
that both meet the same machine: alone, and beside a second process that multiplies matrices. The best of three turns counts. The
answers must be the labels: exit status 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

TURNS = 3
BUSY = "import numpy as np; a = np.random.rand(512, 512)\nwhile True: a @ a"

WORKER = """
import json, sys, time
import numpy as np, torch
from byheart.construct.registry import get
from byheart.data.generators import grid_vectors, random_tokens
from byheart.network.transformer.module import run_module
name, n_facts, n_asked = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
make = {"grid": lambda: grid_vectors(n_facts, n_classes=16, seed=0),
        "tokens": lambda: random_tokens(n_facts, n_vocab=1000, n_classes=16, seed=0)}
data, method = make[name](), get("retrieval")
start = time.perf_counter()
built = method.plan(data, method.read_options({}), np.random.default_rng(0), None).emit()
compiled = time.perf_counter() - start
network, encoded = built.memoriser.network, built.memoriser.encode(data.inputs)[:n_asked]
wrong = int((run_module(network, encoded, last_only=True) != data.labels[:n_asked] + 1).sum())
print(json.dumps({"compile_s": round(compiled, 2), "wrong": wrong, "threads": torch.get_num_threads(),
                  "parameters": network.spec.parameters_dense}), flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    run_module(network, encoded, last_only=True)
    print(json.dumps(n_asked / (time.perf_counter() - start)), flush=True)
"""


class Checkout:
    """A process that compiled a memory with one checkout and answers when told."""

    def __init__(self, source: Path, arguments: list[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.facts = self._read()

    def _read(self) -> dict[str, float]:
        assert self._process.stdout is not None
        found: dict[str, float] = json.loads(self._process.stdout.readline())
        return found

    def answer(self) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("again\n")
        self._process.stdin.flush()
        return float(self._read())

    def close(self) -> None:
        self._process.communicate()


def measure(name: str, n_facts: int, n_asked: int, sources: dict[str, Path]) -> dict[str, object]:
    asked = min(n_asked, n_facts)
    checkouts = {
        which: Checkout(source, [name, str(n_facts), str(asked)]) for which, source in sources.items()
    }
    row: dict[str, object] = {"data": name, "n_facts": n_facts, "asked": asked}
    for which, checkout in checkouts.items():
        row[which] = dict(checkout.facts)
    for load in ("alone", "busy"):
        busy = subprocess.Popen([sys.executable, "-c", BUSY]) if load == "busy" else None
        turns: dict[str, list[float]] = {which: [] for which in checkouts}
        for _ in range(TURNS):
            for which, checkout in checkouts.items():
                turns[which].append(checkout.answer())
        if busy is not None:
            busy.kill()
            busy.wait()
        row[load] = {which: round(max(rates)) for which, rates in turns.items()}
    for checkout in checkouts.values():
        checkout.close()
    return row


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--other",
        type=Path,
        help="the folder src of the other checkout; without it only this one is measured",
    )
    parser.add_argument("--facts", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--data", nargs="+", default=["tokens", "grid"], choices=["grid", "tokens"])
    parser.add_argument("--asked", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    sources = {"this": Path(__file__).parents[1] / "src"}
    if chosen.other is not None:
        sources["other"] = chosen.other
    rows = []
    for n_facts in chosen.facts:
        for name in chosen.data:
            row = measure(name, n_facts, chosen.asked, sources)
            rows.append(row)
            for load in ("alone", "busy"):
                rates: dict[str, int] = row[load]
                shown = f"{rates['this']:,} answers a second"
                if "other" in rates:
                    times = rates["this"] / rates["other"]
                    shown += f", {times:.1f} times the {rates['other']:,} of the other"
                sys.stdout.write(f"{name:>7} {n_facts:>9,} {load:>6}: {shown}\n")
                sys.stdout.flush()
    if chosen.json is not None:
        machine = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        chosen.json.write_text(json.dumps({"schema": 1, **machine, "rows": rows}, indent=2) + "\n")
    return 1 if any(row[which]["wrong"] for row in rows for which in sources) else 0


if __name__ == "__main__":
    sys.exit(main())
