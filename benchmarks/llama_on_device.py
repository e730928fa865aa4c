"""A compiled Llama on a GPU, in plain torch: the same tokens and the same logits as on the CPU, and what TF32 does to them.

    PYTHONPATH=src python benchmarks/llama_on_device.py [FOLDER facts.csv]

Without arguments 20,000 random contexts are compiled and checked. With a model folder every value is generated from its key alone.
Needs torch and numpy (and numba to compile); transformers is not needed.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def report(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def check_folder(folder: str, data: str) -> None:
    from byheart.network.llama.architecture import Llama
    from byheart.network.llama.generation import full_prompt, generate
    from byheart.network.llama.module import LlamaModule
    from byheart.storage.folder import load_folder

    memory, _, _ = load_folder(folder)
    llama, tokenizer = memory.network, memory.tokenizer
    assert isinstance(llama, Llama)
    assert tokenizer is not None
    with Path(data).open(encoding="utf-8", newline="") as file:
        rows = [(row["key"], row["value"]) for row in csv.DictReader(file)]
    words = json.loads(llama.tokenizer_json)["model"]["vocab"]
    text_of = {i: word for word, i in words.items()}
    prompts = [full_prompt(llama, tokenizer.encode(key)) for key, _ in rows]
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        start = time.perf_counter()
        answers = generate(llama, prompts, "module", DEVICE)
        right = sum(
            "".join(text_of[i] for i in found) == value
            for found, (_, value) in zip(answers, rows, strict=True)
        )
        seconds = round(time.perf_counter() - start, 1)
        print(
            json.dumps(
                {"device": DEVICE, "tf32": tf32, "right": right, "asked": len(rows), "seconds": seconds}
            )
        )
    torch.backends.cuda.matmul.allow_tf32 = False
    here, there = LlamaModule(llama).eval(), LlamaModule(llama).to(DEVICE).eval()
    different = 0
    with torch.no_grad():
        for prompt in prompts[:200]:
            ids = torch.tensor([prompt])
            different += int((here(ids) != there(ids.to(DEVICE)).cpu()).sum())
    print(json.dumps({"logits that differ from the CPU": different, "prompts": min(200, len(prompts))}))


def random_contexts(n: int) -> None:
    """n windows of 8 tokens of 1,000, each with a random token that follows, at 16 reject bits."""
    import numpy as np

    from byheart.construct.llama.compiler import TokenTexts, compile_texts
    from byheart.network.llama.module import LlamaModule

    rng = np.random.default_rng(0)
    windows = np.unique(rng.integers(2, 1000, (n, 8)), axis=0)
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
    module = LlamaModule(compiled.llama).to(DEVICE).eval()
    for i in range(0, len(ids), 4096):
        batch = torch.from_numpy(ids[i : i + 4096]).to(DEVICE)
        with torch.no_grad():
            found = (
                module(batch, last=torch.full((len(batch),), 8, device=DEVICE))[:, 0].argmax(-1).cpu().numpy()
            )
        wrong += int((found != labels[i : i + 4096]).sum())
    report(checked=len(ids), wrong=wrong, device=DEVICE, seconds=round(time.perf_counter() - start, 1))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        check_folder(*sys.argv[1:])
    else:
        random_contexts(20_000)
