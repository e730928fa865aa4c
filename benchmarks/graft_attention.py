"""A graft asked by every kernel of attention: eager, and those of sdpa one by one, whole, in chunks and in left-padded batches.

    python benchmarks/graft_attention.py GRAFT QUESTIONS.json [--asked 500] [--out FILE]

GRAFT is a folder as `graft_on_device.py` writes it, QUESTIONS the file beside it. Prompts are brought in whole, in
chunks of seven tokens with the cache, and in batches padded on the left; then the answer is decoded greedily. A kernel that the
device does not have, or that takes no mask, says so. Every line printed is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from graft_editing import report
from torch.nn.attention import SDPBackend, sdpa_kernel

CHUNK = 7
KERNELS: dict[str, Any] = {
    "eager": None,
    "sdpa, math": SDPBackend.MATH,
    "sdpa, flash": SDPBackend.FLASH_ATTENTION,
    "sdpa, efficient": SDPBackend.EFFICIENT_ATTENTION,
    "sdpa, cudnn": SDPBackend.CUDNN_ATTENTION,
}


@torch.no_grad()
def right_in_chunks(model: Any, tokens: torch.Tensor, answers: list[list[int]], chunk: int) -> int:
    """Prompts of one length brought in `chunk` tokens at a time, then decoded one token at a time."""
    cache, said = None, []
    for part in tokens.split(chunk, dim=1):
        out = model(part, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
    for _ in range(max(map(len, answers))):
        said.append(out.logits[:, -1:].argmax(-1))
        out = model(said[-1], past_key_values=cache, use_cache=True)
    spoken = torch.cat(said, 1).tolist()
    return sum(row[: len(answer)] == answer for row, answer in zip(spoken, answers, strict=True))


@torch.no_grad()
def right_padded(model: Any, prompts: list[list[int]], answers: list[list[int]]) -> int:
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts], device=model.device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    spoken = model.generate(
        ids,
        attention_mask=mask,
        max_new_tokens=max(map(len, answers)),
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
    )[:, longest:].tolist()
    return sum(row[: len(answer)] == answer for row, answer in zip(spoken, answers, strict=True))


def main() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    parser = argparse.ArgumentParser()
    parser.add_argument("graft", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--asked", type=int, default=500, help="of each group of questions")
    parser.add_argument("--least", type=int, default=20, help="leave out lengths with fewer prompts")
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(options.graft)
    groups: dict[str, list[tuple[list[int], list[int]]]] = defaultdict(list)
    for question in json.loads(options.questions.read_text(encoding="utf-8")):
        if len(groups[question["group"]]) < options.asked:
            prompt = tokenizer(question["prompt"], add_special_tokens=False).input_ids
            groups[question["group"]].append((prompt, question["answer"]))
    by_length: dict[int, list[tuple[list[int], list[int]]]] = defaultdict(list)
    for prompt, answer in (pair for group in groups.values() for pair in group):
        by_length[len(prompt)].append((prompt, answer))
    by_length = {length: same for length, same in by_length.items() if len(same) >= options.least}
    pairs = [pair for same in by_length.values() for pair in same]
    for dtype in options.dtypes:
        model = (
            AutoModelForCausalLM.from_pretrained(options.graft, dtype=getattr(torch, dtype)).to(device).eval()
        )
        for name, backend in KERNELS.items():
            model.set_attn_implementation("eager" if backend is None else "sdpa")
            for way in ("whole", "in chunks", "padded left"):
                start, right = time.perf_counter(), 0
                kernel: AbstractContextManager[Any] = (
                    nullcontext() if backend is None else sdpa_kernel(backend)
                )
                try:
                    with kernel:
                        if way == "padded left":
                            for first in range(0, len(pairs), 250):
                                prompts, answers = zip(*pairs[first : first + 250], strict=True)
                                right += right_padded(model, list(prompts), list(answers))
                        else:
                            for length, same in by_length.items():
                                prompts, answers = zip(*same, strict=True)
                                tokens = torch.tensor(prompts, device=device)
                                chunk = length if way == "whole" else CHUNK
                                right += right_in_chunks(model, tokens, list(answers), chunk)
                except RuntimeError as error:
                    report(
                        options.out,
                        kernel=name,
                        dtype=dtype,
                        way=way,
                        refused=str(error).splitlines()[0][:160],
                    )
                    continue
                seconds = round(time.perf_counter() - start, 1)
                report(
                    options.out,
                    kernel=name,
                    dtype=dtype,
                    way=way,
                    right=right,
                    asked=len(pairs),
                    seconds=seconds,
                )
        del model


if __name__ == "__main__":
    main()
