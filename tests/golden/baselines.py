"""What usual tests notice of the same faults: python -m tests.golden.baselines FAMILY RESULT.json [HOST]

- logits of a random model of the same shape, as transformers draws it, compared with stored ones within 1e-3 and within 1e-2;
- the greedy text of HOST, a real small model, compared with the text it gave before.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from byheart.golden.case import shapes
from byheart.golden.reference import WAYS, ReferenceEngine
from byheart.golden.shape import Shape
from tests.golden.catalogue import CATALOGUE, EngineFault

PROMPTS = ("The capital of France is", "Water boils at", "1, 2, 3, 4,", "Once upon a time")
N_TOKENS = 8


def random_model(shape: Shape) -> Any:
    torch.manual_seed(0)
    config = shape.config()
    made = AutoConfig.for_model(config.pop("model_type"), **config)
    made._attn_implementation = "eager"
    return AutoModelForCausalLM.from_config(made).float().eval()


def logit_distance(fault: EngineFault, shape: Shape) -> float:
    """The largest change of a logit, over two prompts with a cache: the last prompt token and one decoded token."""
    ids = torch.randint(2, shape.vocab, (2, 12), generator=torch.Generator().manual_seed(1))
    if fault.into == "reference":
        weights = dict(random_model(shape).state_dict())
        right, wrong = ReferenceEngine(shape, weights), ReferenceEngine(shape, weights)
        fault.change(wrong)
        found = 0.0
        for way in WAYS:
            if way.name in fault.ways:
                records: list[list[torch.Tensor]] = []
                for engine in (right, wrong):
                    kept: list[torch.Tensor] = []
                    engine.pick = lambda logits, kept=kept: kept.append(logits) or logits.argmax(-1)
                    likelihoods = engine.log_likelihoods
                    engine.log_likelihoods = lambda logits, kept=kept, step=likelihoods: (
                        kept.append(logits) or step(logits)
                    )
                    engine.generate([ids[0].tolist(), ids[1, :9].tolist()], 2, way)
                    records.append(kept)
                found = max(
                    [
                        found,
                        *[
                            float((a - b).abs().max())
                            for a, b in zip(*records, strict=False)
                            if a.shape == b.shape
                        ],
                    ]
                )
        return found
    results = []
    for change in (lambda model: None, fault.change):
        model = random_model(shape)
        change(model)
        first = model(ids, use_cache=True)
        second = model(torch.full((2, 1), 7), past_key_values=first.past_key_values, use_cache=True)
        results.append(torch.cat([first.logits[:, -1], second.logits[:, -1]]).float())
    return float((results[0] - results[1]).abs().nan_to_num(1e9).max())


def greedy_text(host: str, change: Any) -> list[str]:
    tokenizer = AutoTokenizer.from_pretrained(host, padding_side="left")
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(
        host, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    change(model)
    asked = tokenizer(list(PROMPTS), return_tensors="pt", padding=True)
    made = model.generate(**asked, max_new_tokens=N_TOKENS, do_sample=False)
    return [tokenizer.decode(row[-N_TOKENS:]) for row in made]


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    known = [
        shape
        for shape in shapes(sys.argv[1]).values()
        if not shape.n_needles and shape.vocab < 20_000 and shape.design == "generic"
    ]
    host = sys.argv[3] if len(sys.argv) > 3 else None
    right = greedy_text(host, lambda model: None) if host else []
    rows = []
    for fault in CATALOGUE:
        row: dict[str, Any] = {"fault": fault.name}
        if host is None:
            row["logits"] = max(
                (logit_distance(fault, shape) for shape in known if fault.applies(shape)), default=0.0
            )
        elif fault.into == "transformers" and fault.applies(known[0]):
            row["text_changed"] = greedy_text(host, fault.change) != right
        rows.append(row)
        print(row, flush=True)
        Path(sys.argv[2]).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
