"""Every command with odd values for its options. Options are found in click's own tree, so that a new one is attacked too."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from random import Random
from typing import Any

import click

from byheart.cli.main import group
from byheart.measure.store import Store
from tests.attacks.fuzz.mutation import TEXTS
from tests.attacks.fuzz.target import Target, Wrong, run_command
from tests.measure.small_sweep import small_sweep
from tests.measure.test_store import record
from tests.storage.test_fixtures import FIXTURES

# they do not end, start processes, or take minutes (`golden make`)
LEFT_OUT = ("serve", "cluster", "workers", "make")
NUMBERS = (
    *("0", "1", "-1", "2", "3", "1e3", "65536", "2147483648", "9223372036854775808", "1e30", "1e31"),
    *("1e999", "-1e999", "nan", "0.5", "1e-9", "1_000", "٣", "0x10", " 1 ", "9" * 5000),
)
PATHS = (
    *("", ".", "absent", "absent/file.csv", "data.csv/file", "pipe", "folder", "odd\udcff.csv", "a" * 300),
    *("\x00", "empty.csv", "data.csv", "models/recite", "spec.toml", "config.json", "runs.sqlite", "results"),
)
ODD = (*NUMBERS, *PATHS, *(text for text in TEXTS if ".." not in text), "--json", "-", "=", "a=b", "[" * 3000)
SOUND: dict[str, tuple[str, ...]] = {
    "data": ("data.csv", "data.csv", "texts.txt", "vectors.npz"),
    "folder": (
        *("models/recite", "models/retrieval-float64", "models/transformer-exact-vectors"),
        *("models/retrieval-tokens", "models/attention-only"),
    ),
    "output": ("new", "new.csv", "new.onnx", "new/deeper", "models/recite", "pipe.csv", "pipe.onnx"),
    "spec": ("spec.toml",),
    "path": ("runs.sqlite", "runs.sqlite", "fresh.sqlite"),
    "results": ("results",),
    "config": ("config.json",),
    "keys": ("capital of Peru", "x"),
    "texts": ("capital of France", "0 1"),
    "names": ("madden-2024-fig1-left", "beyond-capacity"),
    "figure": ("new.svg", "pipe.svg"),
    "facts": ("1000", "1e12"),
    "method": ("auto", "retrieval", "two-layer-relu", "kajitsuka-sato-2025"),
    "methods": ("retrieval", "two-layer-relu,retrieval"),
    "n_points": ("2",),
    "shards": ("3",),
    "work": ("work",),
    "settings": ("shards=2", "B=8", "a=[1,2]"),
    "x": ("sizes.n_heads", "seed"),
    "by": ("seed", "sizes.n_heads"),
    "where": ("seed<1", "status=done", "sizes.n_heads=2"),
    "state": ("done",),
}
# whole command lines, to which odd options are added: the last one given counts
WHOLE: dict[str, tuple[tuple[str, ...], ...]] = {
    "bounds": (("--samples=100", "--vocab=50"), ("--data=data.csv",), ("--samples=9", "--dim=3")),
    "compile": (
        ("data.csv", "-o", "new", "--method=retrieval"),
        ("texts.txt", "-o", "new", "--method=retrieval", "--recite"),
        ("data.csv", "-o", "new", "--method=retrieval", "--shards=2", "--work=work"),
    ),
    "report": (("-o", "new"), ("--recompute",)),
    "reproduce": (("beyond-capacity",), ("madden-2024-fig1-left",)),
    "recite": (("models/recite", "the cat"),),
    "verify": (
        ("models/retrieval-float64", "data.csv"),
        ("models/transformer-exact-vectors", "vectors.npz"),
        ("models/recite", "texts.txt"),
    ),
    "predict": (("models/retrieval-float64", "--data=data.csv"), ("models/retrieval-float64", "x")),
    "inspect": (("models/retrieval-float64", "--fact=capital of Peru", "--data=data.csv"),),
    "export": (("models/retrieval-float64", "--to=onnx", "-o", "new.onnx"),),
    "plan": (("--facts=1000",),),
    "shatter": (("--points=2",),),
}
# one of these is always given
NEVER_LONG = {
    "reproduce": ("--draw-only", "--dry-run", "--list", "--minutes=0"),
    "measure": ("--dry-run",),
    "compare": ("--methods=retrieval", "--methods=two-layer-relu, park-2021"),
}
TOO_LONG = {("compare", "figure"), ("compare", "methods")}
SPECIFICATION = small_sweep(n_steps=2)
CONFIG = (
    """{"model_type": "gpt2", "vocab_size": 100, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2}"""
)


class CommandLines(Target):
    """Every command with odd values for its options."""

    name, share = "commands", 6

    def prepare(self, folder: Path) -> None:
        self.folder = folder
        self.commands = dict(_commands(group, ()))
        (folder / "data.csv").write_text("key,value\ncapital of France,Paris\ncapital of Peru,Lima\nx,é\n")
        (folder / "texts.txt").write_text("the cat sat\na dog\n")
        (folder / "empty.csv").write_bytes(b"")
        (folder / "spec.toml").write_text(SPECIFICATION)
        (folder / "config.json").write_text(CONFIG)
        shutil.copy(FIXTURES / "data" / "vectors.npz", folder / "vectors.npz")
        for name in SOUND["folder"]:
            shutil.copytree(FIXTURES / Path(name).name, folder / name)
        results = FIXTURES.parents[2] / "results"
        (folder / "results").mkdir()
        for name in SOUND["names"]:
            shutil.copy(results / f"{name}.json", folder / "results")
        with Store(folder / "runs.sqlite") as store:
            for seed in range(4):
                store.add(record(seed))
            store.connection.execute("PRAGMA journal_mode = DELETE")
        (folder / "folder").mkdir()
        with chdir(folder):
            for path in self.commands:
                run_command(*path, "--help")

    def attack(self, random: Random, folder: Path) -> str:
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        pipes = [folder / name for name in ("pipe", "pipe.csv", "pipe.onnx", "pipe.svg")]
        for pipe in pipes:
            os.mkfifo(pipe)
        path = random.choice(list(self.commands))
        arguments = [*path, *_arguments(path, self.commands[path].params, random)]
        (folder / "ARGUMENTS.txt").write_text(repr(arguments))
        with chdir(folder):
            run_command(*arguments)
        if not all(pipe.is_fifo() for pipe in pipes):
            raise Wrong("a file took the place of a pipe")
        return "taken"


def _commands(parent: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is no group, by the words that name it."""
    context = click.Context(parent)
    for name in parent.list_commands(context):
        command = parent.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))
        elif command is not None and name not in LEFT_OUT:
            yield (*path, name), command


