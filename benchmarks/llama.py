"""What a compiled Llama does in other people's programs, and how large it is.

    python benchmarks/llama.py transformers DIR facts.csv    # generate every value: eager and sdpa, cache or not, sampled
    python benchmarks/llama.py llamacpp FILE.gguf facts.csv  # the same in llama.cpp, from text, default settings
    python benchmarks/llama.py unknown DIR facts.csv         # prompts that are no keys, near and far: how many are answered
    python benchmarks/llama.py lens DIR                      # TransformerLens against transformers
    python benchmarks/llama.py random 100000                 # compile random contexts, check all of them; size and time

The first two import nothing of byheart. Every line printed is one JSON document.
"""

from __future__ import annotations

import csv
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

BATCH = 64


def rows_of(path: str) -> list[tuple[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return [(row["key"], row["value"]) for row in csv.DictReader(file)]


def report(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def in_transformers(folder: str, data: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    rows = sorted(rows_of(data), key=lambda row: len(row[0]))
    some = random.Random(0).sample(rows, min(200, len(rows)))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for attention in ("sdpa", "eager"):
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attention)
        for name, chosen, size, options in (
            ("batches of 64", rows, BATCH, {}),
            ("alone", rows, 1, {}),
            ("temperature 1", some, BATCH, {"do_sample": True, "temperature": 1.0, "top_k": 0}),
            ("without cache", rows, BATCH, {"use_cache": False}),
        ):
            start, right = time.perf_counter(), 0
            for i in range(0, len(chosen), size):
                batch = chosen[i : i + size]
                prompt = tokenizer([key for key, _ in batch], return_tensors="pt", padding=True)
                with torch.no_grad():
                    out = model.generate(**prompt, **options)[:, prompt.input_ids.shape[1] :]
                found = tokenizer.batch_decode(out, skip_special_tokens=True)
                right += sum(text == value for text, (_, value) in zip(found, batch, strict=True))
            seconds = round(time.perf_counter() - start, 1)
            report(attention=attention, how=name, right=right, asked=len(chosen), seconds=seconds)


def in_llama_cpp(path: str, data: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_parallel = 1
    params.verbosity = -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = (
        1  # the matrices are tiny: threads would only wait
    )
    server = xllamacpp.Server(params)
    rows, start, right = rows_of(data), time.perf_counter(), 0
    for key, value in rows:
        answer = server.handle_completions({"prompt": key, "max_tokens": 80, "temperature": 0})
        right += answer.get("choices", [{}])[0].get("text") == value
    report(program="llama.cpp", right=right, asked=len(rows), seconds=round(time.perf_counter() - start, 1))


def near_misses(keys: list[str], n: int, seed: int = 0) -> dict[str, list[str]]:
    """Prompts that are no keys: one step away, and of random letters."""
    rng = random.Random(seed)
    letters, known = sorted(set("".join(keys))), set(keys)
    found: dict[str, list[str]] = {
        name: [] for name in ("swapped", "deleted", "replaced", "inserted", "prefixed", "random")
    }
    while min(map(len, found.values())) < n:
        key, other = rng.choice(keys), rng.choice(letters)
        at = rng.randrange(len(key) - 1)
        made = {
            "swapped": key[:at] + key[at + 1] + key[at] + key[at + 2 :],
            "deleted": key[:at] + key[at + 1 :],
            "replaced": key[:at] + other + key[at + 1 :],
            "inserted": key[:at] + other + key[at:],
            "prefixed": rng.choice(keys)[:at] + key,
            "random": "".join(rng.choices(letters, k=len(key))),
        }
        for name, text in made.items():
            if text and text not in known and len(found[name]) < n:
                found[name].append(text)
    return found


def unknown(folder: str, data: str, n: int = 5000) -> None:
    """Asked of the exact evaluator, whose answers are those of float32 where nothing rounds; `rounds` says whether it did not."""
    import numpy as np

    from byheart.network.llama.architecture import Llama
    from byheart.network.llama.evaluator import evaluate
    from byheart.network.llama.generation import full_prompt
    from byheart.pipeline import load

    model = load(folder)
    llama, tokenizer = model.network, model.memory.tokenizer
    assert isinstance(llama, Llama)
    assert tokenizer is not None
    for name, prompts in near_misses([key for key, _ in rows_of(data)], n).items():
        texts = [np.array(full_prompt(llama, tokenizer.encode(prompt))) for prompt in prompts]
        texts = [text for text in texts if len(text) < llama.spec.max_positions]
        offsets = np.cumsum([0, *map(len, texts)])
        asked = np.zeros(int(offsets[-1]), dtype=bool)
        asked[offsets[1:] - 1] = True
        found = evaluate(llama, np.concatenate(texts), offsets, asked)
        answered = int((found.tokens != llama.spec.eos).sum())
        report(prompts=name, asked=len(texts), answered=answered, rounds=found.conditions.problems)


def lens(folder: str) -> None:
    from byheart.export.transformer_lens import count_different_logits
    from byheart.network.llama.architecture import Llama
    from byheart.pipeline import load

    llama = load(folder).network
    assert isinstance(llama, Llama)
    report(
        program="TransformerLens", prompts=100, different_logits=count_different_logits(Path(folder), llama)
    )


def random_contexts(n: str, check: str = "torch") -> None:
    """n windows of 8 tokens of 1,000, each with a random token that follows, at 16 reject bits."""
    import numpy as np
    import torch

    from byheart.construct.llama.compiler import TokenTexts, compile_texts
    from byheart.network.llama.module import LlamaModule

    rng = np.random.default_rng(0)
    windows = np.unique(rng.integers(2, 1000, (int(float(n)), 8)), axis=0)
    labels = rng.integers(2, 1000, len(windows))
    ids = np.hstack([np.zeros((len(windows), 1), dtype=np.int64), windows])
    asked = np.tile(np.arange(9) == 8, len(windows))
    texts = TokenTexts(ids.ravel(), np.arange(len(windows) + 1) * 9, asked, labels, 1000, 0, 1)
    start = time.perf_counter()
    compiled = compile_texts(texts, window=9, max_positions=64)
    seconds = round(time.perf_counter() - start, 1)
    spec = compiled.llama.spec
    bits = float(len(windows) * np.log2(998))
    report(
        contexts=len(windows),
        parameters=spec.parameters_dense,
        without_embedding=spec.parameters_without_embedding,
        layers=spec.n_layers,
        hidden=spec.hidden,
        inner=spec.inner,
        label_bits_per_parameter=round(bits / spec.parameters_dense, 3),
        megabytes=round(4e-6 * spec.parameters_dense, 1),
        compile_seconds=seconds,
    )
    start, wrong = time.perf_counter(), 0
    device = "cuda" if check == "cuda" else "cpu"
    module = LlamaModule(compiled.llama).to(device).eval()
    for i in range(0, len(ids), 4096):
        batch = torch.from_numpy(ids[i : i + 4096]).to(device)
        with torch.no_grad():
            found = (
                module(batch, last=torch.full((len(batch),), 8, device=device))[:, 0].argmax(-1).cpu().numpy()
            )
        wrong += int((found != labels[i : i + 4096]).sum())
    report(checked=len(ids), wrong=wrong, device=device, seconds=round(time.perf_counter() - start, 1))


COMMANDS = {
    "transformers": in_transformers,
    "llamacpp": in_llama_cpp,
    "unknown": unknown,
    "lens": lens,
    "random": random_contexts,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
