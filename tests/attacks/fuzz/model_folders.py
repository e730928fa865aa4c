"""Saved models of every family with one file spoilt, and everything that can be done with a model."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import byheart as bh
from byheart.data.dataset import Dataset
from byheart.model import Model
from byheart.pipeline import load
from byheart.storage.data_source import read_like
from byheart.web.processes import Refused
from tests.attacks.fuzz.mutation import NUMBERS, TEXTS, mutate_bytes, mutate_document
from tests.attacks.fuzz.page_requests import Questions
from tests.attacks.fuzz.target import Target, Wrong, run_command
from tests.storage.test_fixtures import FIXTURES, SAVED


@cache
def certified_fixtures() -> dict[str, tuple[Model, Path, Dataset]]:
    """The saved models of every family, each with a certificate that has every digest of today, its data file and its data."""
    found = {}
    for name, saved in SAVED.items():
        model, path = load(FIXTURES / name), FIXTURES / "data" / saved["data"]
        data = read_like(model, path, **saved.get("reading", {}))
        found[name] = (replace(model, certificate=bh.verify(model, data)), path, data)
    return found


class ModelFolders(Target):
    """Saved models of every family with one file spoilt: `load`, `predict`, and now and then what else a model is for.

    A part of them has no certificate, so that more of what is spoilt gets past `load`.
    """

    name, share = "folders", 40

    def prepare(self, folder: Path) -> None:
        self.seeds: list[tuple[Path, dict[str, bytes], Any, list[Any], Dataset]] = []
        for name, (certified, source, data) in certified_fixtures().items():
            path = folder / name
            certified.save(path)
            again = load(path)
            asked: Any = SAVED[name]["answers"]
            asked = list(asked) if isinstance(asked, dict) else np.load(source)["inputs"]
            files = {entry.name: entry.read_bytes() for entry in path.iterdir()}
            self.seeds.append((source, files, asked, again.predict(asked), data))
            run_command("inspect", "--json", str(path))

    def attack(self, random: Random, folder: Path) -> str:
        path, files, asked, answers, data = random.choice(self.seeds)
        files = dict(files)
        if random.random() < 0.35:
            del files["certificate.json"]
        spoilt = random.choice(list(files))
        for name, content in files.items():
            if name == spoilt:
                if name == "model.json" and random.random() < 0.3:
                    content = _mutate_record(content, random)
                elif name.endswith(".json") and random.random() < 0.7:
                    content = mutate_document(json.loads(content), random)
                elif name.endswith(".safetensors") and random.random() < 0.4:
                    content = _mutate_header(content, random)
                else:
                    content = mutate_bytes(content, random)
            if random.random() > 0.005:
                (folder / name).write_bytes(content)
        model = load(folder)
        found = model.predict(asked)
        if random.random() < 0.2:
            model.predict(
                [random.choice(TEXTS)]
                if isinstance(asked, list)
                else np.array([[random.choice(NUMBERS[:12])]])
            )
        if random.random() < 0.25:
            _use(random, folder, random.choice(asked) if isinstance(asked, list) else "0 1", path)
        is_changed = found != answers
        if is_changed and model.certificate is not None and model.certificate.holds:
            raise Wrong(f"{spoilt} changed, and the certificate holds; answers {found!r}, were {answers!r}")
        if (
            is_changed
            and random.random() < 0.3
            and bh.verify(model, data).holds
            and _known_changed(found, answers, asked, data)
        ):
            raise Wrong(
                f"{spoilt} changed, and verify says that it holds; answers {found!r}, were {answers!r}"
            )
        if model.certificate is not None and spoilt != "certificate.json" and random.random() < 0.02:
            bh.verify(model, data)
        return "changed" if is_changed else "taken"


def _use(random: Random, folder: Path, question: str, data: Path) -> None:
    """What else a model is for, on the terminal and on the page."""
    question = question if random.random() < 0.9 else random.choice(TEXTS)
    model = str(folder)
    task = random.choice(("trace", "fact", "weights", "inspect"))
    if random.random() < 0.4:
        asks_text = {"trace": {"text": question}, "fact": {"text": question, "data": None}}
        with suppress(Refused):
            Questions().ask(task, {"model": model, **asks_text.get(task, {})})
        return
    arguments: tuple[str, ...] = random.choice(
        (
            ("inspect", model),
            ("inspect", "--json", model),
            ("inspect", f"--fact={question}", model),
            ("inspect", f"--fact={question}", "--json", "--data", str(data), model),
            ("recite", "--max-tokens=20", model, "--", question),
            ("predict", model, "--", question),
            ("predict", model, "--data", str(data)),
            ("verify", model, str(data)),
            ("export", model, "--to", "gguf", "-o", str(folder / "out.gguf")),
            ("export", model, "--to", "onnx", "-o", str(folder / "out.onnx")),
        )
    )
    run_command(*arguments)


def _mutate_record(content: bytes, random: Random) -> bytes:
    """Only what the model says of how it came about, on which no digest is."""
    document = json.loads(content)
    document["record"] = json.loads(mutate_document(document["record"], random).lstrip(b"["))
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _known_changed(found: list[Any], answers: list[Any], asked: Any, data: Dataset) -> bool:
    """Whether an answer to a stored input changed, and not only that to an unknown one."""
    if not isinstance(asked, list):
        return True  # arrays are asked row by row as they are stored
    if data.task == "distribution":
        return False
    assert data.tokenizer is not None
    known = {data.tokenizer.decode(row) for row in data.inputs}
    return any(a != b for a, b, text in zip(found, answers, asked, strict=True) if text in known)


def _mutate_header(content: bytes, random: Random) -> bytes:
    length = int.from_bytes(content[:8], "little")
    header = mutate_document(json.loads(content[8 : 8 + length]), random)
    size = len(header) if random.random() < 0.9 else random.choice((0, 2**40, 2**63, len(header) - 1))
    return size.to_bytes(8, "little") + header + content[8 + length :]
