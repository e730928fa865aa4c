"""Define the family of golden checkpoints, and write each of them with its cases (prompts and their correct answers)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import torch

from byheart.errors import UsageError, require_extra
from byheart.files.atomic_folder import replaced_folder
from byheart.golden.balance import draw_balance_weights, find_balance_cases
from byheart.golden.case import CASES, FAMILY, Case, cases
from byheart.golden.checkpoint import GGUF, save_gguf, write_checkpoint
from byheart.golden.digests import DIGESTS, file_digests
from byheart.golden.exact import draw_exact_weights, find_exact_cases
from byheart.golden.logit_sums import with_logit_sums
from byheart.golden.making_progress import share_writer, shares_read, step_seconds
from byheart.golden.refusals import require_checkpoints
from byheart.golden.selection import LENGTHS, find_cases, find_long_cases
from byheart.golden.shape import Shape
from byheart.golden.signatures import SIGNATURES, signatures_of, with_sensitivity
from byheart.golden.weights import draw_weights
from byheart.process.progress import PARTS, Progress, Steps, in_stage, silent
from byheart.process.task_runner import Workers
from byheart.records.vocabulary import NumberType

SCHEMA = 2
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LAST_PAIR_STANDS = {
    "rope_type": "llama3",
    "factor": 65_536.0,
    "low_freq_factor": 8.7,
    "high_freq_factor": 9.4,
    "original_max_position_embeddings": 100,
}
"""A RoPE scaling. In a head with 8 rotary pairs and a RoPE base of 2, it divides only the last frequency by the factor and leaves
the other seven unchanged.
"""

LINEAR = {"rope_type": "linear", "factor": 2.0}

SHAPES = (
    Shape("llama", "llama", 3, 48, 80, 4, 2, 16, seed=1),
    Shape(
        "llama-tied",
        "llama",
        2,
        48,
        56,
        6,
        1,
        16,
        rope_scaling=LLAMA3,
        is_tied=True,
        dtype="bfloat16",
        seed=2,
    ),
    Shape("mistral", "mistral", 2, 32, 56, 8, 2, 8, window=11, dtype="bfloat16", seed=3),
    Shape(
        "qwen2",
        "qwen2",
        2,
        48,
        56,
        6,
        2,
        8,
        norm_eps=1e-6,
        rope_theta=1e6,
        is_tied=True,
        dtype="bfloat16",
        seed=4,
    ),
    Shape("qwen3", "qwen3", 2, 32, 56, 4, 4, 16, norm_eps=1e-6, rope_theta=1e6, dtype="bfloat16", seed=5),
    Shape(
        "llama-wide",
        "llama",
        2,
        16,
        32,
        4,
        2,
        8,
        vocab=70_000,
        rope_scaling=LINEAR,
        is_tied=True,
        dtype="bfloat16",
        seed=6,
    ),
    Shape("llama-exact", "llama", 2, 64, 32, 8, 2, 16, vocab=256, dtype="bfloat16", design="exact", seed=8),
    Shape(
        "llama-balance",
        "llama",
        2,
        64,
        32,
        8,
        4,
        16,
        vocab=256,
        norm_eps=2.0**-17,
        rope_theta=2.0,
        rope_scaling=LAST_PAIR_STANDS,
        dtype="bfloat16",
        design="balance",
        seed=9,
    ),
    Shape(
        "llama-long",
        "llama",
        1,
        48,
        64,
        4,
        2,
        32,
        vocab=122,
        rope_theta=5e5,
        max_positions=32_768,
        n_needles=60,
        seed=7,
    ),
)
"""The checkpoints of the family.

