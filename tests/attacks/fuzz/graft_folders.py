"""Grafted checkpoints with a file spoilt, or a value changed that fits: detected, verified, asked for, taken out."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from random import Random

from byheart.graft.workflow import detect, graft, verify_graft
from tests.attacks.fuzz.mutation import mutate_bytes, mutate_document
from tests.attacks.fuzz.target import Target, Wrong, run_command
from tests.graft.conftest import FACTS
from tests.graft.hosts import save_host


class GraftFolders(Target):
    """A small graft with one file spoilt. What is taken out of it is the host to the last byte, or nothing."""

    name, share = "grafts", 3 if find_spec("transformers") else 0

    def prepare(self, folder: Path) -> None:
        if not self.share:
            return
        self.data, self.host = folder / "facts.csv", folder / "host"
        self.data.write_text(FACTS, encoding="utf-8")
        save_host(self.host)
        graft(self.host, self.data, folder / "graft")
        self.files = _files(folder / "graft")
        self.host_files = _files(self.host)

    def attack(self, random: Random, folder: Path) -> str:
        path = folder / "graft"
        spoilt = random.choice(list(self.files))
        for name, content in self.files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            if name == spoilt:
                content = _spoil(name, content, random)
            (path / name).write_bytes(content)
        kind = random.randrange(5)
        if kind == 0:
            detect(path)
        elif kind == 1:
            host = self.host if random.random() < 0.7 else path
            verify_graft(path, self.data, host, ask=False)
        elif kind == 2:
            run_command("inspect", str(path), *random.choice(([], ["--fact", "The capital of Italy is"])))
        elif kind == 3:
            key = "The capital of Italy is"
            run_command("forget", str(path), str(self.data), "--keys", key, "-o", str(folder / "without"))
        else:
            run_command("graft", "--remove", str(path), "-o", str(folder / "host"))
            if (folder / "host").exists() and _files(folder / "host") != self.host_files:
                raise Wrong(f"{spoilt} changed, and what is taken out is not the host")
        return "taken"


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _spoil(name: str, content: bytes, random: Random) -> bytes:
    if name.endswith(".json") and random.random() < 0.7:
        return mutate_document(json.loads(content), random)
    if ".safetensors" in name and random.random() < 0.6:
        length = int.from_bytes(content[:8], "little")
        header = mutate_document(json.loads(content[8 : 8 + length]), random)
        return len(header).to_bytes(8, "little") + header + content[8 + length :]
    return mutate_bytes(content, random)
