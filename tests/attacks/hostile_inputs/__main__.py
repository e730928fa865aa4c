"""Small hostile inputs, each made and measured: `python -m tests.attacks.hostile_inputs -o record.json`.

A case that takes more than `MOST_SECONDS` or `MOST_BYTES`, or that ends in a crash, is named, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.attacks.hostile_inputs.case import CASES
from tests.attacks.hostile_inputs.measurement import measure, warm_up


def main() -> int:
    parser = argparse.ArgumentParser(prog="hostile_inputs", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, help="also write the record there")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        warm_up(Path(place))
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        found = []
        for name in CASES:
            if options.only in name:
                found.append(measure(name, Path(place) / "case"))
                print(f"{len(found)}: {found[-1]}", file=sys.stderr, flush=True)
    print(f"{len(found)} inputs; this process itself holds {own / 1e6:.0f} MB")
    print(f"{'input':45} {'command':9} {'bytes':>11} {'exit':>4} {'seconds':>8} {'MB':>6}")
    for each in found:
        flag = "" if each.is_small else "   <- too much"
        numbers = f"{each.input_bytes:11,} {each.status:4} {each.seconds:8.2f} {each.memory_bytes / 1e6:6.0f}"
        print(f"{each.name:45} {each.command:9} {numbers}{flag}")
    worst = (max(each.seconds for each in found), max(each.memory_bytes for each in found))
    print(f"at most {worst[0]:.2f} s and {worst[1] / 1e6:.0f} MB")
    if options.output is not None:
        document = {"cores": os.cpu_count(), "process_bytes": own, "cases": [asdict(each) for each in found]}
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(each.is_small for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
