"""Runs the catalogue, and says what is noticed and what is named rightly.

python -m tests.golden.detection FAMILY FILE [--number-type bfloat16] [--workers N] [WORD...]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from byheart.golden.case import N_NEW, Case, cases, shapes
from byheart.golden.checkpoint import read_weights
from byheart.golden.diagnosis import Outcome, diagnose
from byheart.golden.engine_check import compare_logits
from byheart.golden.engines.transformers import TransformersEngine
from byheart.golden.reference import WAYS, ReferenceEngine
from byheart.golden.shape import Shape
from byheart.golden.signatures import read_signatures, spread
from byheart.records.vocabulary import NumberType
from tests.golden.catalogue import CATALOGUE, EngineFault

N_CASES = 32
"""Cases of each checkpoint that a fault is tried on."""


def faulty_outcomes(
    fault: EngineFault,
    root: Path,
    known: dict[str, Shape],
    found: Sequence[Case],
    number_type: NumberType = "float32",
) -> list[Outcome]:
    """What an engine with this fault answers, in the checkpoints that it can happen in."""
    outcomes: list[Outcome] = []
    for name, shape in known.items():
        if shape.n_needles or shape.vocab > 20_000 or not fault.applies(shape):
            continue
        mine = [case for case in found if case.checkpoint == name and case.holds_for(number_type)]
        if not mine:
            continue
        session = (
            ReferenceSession(shape, root / name, fault)
            if fault.into == "reference"
            else TransformersEngine(number_type, attention="eager", change=fault.change).open(
                shape, root / name
            )
        )
        for way in fault.ways:
            if way == "beam search" and number_type != "float32":
                continue
            asked = spread([case for case in mine if case.expected(way)], N_CASES)
            if not asked:
                continue
            # one by one and all of a length together are the same to the models of transformers
            made = (
                _together(session, asked)
                if way == "one by one" and fault.into == "transformers"
                else session.generate(way, [case.prompt for case in asked], N_NEW)
            )
            outcomes += [Outcome(c, way, tuple(a)) for c, a in zip(asked, made, strict=True)]
        outcomes += compare_logits(session, spread(mine, N_CASES), number_type)
    return outcomes


class ReferenceSession:
    """The reference engine with a fault, driven as a check drives an engine."""

    def __init__(self, shape: Shape, folder: Path, fault: EngineFault) -> None:
        self.engine = ReferenceEngine(shape, read_weights(folder))
        fault.change(self.engine)

    def generate(self, way: str, prompts: Any, n_new: int) -> list[list[int]]:
        return self.engine.generate(prompts, n_new, next(each for each in WAYS if each.name == way))

    def logits(self, prompts: Any) -> list[list[float]]:
        kept: list[torch.Tensor] = []
        pick = self.engine.pick
        self.engine.pick = lambda logits: (kept.append(logits), pick(logits))[1]
        for prompt in prompts:
            self.engine.generate([prompt], 1)
        self.engine.pick = pick
        return [[float(value) for value in row[0].float()] for row in kept]


def _together(session: Any, mine: Sequence[Case]) -> list[list[int]]:
    """Prompts of one length in one batch, with a cache: no padding, and quicker than one by one."""
    answers: dict[str, list[int]] = {}
    for length in {len(case.prompt) for case in mine}:
        block = [case for case in mine if len(case.prompt) == length]
        made = session._left([case.prompt for case in block], N_NEW, len(block))
        answers |= {case.name: answer for case, answer in zip(block, made, strict=True)}
    return [answers[case.name] for case in mine]


def try_fault(task: tuple[str, str, NumberType]) -> dict[str, Any]:
    """One fault of the catalogue: what it changes, and what it is taken for."""
    torch.set_num_threads(1)
    root, number_type = Path(task[0]), task[2]
    fault = next(each for each in CATALOGUE if each.name == task[1])
    known = shapes(root)
    with torch.no_grad():
        outcomes = faulty_outcomes(fault, root, known, cases(root), number_type)
    wrong = [outcome for outcome in outcomes if not outcome.is_right]
    suspicions = diagnose(outcomes, known, read_signatures(root))
    kind = suspicions[0].kind if suspicions else "-"
    return {
        "fault": fault.name,
        "number_type": number_type,
        "into": fault.into,
        "asked": len(outcomes),
        "wrong": len(wrong),
        "noticed": bool(wrong),
        "checkpoints": sorted({o.case.checkpoint for o in outcomes}),
        "noticed_by": sorted({o.case.checkpoint for o in wrong}),
        "named": kind,
        "likeness": round(suspicions[0].likeness, 2) if suspicions else 0,
        "second": suspicions[1].kind if len(suspicions) > 1 else "-",
        "named_rightly": kind in fault.kinds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("words", nargs="*", help="only faults with one of these in their names")
    parser.add_argument("--number-type", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_intermixed_args()
    known = [shape for shape in shapes(given.family).values() if not shape.n_needles and shape.vocab < 20_000]
    if given.number_type == "bfloat16":
        known = [shape for shape in known if shape.dtype == "bfloat16"]
    tasks = [
        (str(given.family), fault.name, given.number_type)
        for fault in CATALOGUE
        if (given.number_type == "float32" or (fault.in_bfloat16 and fault.ways[-1] != "beam search"))
        and any(fault.applies(shape) for shape in known)
        and (not given.words or any(word in fault.name for word in given.words))
    ]
    rows = []
    with multiprocessing.get_context("spawn").Pool(given.workers) as pool:
        for row in pool.imap(try_fault, tasks):
            rows.append(row)
            print(
                f"{row['fault']:52} {row['wrong']:4} of {row['asked']:4}  {row['named']:28} {row['likeness']:5}",
                "" if row["named_rightly"] else "WRONG KIND",
                flush=True,
            )
            given.file.write_text("".join(json.dumps(each) + "\n" for each in rows))
    n_noticed, n_named = sum(row["noticed"] for row in rows), sum(row["named_rightly"] for row in rows)
    print(f"{given.number_type}: noticed {n_noticed} of {len(rows)}; named rightly {n_named} of {len(rows)}")


if __name__ == "__main__":
    main()
