"""Compiled Llamas on a machine with a GPU, which may sit beside many CPU cores: the same tokens everywhere, and how long it takes.

    PYTHONPATH=src python benchmarks/llama_on_device.py MODELS [SECONDS]

MODELS holds facts.csv with facts/ and facts.gguf, stories.jsonl with stories/ and stories.gguf (`byheart compile` and `export`),
and facts1e5/ and texts1e6/ (`benchmarks/llama.py random N KIND FOLDER`); what is missing is left out. Three lanes run side by side:

    gpu    transformers and plain torch on the GPU: every value, every story, every context of texts1e6
    two    `verify` of facts1e5 on two cores that nothing else uses
    cpu    every value alone in transformers, every story in llama.cpp, shared out among the other cores, one thread each

Every line printed is one JSON document. Nothing is installed: without transformers or xllamacpp their lines are left out.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import llama as runs
import torch
from llama import machine, report, rows_of

ATTENTIONS = ("sdpa", "eager")
PARTS = 6
"""Pieces that each job of the lane `cpu` is cut into, or four times as many of stories."""


def timed(lane: str, job: Callable[[], dict[str, Any]], **what: Any) -> None:
    """Report what `job` finds, or why it failed, with its seconds."""
    start = time.perf_counter()
    try:
        found = job()
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"[:300]}
    report(lane=lane, **what, **found, seconds=round(time.perf_counter() - start, 1))


def gpu_lane(models: Path) -> None:
    """On the GPU, or on the CPU where there is none."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if (models / "facts").exists():
        timed("gpu", lambda: same_logits(models, device), what="logits of 200 prompts", device=device)
        for attention in ATTENTIONS if find_spec("transformers") else ():
            timed(
                "gpu",
                lambda attention=attention: facts_in_batches(models, attention, device),
                what="facts.csv in transformers",
                attention=attention,
                device=device,
            )
        for tf32 in (False, True):
            timed(
                "gpu",
                lambda tf32=tf32: facts_by_module(models, device, tf32),
                what="facts.csv in torch",
                tf32=tf32,
            )
    if (models / "texts1e6").exists():
        timed(
            "gpu",
            lambda: verified(models / "texts1e6", 10**6, "texts", device),
            what="verify texts1e6",
            device=device,
        )
    if (models / "facts1e5").exists():
        timed(
            "gpu",
            lambda: verified(models / "facts1e5", 10**5, "facts", device),
            what="verify facts1e5",
            device=device,
        )
    if (models / "stories").exists():
        timed(
            "gpu",
            lambda: stories_in_transformers(models, device),
            what="stories in transformers",
            device=device,
        )


def two_lane(models: Path) -> None:
    torch.set_num_threads(2)
    if (models / "facts1e5").exists():
        timed(
            "two",
            lambda: verified(models / "facts1e5", 10**5, "facts", "cpu"),
            what="verify facts1e5",
            cores=2,
        )


def verified(folder: Path, n: int, kind: str, device: str) -> dict[str, Any]:
    """`verify` of every context of random data, in transformers where it is there."""
    import byheart as bh
    from byheart.verify import verify_model

    start = time.perf_counter()
    model, data = bh.load(folder), runs.random_data(n, kind)
    read = round(time.perf_counter() - start, 1)
    cpu = time.process_time()
    found = verify_model(model, data, device=device)
    return {
        "checked": found.checked,
        "wrong": found.wrong,
        "holds": found.holds,
        "backend": found.backend,
        "versions": dict(found.versions),
        "read_seconds": read,
        "verify_seconds": found.seconds,
        "verify_cpu_seconds": round(time.process_time() - cpu, 1),
    }


def same_logits(models: Path, device: str) -> dict[str, Any]:
    """The plain torch module here and on the CPU."""
    from byheart.network.llama.module import LlamaModule

    llama, prompts, _ = facts_prompts(models)
    here, there = LlamaModule(llama).eval(), LlamaModule(llama).to(device).eval()
    different = 0
    with torch.no_grad():
        for prompt in prompts[:200]:
            ids = torch.tensor([prompt])
            different += int((here(ids) != there(ids.to(device)).cpu()).sum())
    return {"different": different, "prompts": min(200, len(prompts))}


def facts_prompts(models: Path) -> tuple[Any, list[list[int]], list[str]]:
    """The network of facts.csv, the ids of its prompts, and the values."""
    import byheart as bh
    from byheart.network.llama.generation import full_prompt

    memoriser = bh.load(models / "facts").memoriser
    assert memoriser.tokenizer is not None
    rows = rows_of(str(models / "facts.csv"))
    llama: Any = memoriser.network
    return (
        llama,
        [full_prompt(llama, memoriser.tokenizer.encode(key)) for key, _ in rows],
        [v for _, v in rows],
    )


def facts_by_module(models: Path, device: str, tf32: bool) -> dict[str, Any]:
    """Every value from its key by plain torch, with TF32 forbidden or allowed."""
    from byheart.network.llama.generation import generate

    llama, prompts, values = facts_prompts(models)
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        answers = generate(llama, prompts, "module", device)
        found = llama.text_tokenizer.decode_all(answers, skip_special=True)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    return {"right": sum(a == b for a, b in zip(found, values, strict=True)), "asked": len(values)}


