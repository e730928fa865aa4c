"""Runs the catalogue: python -m tests.golden.detection FAMILY [RESULT.json]. Says what is noticed and what is named rightly."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from byheart.golden.cases import N_NEW, Case, cases, shapes
from byheart.golden.checkpoint import read_weights
from byheart.golden.diagnosis import Outcome, diagnose
from byheart.golden.engines.transformers import TransformersEngine
from byheart.golden.reference import WAYS, ReferenceEngine
from byheart.golden.shape import Shape
from byheart.golden.signatures import read_signatures, spread
from tests.golden.catalogue import CATALOGUE, EngineFault

N_CASES = 20
"""Cases of each checkpoint that a fault is tried on."""


def faulty_outcomes(
    fault: EngineFault, root: Path, known: dict[str, Shape], found: Sequence[Case]
) -> list[Outcome]:
    """What an engine with this fault answers; checkpoints that it cannot happen in are run as well, without it."""
    outcomes: list[Outcome] = []
    for name, shape in known.items():
        if shape.n_needles or shape.vocab > 20_000 or not fault.applies(shape):
            continue
        mine = spread([case for case in found if case.checkpoint == name], N_CASES)
        if fault.into == "reference":
            engine = ReferenceEngine(shape, read_weights(root / name))
            fault.change(engine)
            for way in WAYS:
                if way.name in fault.ways:
                    made = engine.generate([case.prompt for case in mine], N_NEW, way)
                    outcomes += [Outcome(c, way.name, tuple(a)) for c, a in zip(mine, made, strict=True)]
            continue
        driver = TransformersEngine(attention="eager", change=fault.change)
        session = driver.open(shape, root / name)
        for way in fault.ways:
            # one by one and all of a length together are the same to the models of transformers
            made = (
                session.generate(way, [case.prompt for case in mine], N_NEW)
                if way != "one by one"
                else _together(session, mine)
            )
            outcomes += [Outcome(c, way, tuple(a)) for c, a in zip(mine, made, strict=True)]
    return outcomes


def _together(session: Any, mine: Sequence[Case]) -> list[list[int]]:
    """Prompts of one length in one batch, with a cache: no padding, and quicker than one by one."""
    answers: dict[str, list[int]] = {}
    for length in {len(case.prompt) for case in mine}:
        block = [case for case in mine if len(case.prompt) == length]
        made = session._left([case.prompt for case in block], N_NEW, len(block))
        answers |= {case.name: answer for case, answer in zip(block, made, strict=True)}
    return [answers[case.name] for case in mine]


def main() -> None:
    torch.set_num_threads(1)
    root = Path(sys.argv[1])
    known, found, table = shapes(root), cases(root), read_signatures(root)
    rows = []
    wanted = sys.argv[3:]
    for fault in CATALOGUE:
        if wanted and not any(word in fault.name for word in wanted):
            continue
        with torch.no_grad():
            outcomes = faulty_outcomes(fault, root, known, found)
        wrong = [outcome for outcome in outcomes if not outcome.is_right]
        suspicions = diagnose(outcomes, known, table)
        kind = suspicions[0].kind if suspicions else "-"
        row = {
            "fault": fault.name,
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
        rows.append(row)
        print(
            f"{fault.name:52} {len(wrong):4} of {len(outcomes):4}  {kind:28} {row['likeness']:5}",
            "" if row["named_rightly"] else f"not {'/'.join(fault.kinds)}",
            flush=True,
        )
    n = len(rows)
    print(
        f"noticed {sum(r['noticed'] for r in rows)} of {n}; named rightly {sum(r['named_rightly'] for r in rows)} of {n}"
    )
    if len(sys.argv) > 2 and sys.argv[2] != "-":
        Path(sys.argv[2]).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
