"""Specifications of `byheart measure` with odd values, and spoilt files of texts to train on."""

from __future__ import annotations

import json
import tomllib
from contextlib import chdir
from pathlib import Path
from random import Random
from typing import Any

from tests.attacks.fuzz.mutation import mutate_bytes, mutate_document
from tests.attacks.fuzz.target import Target, run_command

GRID = """
name = "small"
seeds = 2
[model]
family = "attention-only"
variant = "as-coded"
dim = [3, 4]
head_dim = "=dim"
n_heads = 1
[data]
kind = "associations"
n_vocab = 4
[training]
steps = 2
batch = 8
learning_rate = 1e-3
[pass]
metric = "accuracy"
threshold = 0.99
[search]
axis = "model.n_heads"
low = 0
high = 3
[budget]
max_runs = 9
max_seconds = 5.0
"""
TEXTS = """
[model]
family = "one-layer-decoder"
dim = 3
n_heads = 1
hidden_width = 4
[data]
kind = "sentences"
path = "texts.jsonl"
n_samples = 3
seq_len = 2
[training]
steps = 1
[tuning]
trials = 2
learning_rate = [1e-3, 1e-2]
"""
OTHERS = (
    {"kind": "documents", "path": "texts.jsonl", "n_documents": 2, "n_tokens": 2},
    {"kind": "file", "path": "texts.jsonl", "n_samples": 2},
    {"kind": "prepared", "path": "texts.jsonl", "collection": "imdb", "n_samples": 2},
    {"kind": "facts", "n_samples": 2, "n_vocab": 4, "n_classes": 2},
    {"kind": "random-tokens", "n_samples": 3, "n_vocab": 4, "seq_len": 2},
    {"kind": "rademacher-vectors", "n_samples": 3, "seq_len": 2, "dim": 2},
)
LINES = [
    {"text": text, "label": number % 2, "key": text, "value": str(number)}
    for number, text in enumerate(("the cat sat", "a dog ran", "one two three", "x y z"))
]
FEW_STEPS = 5  # with more, a run may take longer than a case is given


class Specifications(Target):
    """Specifications with odd values and spoilt texts: what they cost, and now and then the runs themselves."""

    name, share = "specifications", 8

    def prepare(self, folder: Path) -> None:
        self.seeds = [GRID, TEXTS]
        self.tables = [tomllib.loads(text) for text in self.seeds]
        self.tables += [self.tables[0] | {"data": data} for data in OTHERS]
        self.lines = "\n".join(map(json.dumps, LINES)).encode()
        (folder / "texts.jsonl").write_bytes(self.lines)
        for number, table in enumerate(self.tables):
            (folder / f"{number}.toml").write_text(_toml(table))
            with chdir(folder):
                run_command("measure", f"{number}.toml", "--dry-run", "--device", "cpu")

    def attack(self, random: Random, folder: Path) -> str:
        lines, is_few = self.lines, True
        if random.random() < 0.2:
            lines = b"\n".join(mutate_document(line, random) for line in LINES)
            text = _toml(random.choice(self.tables)).encode()
        elif random.random() < 0.2:
            text = mutate_bytes(random.choice(self.seeds).encode(), random)
            is_few = b"steps = 1\n" in text or b"steps = 2\n" in text
        else:
            table = json.loads(
                mutate_document(random.choice(self.tables), random).removeprefix(b"[" * 100_000)
            )
            text = _toml(table).encode("utf-8", "surrogatepass")
            is_few = _has_few_steps(table) and not _has_large_models(table)
        (folder / "texts.jsonl").write_bytes(lines)
        (folder / "spec.toml").write_bytes(text)
        trains = is_few and random.random() < 0.2
        with chdir(folder):
            run_command("measure", "spec.toml", "--device", "cpu", *([] if trains else ["--dry-run"]))
        return "trained" if trains else "taken"


def _has_few_steps(table: Any) -> bool:
    training = table.get("training") if isinstance(table, dict) else None
    steps = training.get("steps") if isinstance(training, dict) else None
    return isinstance(steps, int) and steps <= FEW_STEPS


def _has_large_models(value: Any) -> bool:
    """Whether a number in it may be a size that is trained, and that takes what one model of that size takes."""
    if isinstance(value, dict | list):
        return any(map(_has_large_models, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and 4096 < value < 2**31


def _toml(table: Any) -> str:
    """A table as TOML: what is no table comes first."""
    if not isinstance(table, dict):
        return str(table)
    plain = {name: value for name, value in table.items() if not isinstance(value, dict)}
    sections = {name: value for name, value in table.items() if isinstance(value, dict)}
    lines = [f"{_value(name)} = {_value(value)}" for name, value in plain.items()]
    for name, section in sections.items():
        lines += [f"[{_value(name)}]"]
        lines += [f"{_value(field)} = {_value(value)}" for field, value in section.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_value(name)} = {_value(item)}' for name, item in value.items())}}}"
    if value is None:
        return "nan"
    return json.dumps(value)
