"""Saved models of every family with one file spoilt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import byheart as bh
from byheart.data.dataset import Dataset
from byheart.pipeline import load, read_like
from tests.attacks.fuzz.mutation import NUMBERS, TEXTS, mutate_bytes, mutate_document
from tests.attacks.fuzz.target import Target, Wrong, run_command
from tests.storage.test_fixtures import FIXTURES, SAVED


class ModelFolders(Target):
    """Saved models of every family with one file spoilt: `load`, `predict`, now and then `verify` and `inspect`."""

    name, share = "folders", 40

    def prepare(self, folder: Path) -> None:
        self.seeds: list[tuple[str, Path, dict[str, bytes], Any, list[Any], Dataset]] = []
        for name, saved in SAVED.items():
            model = load(FIXTURES / name)
            data = read_like(model, FIXTURES / "data" / saved["data"], **saved.get("reading", {}))
            certified = replace(model, certificate=bh.verify(model, data))  # with every digest of today
            path = folder / name
            certified.save(path)
            again = load(path)
            asked: Any = saved["answers"]
            asked = (
                list(asked)
                if isinstance(asked, dict)
                else np.load(FIXTURES / "data" / saved["data"])["inputs"]
            )
            files = {entry.name: entry.read_bytes() for entry in path.iterdir()}
            self.seeds.append((name, path, files, asked, again.predict(asked), data))
            self._show(path)

    def attack(self, random: Random, folder: Path) -> str:
        _, _, files, asked, answers, data = random.choice(self.seeds)
        spoilt = random.choice(list(files))
        for name, content in files.items():
            if name == spoilt:
                if name.endswith(".json") and random.random() < 0.7:
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
        if random.random() < 0.1:
            self._show(folder)
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

    def _show(self, folder: Path) -> None:
        run_command("inspect", "--json", str(folder))


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
