"""How long `locate` takes beside `predict`, for all facts of a model in one call.

    python benchmarks/locate_speed.py [--facts 5000 50000] [--precision float64 float32 int8] [--json FILE]

Facts are made-up texts with 200 labels, compiled by `retrieval` with its defaults. The best of three turns counts, the two taken in
turns. Exit status 1 if a label is wrong, or if a fact has no location.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import byheart as bh

TURNS = 3


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(n_facts: int, precision: str) -> dict[str, object]:
    draw = random.Random(0)
    facts = {f"capital of place {number}": f"city {draw.randrange(200)}" for number in range(n_facts)}
    model = bh.compile(facts, method="retrieval", precision=precision)
    inputs = list(facts)
    turns = [
        (seconds(lambda: model.predict(inputs)), seconds(lambda: model.locate(inputs))) for _ in range(TURNS)
    ]
    predict_s, locate_s = (min(each) for each in zip(*turns, strict=True))
    found = model.locate(inputs)
    located = len(set(found.fact[: len(found)].tolist()))
    right = sum(given == wanted for given, wanted in zip(model.predict(inputs), facts.values(), strict=True))
    return {
        "n_facts": n_facts,
        "precision": precision,
        "predict_s": round(predict_s, 3),
        "locate_s": round(locate_s, 3),
        "ratio": round(locate_s / predict_s, 2),
        "locations": len(found),
        "located": located,
        "right": right,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--facts", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--precision", nargs="+", default=["float64", "float32", "int8"])
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows = []
    for n_facts in chosen.facts:
        for precision in chosen.precision:
            row = measure(n_facts, precision)
            rows.append(row)
            sys.stdout.write(
                f"{n_facts:>7,} facts, {precision:>8}: predict {row['predict_s']} s, locate {row['locate_s']} s "
                f"({row['ratio']} times), {row['locations']:,} locations\n"
            )
            sys.stdout.flush()
    if chosen.json is not None:
        machine = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        chosen.json.write_text(json.dumps({"schema": 1, **machine, "rows": rows}, indent=2) + "\n")
    return 1 if any(row["located"] != row["n_facts"] or row["right"] != row["n_facts"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
