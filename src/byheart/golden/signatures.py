"""Compute how an engine with each of the known faults would answer the cases. The answers of a failing engine are compared
with these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from byheart.golden.case import N_NEW, Case
from byheart.golden.engines.engine import LONG_TEXT
from byheart.golden.faults import Fault, faults_of
from byheart.golden.reference import WAYS
from byheart.golden.refusals import REMEDY, corrupt
from byheart.golden.shape import Shape
from byheart.process.progress import Progress, report
from byheart.records.fields import read_json
from byheart.records.reader import read_value

SIGNATURES = "signatures.json"
N_PADDED = 12
"""The maximum number of cases that are run in each way of running an engine, such as with left padding. In the way "one by one",
all cases are run.
"""

Signature = dict[str, dict[str, list[int]]]
"""The wrong answers of one fault: way of running -> case -> wrong answer. Cases whose answers stay right are left out."""


@torch.no_grad()
def signatures_of(
    shape: Shape, weights: dict[str, Tensor], cases: Sequence[Case], progress: Progress | None = None
) -> dict[str, Signature]:
    """Return the wrong answers that each known fault causes, by fault name. Texts of thousands of tokens are left out."""
    short = [case for case in cases if len(case.prompt) <= LONG_TEXT]
    found, faults = {}, faults_of(shape)
    for number, fault in enumerate(faults, start=1):
        found[fault.name] = signature(fault, shape, weights, short)
        report(progress, number, len(faults))
    return found


def signature(fault: Fault, shape: Shape, weights: dict[str, Tensor], cases: Sequence[Case]) -> Signature:
    """Return the wrong answers that one fault causes."""
    engine = fault.engine(shape, weights)
    found: Signature = {}
    for way in WAYS:
        if way.name not in fault.ways:
            continue
        able = [case for case in cases if case.expected(way.name)]
        asked = able if way.name == "one by one" else spread(able, N_PADDED)
        made = engine.generate([case.prompt for case in asked], N_NEW, way) if asked else []
        pairs = zip(asked, made, strict=True)
        wrong = {case.name: answer for case, answer in pairs if tuple(answer) != case.expected(way.name)}
        if wrong:
            found[way.name] = wrong
    return found


def spread(cases: Sequence[Case], count: int) -> list[Case]:
    """Return `count` of the cases, spread evenly over the list, or all cases if there are fewer."""
    if len(cases) <= count:
        return list(cases)
    return [cases[at * len(cases) // count] for at in range(count)]


def with_sensitivity(cases: Sequence[Case], table: dict[str, Signature]) -> list[Case]:
    """Return the cases, each with the kinds of fault that change its answer."""
    return [
        replace(
            case,
            sensitive_to=tuple(
                sorted(
                    {
                        name.partition(":")[0]
                        for name, ways in table.items()
                        if any(case.name in w for w in ways.values())
                    }
                )
            ),
        )
        for case in cases
    ]


def read_signatures(folder: Path) -> dict[str, dict[str, Signature]]:
    """Read the wrong answers of known faults from a folder: checkpoint -> fault -> way of running -> case -> wrong answer."""
    path = folder / SIGNATURES
    kind = dict[str, dict[str, Signature]]
    found: dict[str, dict[str, Signature]] = read_value(
        read_json(path, REMEDY), kind, str(path), "faults", refuse=corrupt
    )
    return found
