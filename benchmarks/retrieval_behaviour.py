"""What `retrieval` does with real texts, strangers and adversaries; one command, about three minutes on two quiet cores.

    python benchmarks/retrieval_behaviour.py [openings stories strangers adversaries places] [--shared DIR] [--places FILE]

    openings     1,000 story openings of ten words, each recited word for word from its distinguishing prefix
    stories      the first 200 whole stories, each recited to its end from its distinguishing prefix
    strangers    --reject-bits 16: how many of a million inputs that are not in the data are answered
    adversaries  every generator made to break constructions: memorised, or refused and handed to the next construction by name
    places       193,241 place names to country codes (see the data folder's README for how to make the file)

Prints one JSON document. Exit status 1 if something is not as it must be; parts whose data are absent say so and are skipped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from byheart import Dataset, compile
from byheart.construct.registry import get
from byheart.construct.retrieval.documents import END, recitation
from byheart.data.generators import random_tokens
from byheart.errors import ByheartError
from byheart.network.memoriser import UNKNOWN, Memoriser
from byheart.network.size import size_of_network

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.adversarial import ADVERSARIAL

Part = dict[str, object]


def stories(shared: Path, n: int) -> list[str]:
    lines = (shared / "tinystories.jsonl").read_text(encoding="utf-8").splitlines()
    return [story["text"] for story in map(json.loads, lines) if story["whole"]][:n]


def recited(texts: Sequence[str]) -> Part:
    """Compile texts and recite each from its distinguishing prefix, all of them side by side, one token at a time."""
    data = recitation(texts)
    start = time.perf_counter()
    memoriser = get("retrieval").build(data, {}, np.random.default_rng(0), None).memoriser
    compiled = time.perf_counter()
    assert data.tokenizer is not None
    documents = [data.tokenizer.encode(text) for text in texts]
    prefixes = {text: n for text, n in enumerate(distinguishing(documents)) if n is not None}
    wanted = [documents[text] for text in prefixes]
    spoken = speak(memoriser, [documents[text][:n] for text, n in prefixes.items()], max(map(len, wanted)))
    n_right = sum(found == ids for found, ids in zip(spoken, wanted, strict=True))
    size = size_of_network(memoriser.network)
    return {
        "texts": len(texts),
        "words": sum(map(len, documents)),
        "contexts": data.n_samples,
        "window": data.seq_len,
        "vocabulary": data.vocab,
        "parameters": size.parameters_dense,
        "bits_per_parameter": round(data.label_bits / size.parameters_dense, 2),
        "recited_to_the_end": n_right,
        "of": len(wanted),
        "without_a_distinguishing_prefix": len(texts) - len(wanted),
        "longest_prefix": max(prefixes.values()),
        "seconds": {
            "compile": round(compiled - start, 1),
            "recite": round(time.perf_counter() - compiled, 1),
        },
        "holds": n_right == len(wanted),
    }


def distinguishing(documents: Sequence[Sequence[int]]) -> list[int | None]:
    """The length of the shortest beginning that no other text shares; None where another text goes on after this one ends."""
    counts: dict[tuple[int, ...], int] = {}
    whole: dict[tuple[int, ...], int] = {}
    for ids in documents:
        whole[tuple(ids)] = whole.get(tuple(ids), 0) + 1
        for n in range(1, len(ids) + 1):
            counts[tuple(ids[:n])] = counts.get(tuple(ids[:n]), 0) + 1
    return [
        next((n for n in range(1, len(ids) + 1) if counts[tuple(ids[:n])] == whole[tuple(ids)]), None)
        for ids in documents
    ]


def speak(memoriser: Memoriser, prompts: Sequence[Sequence[int]], longest: int) -> list[list[int]]:
    """Greedy decoding of all prompts at once, until each text ends."""
    assert memoriser.tokenizer is not None
    numbers = {name: number for number, name in enumerate(memoriser.tokenizer.vocabulary)}
    network = memoriser.network
    spoken = [list(prompt) for prompt in prompts]
    running = list(range(len(spoken)))
    pad = network.pad if network.pad is not None else 0
    for _ in range(longest + 1):
        if not running:
            break
        windows = np.full((len(running), network.seq_len), pad, dtype=np.int64)
        for row, text in enumerate(running):
            window = spoken[text][-network.seq_len :]
            windows[row, network.seq_len - len(window) :] = window
        answers = memoriser.answer(windows, backend="module")
        going = []
        for text, answer in zip(running, answers, strict=True):
            name = END if answer == UNKNOWN else memoriser.label_names[answer]
            if name != END:
                spoken[text].append(numbers[name])
                going.append(text)
        running = going
    return spoken


def openings_part(options: argparse.Namespace) -> Part:
    return recited([" ".join(text.split()[:10]) for text in stories(options.shared, 1000)])


def stories_part(options: argparse.Namespace) -> Part:
    return recited(stories(options.shared, 200))


def strangers_part(_: argparse.Namespace) -> Part:
    data = random_tokens(20_000, n_vocab=1000, seed=0)
    built = get("retrieval").build(data, {"reject_bits": 16}, np.random.default_rng(0), None)
    memoriser = built.memoriser
    n_wrong = int((memoriser.answer(memoriser.encode(data.inputs), backend="module") != data.labels).sum())
    strangers = random_tokens(1_000_000, n_vocab=1000, seed=1)
    known = {row.tobytes() for row in data.inputs.pad(0)}
    encoded = np.array([row for row in strangers.inputs.pad(0) if row.tobytes() not in known])
    n_answered = int((memoriser.answer(encoded, backend="module") != UNKNOWN).sum())
    return {
        "facts": data.n_samples,
        "wrong": n_wrong,
        "strangers": len(encoded),
        "answered": n_answered,
        "expected": round(len(encoded) / 2**16, 1),
        "holds": n_wrong == 0 and n_answered <= 40,
    }


def adversaries_part(_: argparse.Namespace) -> Part:
    found: dict[str, str] = {}
    for name, adversary in ADVERSARIAL.items():
        data = adversary(0)
        try:
            memoriser = get("retrieval").build(data, {}, np.random.default_rng(0), None).memoriser
            answers = memoriser.answer(memoriser.encode(data.inputs), backend="module")
            if data.task == "seq-to-seq":
                answers = np.concatenate([r[-n:] for r, n in zip(answers, data.inputs.lengths, strict=True)])
            n_wrong = int((answers != memoriser.expected_labels(data)).sum())
            found[name] = "memorised" if n_wrong == 0 else f"WRONG: {n_wrong} of {data.n_samples}"
        except ByheartError as refusal:
            found[name] = f"{type(refusal).__name__}; {fallback(data)}"
    n_wrong = sum("WRONG" in said for said in found.values())
    n_memorised = sum(said == "memorised" for said in found.values())
    lost = [name for name, said in found.items() if "nothing" in said and not ADVERSARIAL[name].refused]
    return {
        "memorised": n_memorised,
        "of": len(found),
        "wrong": n_wrong,
        "each": found,
        "holds": not n_wrong and not lost,
    }


def fallback(data: Dataset) -> str:
    """The construction that takes what retrieval refused."""
    try:
        model = compile(data, method="kajitsuka-sato-2025", precision="exact")
    except ByheartError as refusal:
        return f"nothing memorises it: {type(refusal).__name__}"
    return f"memorised by {model.record['method']}"


def places_part(options: argparse.Namespace) -> Part:
    data = Dataset.from_csv(options.places, tokenizer="char")
    start = time.perf_counter()
    built = get("retrieval").build(data, {}, np.random.default_rng(0), None)
    compiled = time.perf_counter()
    answers = built.memoriser.answer(built.memoriser.encode(data.inputs), backend="module")
    size = size_of_network(built.memoriser.network)
    n_wrong = int((answers != built.memoriser.expected_labels(data)).sum())
    return {
        "facts": data.n_samples,
        "vocabulary": data.vocab,
        "seq_len": data.seq_len,
        "classes": data.n_classes,
        "parameters": size.parameters_dense,
        "parameters_per_fact": round(size.parameters_dense / data.n_samples, 3),
        "bits_per_parameter": round(data.label_bits / size.parameters_dense, 2),
        "hash": built.notes["hash"],
        "wrong": n_wrong,
        "seconds": {
            "compile": round(compiled - start, 1),
            "verify": round(time.perf_counter() - compiled, 1),
        },
        "holds": n_wrong == 0 and size.parameters_dense < data.n_samples,
    }


PARTS: dict[str, Callable[[argparse.Namespace], Part]] = {
    "openings": openings_part,
    "stories": stories_part,
    "strangers": strangers_part,
    "adversaries": adversaries_part,
    "places": places_part,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"))
    parser.add_argument("--places", type=Path, default=Path("facts_large.csv"))
    options = parser.parse_args()
    document: dict[str, object] = {"schema": "byheart.benchmark/1", "name": "retrieval-behaviour"}
    holds = True
    for name in options.parts:
        try:
            part = PARTS[name](options)
        except (FileNotFoundError, ByheartError) as absent:
            part = {"skipped": str(absent).splitlines()[0]}
        document[name] = part
        holds &= bool(part.get("holds", True))
        print(name, json.dumps(part, default=str)[:300], file=sys.stderr, flush=True)
    print(json.dumps(document, indent=1, default=str))
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
