"""Options of every construction (`compile --set NAME=VALUE`) with odd values, on the data of its own example."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from random import Random

from byheart.cli.compile import _setting
from byheart.construct.registry import get, names
from byheart.pipeline import compile
from tests.attacks.fuzz.mutation import VALUES
from tests.attacks.fuzz.target import Target

TEXTS = ("NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "[" * 10_000, "", "0.5", "1e-9", "64", "1000")
QUICK = [value for value in VALUES if value != 2**16]  # heads of which a tiny model takes half a minute
SEEDS = (0, 1, 2**32, 2**63, 10**30)


class Settings(Target):
    """Options of every construction with odd values."""

    name, share = "settings", 3

    def prepare(self, folder: Path) -> None:
        self.methods = [method for method in map(get, names()) if method.example is not None]
        self.examples = {
            method.name: method.example() for method in self.methods if method.example is not None
        }

    def attack(self, random: Random, folder: Path) -> str:
        method = random.choice(self.methods)
        example = self.examples[method.name]
        given = dict(example.options)
        known = [field.name for field in fields(method.options)] or ["B"]
        for _ in range(random.choice((1, 1, 2))):
            name = random.choice(known)
            value = random.choice(TEXTS) if random.random() < 0.4 else json.dumps(random.choice(QUICK))
            (folder / f"{name}.txt").write_text(value)
            given |= dict([_setting(f"{name}={value}")])
        (folder / "method.txt").write_text(f"{method.name} {given!r}")
        seed = random.choice(SEEDS)
        compile(example.data, method=method.name, seed=seed, **given)
        return "taken"
