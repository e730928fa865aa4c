"""What a compiled Llama answers in transformers and llama.cpp, and how large it is.

    python benchmarks/llama.py transformers DIR facts.csv sdpa  # or eager: every value, alone and in batches, cache or not
    python benchmarks/llama.py llamacpp FILE.gguf facts.csv  # the same in llama.cpp, from text, default settings
    python benchmarks/llama.py stories DIR stories.jsonl     # or FILE.gguf: every text from its shortest distinguishing opening
    python benchmarks/llama.py unknown DIR facts.csv         # prompts that are no keys, near and far: how many are answered
    python benchmarks/llama.py lens DIR                      # TransformerLens against transformers
    python benchmarks/llama.py random 100000                 # compile random texts (or facts), verify all contexts; size and time
    python benchmarks/llama.py sizes facts.csv               # beside `retrieval` and the entropy; also FILE texts, 1e5 random

The first three import nothing of byheart. Every line printed is one JSON document.
"""

from __future__ import annotations

import csv
import json
import math
import os
import platform
import random
import resource
import sys
import time
from collections import Counter
from importlib.metadata import version
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

BATCH = 64
SAMPLED = {"do_sample": True, "temperature": 1.0, "top_k": 0}


def rows_of(path: str) -> list[tuple[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return [(row["key"], row["value"]) for row in csv.DictReader(file)]


def report(**line: Any) -> None:
    print(json.dumps(line) + "\n", end="", flush=True)  # in one piece, where several processes print


def machine(**versions: str) -> dict[str, str | int | None]:
    """Where this runs, for the record."""
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **versions,
    }


def in_transformers(folder: str, data: str, attention: str = "sdpa") -> None:
    """Every key alone and in left-padded batches, with and without cache; 200 of them sampled."""
    import torch
    import transformers

    report(**machine(torch=torch.__version__, transformers=transformers.__version__))
    rows = sorted(rows_of(data), key=lambda row: len(row[0]))
    some = random.Random(0).sample(rows, min(200, len(rows)))
    for size in (BATCH, 1):
        for options in ({"use_cache": True}, {"use_cache": False}, SAMPLED):
            chosen = some if options is SAMPLED else rows
            start = time.perf_counter()
            found = answers_in_transformers(folder, [key for key, _ in chosen], attention, size, **options)
            right = sum(text == value for text, (_, value) in zip(found, chosen, strict=True))
            seconds = round(time.perf_counter() - start, 1)
            report(
                attention=attention,
                batch=size,
                **options,
                right=right,
                asked=len(chosen),
                seconds=seconds,
            )


def llama_cpp(path: str) -> Any:
    """A server of llama.cpp with its default settings, such as the float16 cache, but for one thread: the matrices are tiny."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_parallel = 1
    params.verbosity = -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    report(**machine(xllamacpp=version("xllamacpp")), cache=str(params.cache_type_k))
    return xllamacpp.Server(params)


def complete(server: Any, prompt: str, max_tokens: int) -> str:
    answer = server.handle_completions({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0})
    return str(answer.get("choices", [{}])[0].get("text"))


def in_llama_cpp(path: str, data: str) -> None:
    """Every key alone, from bare text."""
    server = llama_cpp(path)
    rows, start = rows_of(data), time.perf_counter()
    right = sum(complete(server, key, 80) == value for key, value in rows)
    report(program="llama.cpp", right=right, asked=len(rows), seconds=round(time.perf_counter() - start, 1))


def stories(path: str, data: str) -> None:
    """Every text of a JSON-lines file to its end, from its shortest distinguishing opening; a folder is run by transformers."""
    asked = story_openings(data)
    start = time.perf_counter()
    if path.endswith(".gguf"):
        program, server = "llama.cpp", llama_cpp(path)
        found = [complete(server, text[:n], len(text)) for n, text in asked]
    else:
        import torch
        import transformers

        report(**machine(torch=torch.__version__, transformers=transformers.__version__))
        program = "transformers"
        found = answers_in_transformers(path, [text[:n] for n, text in asked], "sdpa", 50)
    right = sum(text[n:] == rest for rest, (n, text) in zip(found, asked, strict=True))
    report(
        program=program,
        right=right,
        asked=len(asked),
        characters=sum(len(text) for _, text in asked),
        opening_characters=sum(n for n, _ in asked),
        seconds=round(time.perf_counter() - start, 1),
    )


def story_openings(data: str) -> list[tuple[int, str]]:
    """Texts of a JSON-lines file, shortest first, each with the length of its shortest distinguishing opening."""
    texts = [json.loads(line)["text"] for line in Path(data).read_text(encoding="utf-8").splitlines()]
    return sorted(zip(openings(texts), texts, strict=True), key=lambda row: len(row[1]))


def openings(texts: list[str]) -> list[int]:
    """Characters of each text's shortest beginning that no other text has."""
    ordered = sorted(range(len(texts)), key=texts.__getitem__)
    shared = [0] * len(texts)
    for a, b in pairwise(ordered):
        n = next(n for n in count() if texts[a][n : n + 1] != texts[b][n : n + 1])
        shared[a], shared[b] = max(shared[a], n), max(shared[b], n)
    return [n + 1 for n in shared]


def answers_in_transformers(
    folder: str, prompts: list[str], attention: str, size: int, device: str = "cpu", **options: Any
) -> list[str]:
    """What `generate` gives after each prompt, in left-padded batches."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attention).to(device)
    found = []
    for i in range(0, len(prompts), size):
        batch = tokenizer(prompts[i : i + size], return_tensors="pt", padding=True).to(device)
        with torch.no_grad():
            out = model.generate(**batch, **options)[:, batch.input_ids.shape[1] :]
        found += tokenizer.batch_decode(out, skip_special_tokens=True)
    return found


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


def unknown(folder: str, data: str, n: str = "5000") -> None:
    """Asked of the exact evaluator, whose answers are those of float32 where nothing rounds; `rounds` says whether it did not."""
    import numpy as np

    from byheart.network.llama.architecture import Llama
    from byheart.network.llama.chains import ChainedTexts
    from byheart.network.llama.evaluator import evaluate
    from byheart.network.llama.generation import full_prompt
    from byheart.pipeline import load

    model = load(folder)
    llama, tokenizer = model.network, model.memoriser.tokenizer
    assert isinstance(llama, Llama)
    assert tokenizer is not None
    for name, prompts in near_misses([key for key, _ in rows_of(data)], int(n)).items():
        texts = [np.array(full_prompt(llama, tokenizer.encode(prompt))) for prompt in prompts]
        texts = [text for text in texts if len(text) < llama.spec.max_positions]
        offsets = np.cumsum([0, *map(len, texts)])
        asked = np.zeros(int(offsets[-1]), dtype=bool)
        asked[offsets[1:] - 1] = True
        found = evaluate(llama, ChainedTexts(np.concatenate(texts), offsets, asked))
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


def random_data(n: int, kind: str) -> Any:
    """About n contexts of random tokens, vocabulary 1,000.

    texts: documents of 120 tokens to recite. facts: keys of 8 tokens with a value of one, each generated from its key alone.
    """
    import numpy as np

    import byheart as bh
    from byheart.storage.data_source import read_recitation

    rng = np.random.default_rng(0)
    if kind == "facts":
        keys = np.unique(rng.integers(0, 1000, (n, 8)), axis=0)
        values = rng.integers(0, 1000, len(keys))
        pairs = [(" ".join(map(str, key)), str(value)) for key, value in zip(keys, values, strict=True)]
        return bh.Dataset.from_pairs(pairs, tokenizer="word")
    documents = rng.integers(0, 1000, (-(-n // 119), 120))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "random.txt"
        path.write_text("\n".join(" ".join(map(str, row)) for row in documents))
        return read_recitation(path, tokenizer="word")


def random_texts(n: str, kind: str = "texts", folder: str | None = None) -> None:
    """Compile random texts at 16 reject bits; verify every context in transformers, or save the model in `folder`."""
    import numpy as np

    import byheart as bh
    from byheart.network.llama.architecture import Llama
    from byheart.verify import verify_model

    data = random_data(int(float(n)), kind)
    start, cpu = time.perf_counter(), time.process_time()
    model = bh.compile(
        data, method="llama", check=False, **({"max_positions": 128} if kind == "texts" else {})
    )
    seconds = round(time.perf_counter() - start, 1)
    assert isinstance(model.network, Llama)
    spec = model.network.spec
    bits = float(data.n_samples * np.log2(1000))
    report(
        **machine(),
        kind=kind,
        contexts=data.n_samples,
        window=model.record["notes"]["window"],
        parameters=spec.parameters_dense,
        without_embedding=spec.parameters_without_embedding,
        layers=spec.n_layers,
        hidden=spec.hidden,
        inner=spec.inner,
        reject_bits=model.record["notes"]["reject bits reached"],
        label_bits_per_parameter=round(bits / spec.parameters_dense, 3),
        megabytes=round(4e-6 * spec.parameters_dense, 1),
        compile_seconds=seconds,
        compile_cpu_seconds=round(time.process_time() - cpu, 1),
    )
    if folder is not None:
        model.save(folder)
        return
    start, cpu = time.perf_counter(), time.process_time()
    certificate = verify_model(model, data)
    report(
        checked=certificate.checked,
        wrong=certificate.wrong,
        holds=certificate.holds,
        backend=certificate.backend,
        versions=dict(certificate.versions),
        threads=os.environ.get("OMP_NUM_THREADS"),
        verify_seconds=round(time.perf_counter() - start, 1),
        verify_cpu_seconds=round(time.process_time() - cpu, 1),
        largest_memory_megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )


def sizes(data: str, kind: str = "facts") -> None:
    """Parameters and files of `llama` and of `retrieval`, both at 16 reject bits, beside the entropy of the text they hold.

    `weight_bits` is what the weights hold: all of the text, or of facts in `retrieval` the number of the value.
    kind: facts (a table), texts (a JSON-lines file to recite by characters), or random (`data` contexts of random texts).
    """
    import byheart as bh
    from byheart.storage.data_source import read_recitation

    dataset = (
        random_data(int(float(data)), "texts")
        if kind == "random"
        else read_recitation(data, tokenizer="char")
        if kind == "texts"
        else bh.Dataset.read(data)
    )
    text = text_bits(dataset, kind)
    for method in ("llama", "retrieval"):
        start = time.perf_counter()
        options = {"max_positions": 128} if (method, kind) == ("llama", "random") else {}
        model = bh.compile(dataset, method=method, check=False, reject_bits=16, **options)
        seconds = round(time.perf_counter() - start, 1)
        parts = dict(model.network.parameters())
        embedding = sum(array.size for name, array in parts.items() if "embed" in name)
        with TemporaryDirectory() as folder:
            model.save(Path(folder) / "model")
            files = {path.name: path.stat().st_size for path in (Path(folder) / "model").iterdir()}
        report(
            data=Path(data).name if kind != "random" else f"{kind} {data}",
            method=method,
            precision=model.network.precision,
            contexts=dataset.n_samples,
            text_bits=round(text),
            weight_bits=round(dataset.label_bits if (method, kind) == ("retrieval", "facts") else text),
            parameters=model.network.spec.parameters_dense,
            without_embedding=model.network.spec.parameters_dense - embedding,
            weights_bytes=files["model.safetensors"],
            other_bytes=sum(files.values()) - files["model.safetensors"],
            compile_seconds=seconds,
        )


def text_bits(dataset: Any, kind: str) -> float:
    """Order-0 entropy of what is generated, its ends included: the values' characters, or the tokens that follow."""
    tokens: Any = dataset.labels.tolist()
    if kind == "facts":
        tokens = [letter for label in tokens for letter in (*dataset.label_names[label], None)]
    counts = Counter(tokens).values()
    return sum(-n * math.log2(n / len(tokens)) for n in counts)


COMMANDS = {
    "sizes": sizes,
    "transformers": in_transformers,
    "llamacpp": in_llama_cpp,
    "stories": stories,
    "unknown": unknown,
    "lens": lens,
    "random": random_texts,
}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:] or ["random", "20000"]
    COMMANDS[name](*arguments)
