"""Ask a grafted checkpoint with transformers alone: byheart is not imported.

    python benchmarks/graft_ask.py FOLDER QUESTIONS.json [--dtype bfloat16] [--batch 500]

QUESTIONS is a list of {"group": ..., "prompt": ..., "answer": [tokens]}; one JSON document per group says how many were right.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch", type=int, default=500)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(options.folder, padding_side="left")
    model = (
        AutoModelForCausalLM.from_pretrained(options.folder, dtype=getattr(torch, options.dtype))
        .to(device)
        .eval()
    )
    groups = defaultdict(list)
    for question in json.loads(options.questions.read_text(encoding="utf-8")):
        groups[question["group"]].append(question)
    for group, questions in groups.items():
        start, right, wrong = time.perf_counter(), 0, []
        for first in range(0, len(questions), options.batch):
            batch = questions[first : first + options.batch]
            given = tokenizer(
                [question["prompt"] for question in batch],
                return_tensors="pt",
                padding=True,
                add_special_tokens=False,
            ).to(device)
            longest = max(len(question["answer"]) for question in batch)
            spoken = model.generate(
                **given, max_new_tokens=longest, do_sample=False, pad_token_id=0, eos_token_id=None
            )
            for row, question in zip(spoken[:, given.input_ids.shape[1] :].tolist(), batch, strict=True):
                is_right = row[: len(question["answer"])] == question["answer"]
                right += is_right
                if not is_right and len(wrong) < 5:
                    wrong.append({"prompt": question["prompt"][-60:], "said": tokenizer.decode(row)[:60]})
        print(
            json.dumps(
                {
                    "folder": options.folder.name,
                    "dtype": options.dtype,
                    "group": group,
                    "right": right,
                    "asked": len(questions),
                    "wrong": wrong,
                    "seconds": round(time.perf_counter() - start, 1),
                    "byheart_imported": "byheart" in sys.modules,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
