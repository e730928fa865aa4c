"""Flips single bits of non-zero weights, one at a time, and says which no case notices.

python -m tests.golden.bits FAMILY COUNT FILE [--workers N] NAME...
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from byheart.golden.case import N_NEW, Case, cases, shapes
from byheart.golden.checkpoint import read_weights
from byheart.golden.logit_sums import wrong_sums
from byheart.golden.reference import ReferenceEngine

Group = tuple[Tensor, Tensor, list[Case]]
"""The texts of cases of one length without their last token, their answers, and the cases."""


def groups(found: list[Case]) -> list[Group]:
    made: list[Group] = []
    for length in sorted({len(case.prompt) for case in found}):
        mine = [case for case in found if len(case.prompt) == length]
        rows = torch.tensor([[*case.prompt, *case.answer] for case in mine])
        made.append((rows[:, :-1], rows[:, -N_NEW:], mine))
    return made


@torch.no_grad()
def is_noticed(engine: ReferenceEngine, texts: list[Group]) -> bool:
    """Whether an answer, an exact logit or a sum of logits is another."""
    for ids, answer, mine in texts:
        logits = engine.forward(
            ids, torch.ones_like(ids, dtype=torch.bool), engine.empty_cache(len(ids)), n_last=N_NEW
        )
        if not torch.equal(logits.argmax(-1), answer) or not bool(logits.isfinite().all()):
            return True
        for case, row in zip(mine, logits[:, 0], strict=True):
            if case.logits and row.float().tolist() != list(case.logits):
                return True
            if case.sums and wrong_sums(case, row.tolist()):
                return True
    return False


def flip(value: Tensor, at: int, bit: int) -> Tensor:
    """The tensor with one bit of one entry changed."""
    integers, n_bits = (torch.int32, 32) if value.dtype == torch.float32 else (torch.int16, 16)
    flat = value.clone().flatten()
    flat.view(integers)[at] ^= -(2 ** (n_bits - 1)) if bit == n_bits - 1 else 1 << bit
    return flat.view_as(value)


def part_of(dtype: str, bit: int) -> str:
    """Where in the number a bit stands. The first seven bits of a mantissa are those that bfloat16 has."""
    n_bits, n_mantissa = (32, 23) if dtype == "float32" else (16, 7)
    if bit == n_bits - 1:
        return "sign"
    if bit >= n_mantissa:
        return "exponent"
    return "mantissa, first 7 bits" if bit >= n_mantissa - 7 else "mantissa, other bits"


def flips(weights: dict[str, Tensor], count: int, seed: int) -> list[tuple[str, int, int]]:
    """Tensor, entry and bit: every non-zero weight is as likely as any other."""
    rng = np.random.default_rng(seed)
    names = sorted(weights)
    places = {name: np.flatnonzero(weights[name].float().numpy()) for name in names}
    sizes = np.array([len(places[name]) for name in names])
    chosen = []
    for _ in range(count):
        name = names[rng.choice(len(names), p=sizes / sizes.sum())]
        n_bits = 32 if weights[name].dtype == torch.float32 else 16
        chosen.append((name, int(rng.choice(places[name])), int(rng.integers(n_bits))))
    return chosen


def work(task: tuple[str, str, int, int, int]) -> tuple[str, list[tuple[str, int, int, bool]]]:
    """Every `step`-th flip of one checkpoint, from `first` on."""
    root, name, count, first, step = Path(task[0]), *task[1:]
    torch.set_num_threads(1)
    shape, weights = shapes(root)[name], read_weights(root / name)
    mine = [case for case in cases(root) if case.checkpoint == name]
    # sums of logits first, then short texts: most flips are noticed there
    texts = groups([case for case in mine if case.sums]) + groups([case for case in mine if not case.sums])
    engine = ReferenceEngine(shape, weights)
    assert not is_noticed(engine, texts), "the reference itself must be right"
    made = []
    for tensor, at, bit in flips(weights, count, seed=shape.seed)[first::step]:
        kept = engine.weights[tensor]
        engine.weights[tensor] = flip(weights[tensor], at, bit).double()
        made.append((tensor, at, bit, is_noticed(engine, texts)))
        engine.weights[tensor] = kept
    return name, made


def summary(name: str, dtype: str, made: list[tuple[str, int, int, bool]]) -> dict[str, Any]:
    """How many of each tensor and each part of a number were flipped, and how many noticed."""
    by_part, by_tensor, missed = {}, {}, Counter[str]()
    for tensor, _, bit, noticed in made:
        part, short = part_of(dtype, bit), tensor.removeprefix("model.").removesuffix(".weight")
        for table, key in ((by_part, part), (by_tensor, short)):
            row = table.setdefault(key, [0, 0])
            row[0] += noticed
            row[1] += 1
        if not noticed:
            missed[f"{part} of {tensor.split('.')[-2]}"] += 1
    return {
        "checkpoint": name,
        "flipped": len(made),
        "noticed": sum(row[3] for row in made),
        "by_part": {key: f"{a} of {b}" for key, (a, b) in sorted(by_part.items())},
        "by_tensor": {key: f"{a} of {b}" for key, (a, b) in sorted(by_tensor.items())},
        "missed": dict(missed.most_common()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_intermixed_args()
    known = shapes(given.family)
    names = given.names or list(known)
    n_parts = max(1, 2 * given.workers)
    tasks = [
        (str(given.family), name, given.count, part, n_parts) for name in names for part in range(n_parts)
    ]
    results: dict[str, list[tuple[str, int, int, bool]]] = {name: [] for name in names}
    started, rows = time.monotonic(), []
    with multiprocessing.get_context("spawn").Pool(given.workers) as pool:
        for name, made in pool.imap_unordered(work, tasks):
            results[name] += made
            if len(results[name]) == given.count:
                rows.append(summary(name, known[name].dtype, results[name]))
                print(json.dumps(rows[-1]), f"{time.monotonic() - started:.0f} s", flush=True)
                given.file.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
