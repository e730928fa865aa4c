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
    text = (RECORDS / f"llama_{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def on_device() -> list[dict[str, Any]]:
    """What was run on the machine with the GPU; pieces of one job are put together, and must all be there."""
    jobs: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in records("on_device_h200"):
        if "lane" in row:
            key = tuple(row.get(name) for name in ("lane", "what", "attention", "use_cache", "tf32"))
            jobs.setdefault(key, []).append(row)
    for rows in jobs.values():
        assert len(rows) == rows[0].get("parts", 1), rows[0]["what"]
    return [
        {
            **rows[0],
            **{name: sum(row[name] for row in rows) for name in ("right", "asked") if name in rows[0]},
        }
        for rows in jobs.values()
    ]


def runs() -> str:
    """Every value of facts.csv, and every story, in transformers and llama.cpp."""
    lines = ["| what | where | how | right |", "| --- " * 4 + "|"]
    version = ""
    for row in records("transformers_two_cores"):
        version = row.get("transformers", version)
        if "asked" in row:
            how = ["alone" if row["batch"] == 1 else f"left-padded batches of {row['batch']}"]
            how.append("sampled at temperature 1" if row.get("do_sample") else _cache(row))
            lines.append(
                _run("facts.csv", f"transformers {version}, {row['attention']}", ", ".join(how), row)
            )
    for row in records("llamacpp_two_cores"):
        if "asked" in row:
            lines.append(_run("facts.csv", "llama.cpp", "alone, from bare text, default settings", row))
    here = f"transformers {records('on_device_h200')[0]['transformers']}"
    to_end = "to the end, from shortest distinguishing openings"
    for row in on_device():
        attention, what = row.get("attention"), row["what"]
        if what == "facts.csv alone in transformers":
            lines.append(_run("facts.csv", f"{here}, {attention}", f"alone, {_cache(row)}", row))
        elif what == "facts.csv in transformers":
            how = f"left-padded batches of {row['batch']}"
            lines.append(_run("facts.csv", f"{here}, {attention}, on an H200", how, row))
        elif what == "facts.csv in torch":
            how = f"plain torch, TF32 {'allowed' if row['tf32'] else 'not allowed'}"
            lines.append(_run("facts.csv", "an H200", how, row))
        elif what == "stories in transformers":
            lines.append(_run("200 stories", f"{here}, on an H200", f"one left-padded batch, {to_end}", row))
        elif what == "stories in llama.cpp":
            lines.append(_run("200 stories", "llama.cpp", to_end, row))
    return "\n".join(lines) + "\n"


def _cache(row: dict[str, Any]) -> str:
    return "with cache" if row["use_cache"] else "without cache"


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
        for row in records("sizes_two_cores")
    ]
    return "\n".join(lines) + "\n"


def large() -> str:
    """Random contexts: built on a CPU, and every one checked by transformers, there or on the machine with the GPU."""
    lines = [
        (
            "| contexts | of | parameters | without embedding | layers, hidden, inner | label bits per parameter | MB "
            "| compile, one core | verify | right |"
        ),
        "| --- " * 10 + "|",
    ]
    for built, checks in _built():
        shape = f"{built['layers']}, {built['hidden']}, {built['inner']}"
        times = "; ".join(f"{row['verify_seconds']:,.0f} s {where}" for where, row in checks)
        right = {(row["checked"] - row["wrong"], row["checked"]) for _, row in checks}
        lines.append(
            f"| {built['contexts']:,} | {built['kind']} | {built['parameters']:,} | {built['without_embedding']:,} | {shape} "
            f"| {built['label_bits_per_parameter']:.2f} | {built['megabytes']} | {built['compile_cpu_seconds']:,} s "
            f"| {times} | {', '.join(f'{n:,} of {of:,}' for n, of in sorted(right))} |"
        )
    return "\n".join(lines) + "\n"


def _built() -> list[tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]]:
    """Each network with its checks, and where they ran."""
    places = {"two": "on two cores", "gpu": "on an H200"}
    found: list[tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]] = []
    for row in records("random_two_cores"):
        if "contexts" in row:
            found.append((row, []))
        else:
            busy = {**row, "verify_seconds": row["verify_cpu_seconds"]}
            found[-1][1].append(("of one core", busy))
    for row in on_device():
        if "checked" in row:
            built = next(checks for network, checks in found if network["contexts"] == row["checked"])
            built.append((places[row["lane"]], row))
    return found
