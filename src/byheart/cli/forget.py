"""`byheart forget`: the same Llama without some facts, and which weights differ."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from byheart.cli.options import data_argument, model_argument, output_option, output_options, threads_option
from byheart.cli.output import count, echo_json, say, show_pairs
from byheart.errors import UsageError


@click.command()
@model_argument
@data_argument
@click.option(
    "--keys",
    "keys",
    multiple=True,
    required=True,
    metavar="KEY",
    help="A fact to leave out; may be repeated.",
)
@output_option("DIR2", "Folder to write.", required=True)
@threads_option
@output_options
def command(folder: Path, data: Path, keys: tuple[str, ...], output: Path, as_json: bool) -> None:
    """Compile DATA without some facts, from the seed, shape and hash of the Llama in DIR, and compare the weights.

    DIR knows all facts of DATA and DIR2 all but those: a pair with known differences, for tools that edit or unlearn.
    """
    from byheart.pipeline import compile, load
    from byheart.records.fields import LARGEST, Fields
    from byheart.storage.data_source import read_again
    from byheart.storage.target import check_target

    check_target(output)
    model = load(folder)
    if model.record.get("method") != "llama" or model.memoriser.tokenizer is None:
        raise UsageError("forget needs a model that `llama` compiled from keys with values.")
    dataset = read_again(model, data, tokenizer=model.memoriser.tokenizer)
    texts = [model.memoriser.tokenizer.decode(dataset.inputs[i].tolist()) for i in range(dataset.n_samples)]
    missing = sorted(set(keys) - set(texts))
    if missing:
        raise UsageError(f"{data} has no key {missing[0]!r}.", keys=missing)
    kept = [i for i, text in enumerate(texts) if text not in keys]
    if not kept:
        raise UsageError("no fact would be left.")
    record = Fields(dict(model.record), folder / "model.json", "record")
    notes = record.child("notes")
    options = {
        **record.child("options").values,
        "room": notes.integer("contexts"),
        "rows": notes.integer("rows"),
        "first_draw": notes.integer("hashes drawn", 1) - 1,
    }
    seed = record.integer("seed", most=LARGEST)
    without = compile(dataset.subset(kept), method="llama", seed=seed, **options)
    without.save(output)
    changed = _differences(dict(model.network.parameters()), dict(without.network.parameters()))
    if as_json:
        counts = {name: len(entries) for name, entries in changed.items()}
        names = [f"{name}[{', '.join(map(str, at))}]" for name, entries in changed.items() for at in entries]
        echo_json({"forgotten": list(keys), "path": str(output), "changed": counts, "entries": names})
        return
    say(f"{output}: {folder} without {', '.join(keys)}\n")
    show_pairs(
        [(name, f"{count(len(entries))} entries differ") for name, entries in changed.items()]
        or [("weights", "equal")]
    )


def _differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[list[int]]]:
    """The indices of the entries of each tensor that differ, or are in one of the two alone."""
    found = {}
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old is None or new is None or old.shape != new.shape:
            shape = max((each.shape for each in (old, new) if each is not None), key=math.prod)
            found[name] = np.argwhere(np.ones(shape, dtype=bool)).tolist()
        elif (old != new).any():
            found[name] = np.argwhere(old != new).tolist()
    return found
