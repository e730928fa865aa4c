"""Golden checkpoints asked of transformers on a device: float32 without TF32, bfloat16, eager, sdpa, `torch.compile`, long texts.

    python benchmarks/golden_on_device.py FAMILY FILE [--device cuda] [--only NAME]

Adds one JSON line to FILE for each run of each checkpoint, and leaves out what FILE has already, so that a run that was cut
short can be continued. Exit status 3 if an answer was wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from byheart.golden.case import cases, shapes
from byheart.golden.engine_check import check
from byheart.golden.engines.engine import Session
from byheart.golden.engines.transformers import TransformersEngine
from byheart.golden.shape import Shape
from byheart.records.vocabulary import NumberType


class CompiledEngine(TransformersEngine):
    """Compiled models, run in one way: every new shape is compiled again."""

    def open(self, shape: Shape, folder: Path) -> Session:
        session = super().open(shape, folder)
        session.ways = lambda: ("right padding",)
        return session


def compiled(model: Any) -> None:
    model.model.forward = torch.compile(model.model.forward, dynamic=True)


def runs(device: str) -> Iterator[tuple[str, TransformersEngine]]:
    """All ways to run a checkpoint; compiling takes longest, so it comes last."""
    number_types: tuple[NumberType, ...] = ("float32", "bfloat16")
    for number_type in number_types:
        for attention in ("sdpa", "eager"):
            yield f"{number_type} {attention}", TransformersEngine(number_type, device, attention)
    for number_type in number_types:
        yield f"{number_type} torch.compile", CompiledEngine(number_type, device, "sdpa", compiled)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", action="append", help="this checkpoint alone; may be repeated")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    done = [json.loads(line) for line in given.file.read_text().splitlines()] if given.file.exists() else []
    have = {(row["label"], row["checkpoint"]) for row in done}
    n_wrong = sum(row["wrong"] for row in done)
    device = torch.cuda.get_device_name() if given.device == "cuda" else given.device
    found = cases(given.family)
    for label, engine in runs(given.device):
        for name in given.only or shapes(given.family):
            able = [case for case in found if case.checkpoint == name and case.holds_for(engine.number_type)]
            if (label, name) in have or not able:
                continue
            started = time.monotonic()
            report = check(
                engine, given.family, only=[name], long_texts="compile" not in label and "sdpa" in label
            )
            row = {
                "label": label,
                "checkpoint": name,
                "device": device,
                "torch": torch.__version__,
                "checked": len(report.outcomes),
                "wrong": len(report.wrong),
                "ways": {way: n for _, way, n, _ in report.rows()},
                "names": sorted({outcome.case.name for outcome in report.wrong})[:20],
                "seconds": round(time.monotonic() - started, 1),
            }
            n_wrong += len(report.wrong)
            print(json.dumps(row), flush=True)
            with given.file.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return 3 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
