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

import torch

sys.path.insert(0, str(Path(__file__).parent))
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


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


if __name__ == "__main__":
    if len(sys.argv) == 3:
        check_folder(*sys.argv[1:])
    else:
        from llama import random_contexts

        random_contexts("20000", DEVICE)