def _arguments(path: tuple[str, ...], parameters: list[click.Parameter], random: Random) -> list[str]:
    """Sound values for what is required and for a few options more, one or two of them made odd."""
    whole = random.choice(WHOLE[path[0]]) if path[0] in WHOLE and random.random() < 0.7 else ()
    required = [one for one in parameters if one.required and not whole]
    others = [
        one
        for one in parameters
        if not one.required and one.name not in LEFT_OUT and (path[0], one.name) not in TOO_LONG
        if not (whole and isinstance(one, click.Argument))
    ]
    chosen = required + random.sample(others, min(len(others), random.choice((0, 1, 1, 2, 4))))
    odd = set(random.sample(range(len(chosen)), min(len(chosen), random.choice((0, 1, 1, 2)))))
    found = [*whole, *([random.choice(NEVER_LONG[path[0]])] if path[0] in NEVER_LONG else [])]
    texts: list[str] = []
    for place, one in enumerate(chosen):
        value = random.choice(ODD) if place in odd else _sound(one, random)
        if isinstance(one, click.Argument):
            texts.append(value)
        elif isinstance(one, click.Option) and one.is_flag:
            found.append(random.choice([*one.opts, *one.secondary_opts]))
        elif value is not None:
            name = max(one.opts, key=len)
            found += [f"{name}={value}"] if random.random() < 0.5 else [name, value]
    if random.random() < 0.3:
        found.append("--json")
    return [*found, "--debug", *(["--"] if random.random() < 0.2 else []), *texts]


def _sound(one: click.Parameter, random: Random) -> Any:
    kind: Any = one.type
    if isinstance(kind, click.Choice):
        return str(random.choice(kind.choices))
    if one.name in SOUND:
        return random.choice(SOUND[one.name])
    return random.choice(("1", "2", "3")) if kind.name in ("number", "integer", "float") else "a"
