"""The family of checkpoints, and `make`, which writes them with their cases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from byheart.errors import UsageError, did_you_mean, require_extra
from byheart.files.atomic_folder import replaced_folder
from byheart.golden.cases import CASES, FAMILY, Case
from byheart.golden.checkpoint import GGUF, save_gguf, write_checkpoint
from byheart.golden.exact import draw_exact_weights, find_exact_cases
from byheart.golden.rounding import NumberType
from byheart.golden.selection import LENGTHS, find_cases, find_long_cases
from byheart.golden.shape import Shape
from byheart.golden.signatures import SIGNATURES, Signature, signatures_of, with_sensitivity
from byheart.golden.weights import draw_weights
from byheart.process.progress import Progress, silent

SCHEMA = 1
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
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
    Shape("llama-exact", "llama", 2, 64, 32, 8, 2, 16, dtype="bfloat16", is_exact=True, seed=8),
    Shape(
        "llama-long", "llama", 1, 48, 64, 4, 2, 32, rope_theta=5e5, max_positions=32_768, n_needles=60, seed=7
    ),
)
"""Groups of 2, 6, 4, 3, 1, 2 and 2 query heads a key-value head; the last but one has ids past 65,536, the last long texts."""

COUNTS: dict[NumberType, int] = {"float32": 28, "float16": 10, "bfloat16": 12}


def make(
    folder: str | Path,
    only: Sequence[str] = (),
    *,
    family: Sequence[Shape] = SHAPES,
    counts: dict[NumberType, int] | None = None,
    lengths: Sequence[int] = LENGTHS,
    progress: Progress = silent,
) -> list[Case]:
    """Write the family, or `only` some of it, into a new folder, whole or not at all; returns its cases.

    `counts` are cases for each number type, `lengths` the tokens of the prompts that are searched.
    """
    target = Path(folder)
    names = [shape.name for shape in family]
    for name in only:
        if name not in names:
            raise UsageError(f"there is no checkpoint {name!r}.{did_you_mean(name, names)}", name=name)
    require_extra("gguf", "gguf", "a family of golden checkpoints")
    found: list[Case] = []
    table: dict[str, dict[str, Signature]] = {}
    chosen = [shape for shape in family if not only or shape.name in only]
    with replaced_folder(target, _refuse_existing) as fresh:
        for shape in chosen:
            weights = draw_exact_weights(shape) if shape.is_exact else draw_weights(shape)
            write_checkpoint(shape, weights, fresh / shape.name)
            save_gguf(shape, weights, fresh / shape.name / GGUF)
            if shape.n_needles:
                found += find_long_cases(shape, weights, progress)
                continue
            if shape.is_exact:
                made = find_exact_cases(shape, weights)
            else:
                wanted = dict(COUNTS if counts is None else counts)
                if shape.dtype != "bfloat16":
                    wanted.pop("bfloat16", None)
                made = find_cases(shape, weights, wanted, lengths, progress)
            table[shape.name] = signatures_of(shape, weights, made, progress)
            found += with_sensitivity(made, table[shape.name])
        document = {"schema": SCHEMA, "checkpoints": {shape.name: shape.to_json() for shape in chosen}}
        (fresh / SIGNATURES).write_text(json.dumps(table))
        (fresh / FAMILY).write_text(json.dumps(document, indent=1))
        lines = [json.dumps(case.to_json(), ensure_ascii=False) for case in found]
        (fresh / CASES).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return found


def _refuse_existing(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(
            f"{target} is there already.\n  Name a new folder; nothing was written.", path=str(target)
        )