In the order of this list, the checkpoints have 2, 6, 4, 3, 1, 2, 4, 2 and 2 query heads per key-value head. `llama-wide` has token
ids above 65,536, and the last checkpoint has long texts.
"""

DRAW = {"generic": draw_weights, "exact": draw_exact_weights, "balance": draw_balance_weights}
COUNTS: dict[NumberType, int] = {"float32": 28, "float16": 10, "bfloat16": 32}
PART = "part.json"
"""The file in which a process stores the cases of a checkpoint and its signatures (the wrong answers that known faults give)."""

SHARES = "shares"
"""The file in which processes store how much of each checkpoint is done."""


@dataclass(frozen=True)
class Task:
    """The task of making one checkpoint in `folder`. `counts` and `lengths` are those of `make`.

    `number` is the index of the checkpoint in the file `SHARES`.
    """

    number: int
    shape: Shape
    folder: Path
    counts: dict[NumberType, int]
    lengths: tuple[int, ...]


def make(
    folder: str | Path,
    only: Iterable[str] = (),
    *,
    family: Sequence[Shape] = SHAPES,
    counts: dict[NumberType, int] | None = None,
    lengths: Sequence[int] = LENGTHS,
    n_processes: int = 1,
    progress: Progress = silent,
) -> list[Case]:
    """Write the family of golden checkpoints, or only those named in `only`, to a new folder, atomically. Return the cases.

    `counts` holds the number of cases per checkpoint for each number type. These cases are chosen from prompts of the given
    `lengths` (in tokens). More cases are added so that, as far as possible, every token id of a small vocabulary matters. The
    checkpoints of the designs "exact" and "balance" have their own prompts, to which `counts` and `lengths` do not apply.
    Checkpoints are made in parallel in `n_processes` processes.
    """
    target = Path(folder)
    names = [shape.name for shape in family]
    wanted = require_checkpoints(only, names, "the family")
    require_extra("gguf", "gguf", "a family of golden checkpoints")
    chosen = [shape for shape in family if not wanted or shape.name in wanted]
    seconds = {shape.name: sum(step_seconds(shape).values()) for shape in chosen}
    # the longest first, so that no process works alone for long at the end
    order = sorted(chosen, key=lambda shape: -seconds[shape.name])
    with replaced_folder(target, _refuse_existing) as fresh:
        tasks = [
            Task(number, shape, fresh, dict(COUNTS if counts is None else counts), tuple(lengths))
            for number, shape in enumerate(order)
        ]
        tell = in_stage(progress, "checkpoints")
        with shares_read(fresh / SHARES, [seconds[shape.name] for shape in order], n_processes, tell):
            Workers(n_processes).run(make_checkpoint, tasks)
        parts = [json.loads((fresh / shape.name / PART).read_text()) for shape in chosen]
        lines = [line for part in parts for line in part["cases"]]
        table = {shape.name: part["signatures"] for shape, part in zip(chosen, parts, strict=True)}
        (fresh / SIGNATURES).write_text(json.dumps(table))
        (fresh / CASES).write_text("\n".join(lines) + "\n", encoding="utf-8")
        for shape in chosen:
            (fresh / shape.name / PART).unlink()
        document = {
            "schema": SCHEMA,
            "checkpoints": {shape.name: shape.to_json() for shape in chosen},
            DIGESTS: file_digests(fresh, [shape.name for shape in chosen]),
        }
        (fresh / FAMILY).write_text(json.dumps(document, indent=1))
        tell(PARTS, PARTS)
        return cases(fresh)


def make_checkpoint(task: Task) -> None:
    """Write one checkpoint. Write its cases and signatures (the wrong answers that known faults give) to the file `PART` in its
    folder.
    """
    shape, target = task.shape, task.folder / task.shape.name
    if (target / PART).is_file():
        return
    rmtree(target, ignore_errors=True)  # left by a process that was lost
    tell = share_writer(task.folder / SHARES, task.number)
    steps = Steps(tell, step_seconds(shape))
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the models are too small to gain from a second thread
    weights = DRAW[shape.design](shape)
    write_checkpoint(shape, weights, target)
    save_gguf(shape, weights, target / GGUF)
    in_cases = steps.begin("cases")
    if shape.design == "exact":
        found = find_exact_cases(shape, weights, progress=in_cases)
    elif shape.design == "balance":
        found = find_balance_cases(shape, weights, progress=in_cases)
    else:
        wanted = dict(task.counts)
        if shape.dtype != "bfloat16":
            wanted.pop("bfloat16", None)
        found = find_cases(shape, weights, wanted, task.lengths, in_cases)
    if shape.design == "generic":
        found = with_logit_sums(shape, weights, found)
    table = signatures_of(shape, weights, found, steps.begin("signatures"))
    found = with_sensitivity(found, table)
    if shape.n_needles:
        found += find_long_cases(shape, weights, steps.begin("long cases"))
    lines = [json.dumps(case.to_json(), ensure_ascii=False) for case in found]
    (target / PART).write_text(json.dumps({"cases": lines, "signatures": table}))
    tell(1, 1)
    torch.set_num_threads(n_threads)


def _refuse_existing(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(
            f"{target} already exists.\n  Nothing was written. Choose a new folder.", path=str(target)
        )
