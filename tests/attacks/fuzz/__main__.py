"""`python -m tests.attacks.fuzz --seconds 60`: attack, count, and keep every finding with the files that show it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import torch

from tests.attacks.fuzz import children
from tests.attacks.fuzz.children import run_case, run_cases


def prepare(folder: Path) -> None:
    """Make the seeds of every target, so that each child finds them made and everything imported."""
    os.environ["BYHEART_MEMORY_LIMIT"] = (
        "256M"  # so small that what files of this size ask for can go beyond it
    )
    torch.set_num_threads(1)
    for target in children.TARGETS:
        (folder / target.name).mkdir(parents=True)
        target.prepare(folder / target.name)


def attack(seed: int, numbers: Iterator[int], out: Path, scratch: Path, deadline: float) -> dict[str, Any]:
    """Run cases until the time is up; what was counted. Findings are kept under `out`, by kind."""
    outcomes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for found in run_cases(seed, numbers, scratch, out, deadline):
        outcomes[f"{found['target']}: {found['outcome']}"] += 1
        if found["outcome"] == "finding":
            kinds[found["kind"]] += 1
    return {"outcomes": outcomes, "findings": kinds}


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same cases")
    parser.add_argument("--cases", type=int, help="number of cases")
    parser.add_argument("--case", type=int, help="run this one alone, here, and show what happens")
    parser.add_argument("--only", nargs="+", metavar="TARGET", help="attack these ways in alone")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"))
    options = parser.parse_args()
    if options.only:
        children.TARGETS = tuple(target for target in children.TARGETS if target.name in options.only)
    with tempfile.TemporaryDirectory(prefix="byheart-fuzz-") as temporary:
        folder = Path(temporary)
        prepare(folder / "seeds")
        if options.case is not None:
            found = run_case(options.seed, options.case, options.out / "case")
            print(json.dumps({**found, "detail": "below"}), found.get("detail", ""), sep="\n")
            return 0
        return _in_processes(options, folder)


def _in_processes(options: argparse.Namespace, folder: Path) -> int:
    """Share the cases among processes forked from this one, which has everything made; add up what they count."""
    began = time.monotonic()
    children = []
    for first in range(options.processes):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                numbers = count(first, options.processes)
                if options.cases is not None:
                    numbers = iter(range(first, options.cases, options.processes))
                found = attack(
                    options.seed, numbers, options.out, folder / f"case-{first}", began + options.seconds
                )
                (folder / f"{first}.json").write_text(json.dumps(found))
                status = 0
            finally:
                if status:
                    traceback.print_exc()
                os._exit(status)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    totals: Counter[str] = Counter()
    findings: Counter[str] = Counter()
    for first in range(options.processes):
        found = json.loads((folder / f"{first}.json").read_text())  # absent where the fuzzer itself failed
        totals.update(found["outcomes"])
        findings.update(found["findings"])
    summary = {
        "seed": options.seed,
        "processes": options.processes,
        "seconds": round(time.monotonic() - began),
        "n_cases": sum(totals.values()),
        "outcomes": dict(sorted(totals.items())),
        "findings": dict(findings),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1))
    if findings:
        print(
            f"{sum(findings.values())} findings of {len(findings)} kinds; see {options.out}", file=sys.stderr
        )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