def facts_in_batches(models: Path, attention: str, device: str, size: int = 256) -> dict[str, Any]:
    """Every value by `generate`, in left-padded batches, with the folder's own tokenizer."""
    rows = sorted(rows_of(str(models / "facts.csv")), key=lambda row: len(row[0]))
    found = runs.answers_in_transformers(
        str(models / "facts"), [key for key, _ in rows], attention, size, device
    )
    return {
        "right": sum(a == b for a, (_, b) in zip(found, rows, strict=True)),
        "asked": len(rows),
        "batch": size,
    }


def stories_in_transformers(models: Path, device: str) -> dict[str, Any]:
    """Every story to its end from its shortest distinguishing opening, all in one left-padded batch."""
    asked = runs.story_openings(str(models / "stories.jsonl"))
    prompts = [text[:n] for n, text in asked]
    found = runs.answers_in_transformers(str(models / "stories"), prompts, "sdpa", len(asked), device)
    right = sum(text[n:] == rest for rest, (n, text) in zip(found, asked, strict=True))
    return {"right": right, "asked": len(asked)}


def cpu_jobs(models: Path) -> Iterable[tuple[str, str, bool, int, int]]:
    """(what, attention, cache, part, parts), the pieces of one job spread over the list."""
    stories = find_spec("xllamacpp") and (models / "stories.gguf").exists()
    for part in range(4 * PARTS if stories else 0):
        yield "stories in llama.cpp", "", True, part, 4 * PARTS
    if find_spec("xllamacpp") and (models / "facts.gguf").exists():
        yield "facts.csv in llama.cpp", "", True, 0, 1
    if find_spec("transformers") and (models / "facts").exists():
        for part in range(PARTS):
            for attention in ATTENTIONS:
                for cache in (True, False):
                    yield "facts.csv alone in transformers", attention, cache, part, PARTS


def run_job(models: Path, job: tuple[str, str, bool, int, int]) -> dict[str, Any]:
    """One piece: every `parts`-th row from `part` on."""
    what, attention, cache, part, parts = job
    if what == "stories in llama.cpp":
        asked = runs.story_openings(str(models / "stories.jsonl"))[part::parts]
        server = runs.llama_cpp(str(models / "stories.gguf"))
        right = sum(runs.complete(server, text[:n], len(text)) == text[n:] for n, text in asked)
        return {"right": right, "asked": len(asked)}
    rows = rows_of(str(models / "facts.csv"))[part::parts]
    if what == "facts.csv in llama.cpp":
        server = runs.llama_cpp(str(models / "facts.gguf"))
        found = [runs.complete(server, key, 80) for key, _ in rows]
    else:
        found = runs.answers_in_transformers(
            str(models / "facts"), [key for key, _ in rows], attention, 1, "cpu", use_cache=cache
        )
    return {"right": sum(a == b for a, (_, b) in zip(found, rows, strict=True)), "asked": len(rows)}


def cpu_lane(models: Path, job: tuple[str, str, bool, int, int]) -> None:
    what, attention, cache, part, parts = job
    settings = {"attention": attention, "use_cache": cache} if attention else {}
    timed("cpu", lambda: run_job(models, job), what=what, **settings, part=part, parts=parts)


def use_cores(cores: set[int]) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def on_cores(cores: set[int], lane: Callable[[Path], None], models: Path) -> None:
    use_cores(cores)
    lane(models)


def main(models: Path, seconds: float) -> None:
    """Start all lanes; what is not done after `seconds` is given up."""
    end = time.monotonic() + seconds
    torch.set_num_threads(1)
    versions = {"torch": torch.__version__}
    if find_spec("transformers"):
        import transformers

        # before the processes part, so that they are imported once
        assert transformers.AutoTokenizer is not None
        assert transformers.LlamaForCausalLM.generate is not None
        versions["transformers"] = transformers.__version__
    report(**machine(**versions))
    cores = (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )
    two, host, others = set(cores[:2]), set(cores[2:3]) or set(cores), set(cores[3:]) or set(cores)
    context = multiprocessing.get_context("fork")
    lanes = [
        context.Process(target=on_cores, args=(own, lane, models), daemon=True)
        for own, lane in ((host, gpu_lane), (two, two_lane))
    ]
    for process in lanes:
        process.start()
    with context.Pool(len(others), use_cores, (others,), maxtasksperchild=1) as pool:
        waiting = [pool.apply_async(cpu_lane, (models, job)) for job in cpu_jobs(models)]
        for result in waiting:
            result.wait(max(0.0, end - time.monotonic()))
        for process in lanes:
            process.join(max(0.0, end - time.monotonic()))
    unfinished = [not result.ready() for result in waiting] + [process.is_alive() for process in lanes]
    report(unfinished=sum(unfinished), seconds=round(seconds - (end - time.monotonic()), 1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 600.0)
