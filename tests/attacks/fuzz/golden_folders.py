"""Golden checkpoints with a file spoilt: read, and asked of an engine that answers at random."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random

from byheart.golden import case
from byheart.golden.digests import DIGESTS, file_digests
from byheart.golden.engine_check import check
from byheart.golden.family import make
from byheart.golden.shape import Shape
from tests.attacks.fuzz.mutation import mutate_bytes, mutate_document
from tests.attacks.fuzz.target import Target, run_command

FAMILY = (Shape("llama", "llama", 1, 32, 40, 4, 2, 8, seed=1),)
FAMILY_FILE = case.FAMILY


class GoldenFolders(Target):
    """A small family with one file spoilt."""

    name, share = "golden", 3 if find_spec("gguf") and find_spec("transformers") else 0

    def prepare(self, folder: Path) -> None:
        if not self.share:
            return
        make(folder / "family", family=FAMILY, counts={"float32": 3}, lengths=(5,))
        self.files = {
            str(path.relative_to(folder / "family")): path.read_bytes()
            for path in (folder / "family").rglob("*")
            if path.is_file()
        }

    def attack(self, random: Random, folder: Path) -> str:
        names = [name for name in self.files if "/" not in name] * 3 + list(self.files)
        spoilt = random.choice(names)
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if name == spoilt:
                content = _spoil(name, content, random)
            (folder / name).write_bytes(content)
        if spoilt != FAMILY_FILE and random.random() < 0.9:
            self._seal(folder)
        if "/" in spoilt and random.random() < 0.3:
            run_command("golden", "check", str(folder), "--engine", "transformers")
        else:
            check(lambda _, prompts, n_new: _answer(prompts, n_new, random), folder)
        return "taken"

    def _seal(self, folder: Path) -> None:
        """Write the digests of the spoilt files, as a forger does. Otherwise they are refused before anything reads them."""
        family = json.loads(self.files[FAMILY_FILE])
        family[DIGESTS] = file_digests(folder, family["checkpoints"])
        (folder / FAMILY_FILE).write_text(json.dumps(family))


def _answer(prompts: Sequence[Sequence[int]], n_new: int, random: Random) -> list[list[int]]:
    return [[random.randrange(40) for _ in range(n_new)] for _ in prompts]


def _spoil(name: str, content: bytes, random: Random) -> bytes:
    if name.endswith(".json") and random.random() < 0.7:
        return mutate_document(json.loads(content), random)
    if name.endswith(".jsonl") and random.random() < 0.7:
        lines = content.splitlines()
        at = random.randrange(len(lines))
        lines[at] = mutate_document(json.loads(lines[at]), random)
        return b"\n".join(lines)
    return mutate_bytes(content, random)
