"""The generated parts of the page on `llama`: what was run where, and sizes, from the records of `benchmarks/llama.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parents[1] / "benchmarks" / "records"
NAMES = {
    "facts.csv": "facts.csv, 1,790 values",
    "stories.jsonl": "200 TinyStories, by characters",
    "random 100000": "random texts, vocabulary 1,000",
}


def write(folder: Path) -> None:
    """Write the parts into `folder`."""
    (folder / "llama-runs.md").write_text(runs(), encoding="utf-8")
    (folder / "llama-sizes.md").write_text(sizes(), encoding="utf-8")
    (folder / "llama-large.md").write_text(large(), encoding="utf-8")


def records(name: str) -> list[dict[str, Any]]:
    """The lines of one record."""
    text = (RECORDS / f"llama_{name}_two_cores.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def runs() -> str:
    """Every value of facts.csv, and every story, in other people's programs."""
    lines = ["| what | where | how | right |", "| --- " * 4 + "|"]
    for row in records("transformers"):
        if "asked" in row:
            how = ["alone" if row["batch"] == 1 else f"left-padded batches of {row['batch']}"]
            how.append(
                "sampled at temperature 1"
                if row.get("do_sample")
                else f"with{'' if row['use_cache'] else 'out'} cache"
            )
            lines.append(_run("facts.csv", f"transformers, {row['attention']}", ", ".join(how), row))
    for row in records("llamacpp"):
        if "asked" in row:
            lines.append(_run("facts.csv", "llama.cpp", "alone, from bare text, default settings", row))
    for row in records("stories"):
        if "asked" in row:
            lines.append(
                _run("200 stories", row["program"], "to the end, from shortest distinguishing openings", row)
            )
    return "\n".join(lines) + "\n"


def _run(what: str, where: str, how: str, row: dict[str, Any]) -> str:
    return f"| {what} | {where} | {how} | {row['right']:,} of {row['asked']:,} |"


def sizes() -> str:
    """Sizes of `llama` and of `retrieval` beside the entropy of the text, all with 16 reject bits."""
    lines = [
        (
            "| data | entropy, bits | method | parameters | without embedding | bits per parameter "
            "| weights, bytes | other files, bytes |"
        ),
        "| --- " * 8 + "|",
    ]
    lines += [
        f"| {NAMES[row['data']]} | {row['text_bits']:,} | `{row['method']}`, {row['precision']} | {row['parameters']:,} "
        f"| {row['without_embedding']:,} | {row['weight_bits'] / row['parameters']:.2f} | {row['weights_bytes']:,} "
        f"| {row['other_bytes']:,} |"
        for row in records("sizes")
    ]
    return "\n".join(lines) + "\n"


def _time(row: dict[str, Any], part: str) -> str:
    """Seconds by the clock, and of the one core that was used, where both were taken."""
    clock, core = row[f"{part}_seconds"], row.get(f"{part}_cpu_seconds")
    return f"{clock:,} s" if core is None else f"{clock:,} s (core: {core:,} s)"


def large() -> str:
    """Random contexts: built, and every one checked by transformers."""
    lines = [
        (
            "| contexts | of | parameters | without embedding | layers, hidden, inner | label bits per parameter | MB "
            "| compile | verify | right |"
        ),
        "| --- " * 10 + "|",
    ]
    found = records("random")
    for built, checked in zip(found[::2], found[1::2], strict=True):
        shape = f"{built['layers']}, {built['hidden']}, {built['inner']}"
        lines.append(
            f"| {built['contexts']:,} | {built['kind']} | {built['parameters']:,} | {built['without_embedding']:,} | {shape} "
            f"| {built['label_bits_per_parameter']:.2f} | {built['megabytes']} | {_time(built, 'compile')} "
            f"| {_time(checked, 'verify')} | {checked['checked'] - checked['wrong']:,} of {checked['checked']:,} |"
        )
    return "\n".join(lines) + "\n"
